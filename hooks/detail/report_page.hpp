// The HTML pages of reports, without their data. Not public.
#pragma once

#include <string>

namespace weft::detail {

/// Returns a self-contained HTML page that shows `json`.
std::string report_page(const std::string& title, const std::string& json);
/// Same for two runs.
std::string comparison_page(const std::string& title, const std::string& json);

}  // namespace weft::detail
