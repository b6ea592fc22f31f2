// The page of a report, without its data. Not public.
#pragma once

#include <string>

namespace weft::detail {

/// A whole HTML page that shows `json` and loads nothing.
std::string report_page(const std::string& title, const std::string& json);

}  // namespace weft::detail
