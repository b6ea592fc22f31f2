// The frame of a page that shows data and loads nothing. Not public.
#pragma once

#include <string>
#include <string_view>

#include "../../tensor/config.hpp"

namespace weft::detail {

struct PageParts {
  std::string_view title, style, body;
  /// What the script finds as `data`; it has no '<'.
  std::string_view json;
  /// May call what page_frame.cpp has: svgNode, show, tell, hush, path, labels.
  std::string_view script;
};

/// A whole HTML page.
WEFT_API std::string framed_page(const PageParts& page);

}  // namespace weft::detail
