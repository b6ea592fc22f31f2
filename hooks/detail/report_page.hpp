// The pages of reports, without their data. Not public.
#pragma once

#include <string>

namespace weft::detail {

/// A whole HTML page that shows `json` and loads nothing.
std::string report_page(const std::string& title, const std::string& json);
/// The same of two runs.
std::string comparison_page(const std::string& title, const std::string& json);

}  // namespace weft::detail
