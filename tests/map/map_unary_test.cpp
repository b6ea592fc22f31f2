// Every unary row of backends/functors/ is in weft::map by its name, with the op's values and both derivatives.
#include "near.hpp"

namespace weft::testing {
namespace {

#define WEFT_COMPARE_UNARY(name, Functor, kind, low, high, ...)                        \
  TEST(MapUnary, name) {                                                               \
    const std::vector<Tensor> x = {leaf({40}, 7, low, high)};                          \
    const auto f = [](Inputs t) { return map([](auto v) { return name(v); }, t[0]); }; \
    expect_close(values(f(x)), values(weft::name(x[0])), 1e-13);                       \
    const std::vector<Tensor> x32 = {x[0].detach().to(f32)};                           \
    expect_close(values(f(x32)), values(weft::name(x32[0])), 1e-6);                    \
    EXPECT_TRUE(gradcheck(f, x));                                                      \
    EXPECT_TRUE(gradgradcheck(f, x));                                                  \
  }
WEFT_UNARY_OPS(WEFT_COMPARE_UNARY)

}  // namespace
}  // namespace weft::testing
