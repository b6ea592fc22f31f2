#pragma once

#include <string>
#include <vector>

#include <weft/map/map_loops.hpp>

namespace weft::testing {

struct MapCase {
  std::string name;
  /// Instructions an element.
  int limit;
  /// Of a function without captures.
  const detail::MapLoop* loop;
};
std::vector<MapCase>& map_cases();

}  // namespace weft::testing
