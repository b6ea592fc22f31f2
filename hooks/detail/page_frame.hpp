// Frame of a self-contained page that shows data. Not public.
#pragma once

#include <string>
#include <string_view>

#include "../../tensor/config.hpp"

namespace weft::detail {

struct PageParts {
  std::string_view title, style, body;
  /// Available to the script as `data`; must not contain '<'.
  std::string_view json;
  /// May use the functions in page_frame.js: svgNode, show, showTip, hideTip, path, labels.
  std::string_view script;
};

/// Returns a complete HTML page.
WEFT_API std::string framed_page(const PageParts& page);

}  // namespace weft::detail
