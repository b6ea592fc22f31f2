// Frame of all pages. page_frame.css and page_frame.js hold their common style and drawing functions, which need no
// network and no library.
#include "../detail/page_frame.hpp"

#include <fmt/format.h>

#include <weft_embedded/page_frame.hpp>

#include "../detail/text.hpp"

namespace weft::detail {

std::string framed_page(const PageParts& page) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n"
      "<style>\n{}\n{}</style>\n</head>\n<body>\n{}<script type=\"application/json\" id=\"data\">{}</script>\n"
      "<script>\n{}\n{}</script>\n</body>\n</html>\n",
      markup(page.title), embedded::page_frame_css, page.style, page.body, page.json, embedded::page_frame_js,
      page.script);
}

}  // namespace weft::detail
