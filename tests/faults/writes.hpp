#pragma once

#include <memory>

namespace weft::faults {
class Scenario;
std::unique_ptr<Scenario> writes_through_views();
std::unique_ptr<Scenario> indexing_writes();
}  // namespace weft::faults
