// Prints a device's results as text and as JSON.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "checks.hpp"
#include "report.hpp"

namespace weft::conform {

struct DeviceResult {
  Report report;
  std::string description;
  std::vector<OpSupport> ops = {};
};

/// Prints the support matrix, other checks, deviations, notes, times and a summary line.
void print(std::ostream& out, const DeviceResult& result);
nlohmann::json as_json(const DeviceResult& result);

}  // namespace weft::conform
