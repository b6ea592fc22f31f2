// Helpers of the tests of weft::map.
#pragma once

#include <cmath>
#include <functional>
#include <limits>

#include <weft/map/map.hpp>

#include "../ops/values.hpp"

namespace weft::testing {

inline void expect_close(const Doubles& actual, const Doubles& expected, double relative) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], relative * (1 + std::abs(expected[i]))) << "element " << i;
  }
}

}  // namespace weft::testing
