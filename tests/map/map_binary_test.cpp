// Every row of two and three operands is in weft::map by its name, with the op's values and both derivatives.
#include "near.hpp"

namespace weft::testing {
namespace {

#define WEFT_COMPARE_BINARY(name, Functor, kind, low_a, high_a, low_b, high_b, ...)                     \
  TEST(MapBinary, name) {                                                                               \
    const std::vector<Tensor> x = {leaf({40}, 7, low_a, high_a), leaf({40}, 8, low_b, high_b)};         \
    const auto f = [](Inputs t) { return map([](auto a, auto b) { return name(a, b); }, t[0], t[1]); }; \
    expect_close(values(f(x)), values(weft::name(x[0], x[1])), 1e-13);                                  \
    EXPECT_TRUE(gradcheck(f, x));                                                                       \
    EXPECT_TRUE(gradgradcheck(f, x));                                                                   \
  }
WEFT_BINARY_OPS(WEFT_COMPARE_BINARY)
#define WEFT_COMPARE_TERNARY(name, ...)                                                                       \
  TEST(MapTernary, name) {                                                                                    \
    const std::vector<Tensor> x = {leaf({40}, 7, -2, 2), leaf({40}, 8, -1.3, -0.3), leaf({40}, 9, 0.3, 1.3)}; \
    const auto f = [](Inputs t) {                                                                             \
      return map([](auto a, auto b, auto c) { return name(a, b, c); }, t[0], t[1], t[2]);                     \
    };                                                                                                        \
    expect_close(values(f(x)), values(weft::name(x[0], x[1], x[2])), 1e-13);                                  \
    EXPECT_TRUE(gradcheck(f, x));                                                                             \
    EXPECT_TRUE(gradgradcheck(f, x));                                                                         \
  }
WEFT_TERNARY_OPS(WEFT_COMPARE_TERNARY)

}  // namespace
}  // namespace weft::testing
