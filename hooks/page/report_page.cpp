// The report page; its style, body and script are report_page.css, .html and .js.
#include "../detail/report_page.hpp"

#include <weft_embedded/report_page.hpp>

#include "../detail/page_frame.hpp"

namespace weft::detail {

std::string report_page(const std::string& title, const std::string& json) {
  return framed_page({title, embedded::report_page_css, embedded::report_page_html, json, embedded::report_page_js});
}

}  // namespace weft::detail
