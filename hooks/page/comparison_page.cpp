// The page that compares two runs; its style, body and script are comparison_page.css, .html and .js.
#include <weft_embedded/comparison_page.hpp>

#include "../detail/page_frame.hpp"
#include "../detail/report_page.hpp"

namespace weft::detail {

std::string comparison_page(const std::string& title, const std::string& json) {
  return framed_page(
      {title, embedded::comparison_page_css, embedded::comparison_page_html, json, embedded::comparison_page_js});
}

}  // namespace weft::detail
