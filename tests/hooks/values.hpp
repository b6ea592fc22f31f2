// Helpers of the tests of hooks.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <weft/weft.hpp>

namespace weft {

using Doubles = std::vector<double>;
inline Doubles values(const Tensor& t) { return t.to_vector<double>(); }

/// Everything that a test made is gone when it ends.
class LiveCount : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(detail::live_tensors(), before); }
  int64_t before = detail::live_tensors();
};

/// The text of the error that `f` raises.
template <class E, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& other) {
    return std::string("another type of error: ") + other.what();
  }
  return "no error";
}

}  // namespace weft
