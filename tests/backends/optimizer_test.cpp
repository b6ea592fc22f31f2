#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include <weft/backends/cpu/kernels.hpp>
#include <weft/backends/functors/optimizers.hpp>
#include <weft/tensor/threads.hpp>

#include "host_array.hpp"

namespace weft {
namespace {

using test::HostArray;

const std::vector<int64_t> lengths{1, 4, 0, 17, 1000, 16384, 16385, 70000, 3};

/// Parameters and gradients of one dtype, with state for any step.
struct Parameters {
  std::vector<HostArray> p, g, state[3];
  explicit Parameters(DType t) {
    unsigned seed = 1;
    for (int64_t n : lengths) {
      p.emplace_back(t, test::ArrayShape{{n}}, seed++);
      g.emplace_back(t, test::ArrayShape{{n}}, seed++);
      for (auto& list : state) {
        list.emplace_back(t == DType::f64 ? t : DType::f32, test::ArrayShape{{n}}, seed++);
        // Squares are not negative, and above those of means.
        for (int64_t i = 0; i < n; ++i)
          list.back().set(i, (&list == &state[1] ? 0 : 40) + std::abs(list.back().get(i)));
      }
    }
  }
  std::vector<OptimizerSlot> slots(size_t states) const {
    std::vector<OptimizerSlot> out;
    for (size_t i = 0; i < p.size(); ++i) {
      out.push_back({p[i].view, g[i].view, {}});
      for (size_t k = 0; k < states; ++k) out.back().state[k] = state[k][i].view;
    }
    return out;
  }
};

/// Factors as optimizers have them, and all that a formula may decide by.
OptimizerSettings settings_of(int flags) {
  OptimizerSettings s = {};
  s.sign = (flags & 1) != 0 ? -1 : 1;
  s.decays = (flags & 2) != 0;
  s.l2 = s.decays != 0 ? 0.1 : 0;
  s.nesterov = s.first = s.rectified = (flags & 4) != 0;
  s.keep = 0.99, s.rate = 0.03, s.gradient_rate = 0.01;
  s.decay1 = 0.9, s.fresh1 = 0.1, s.decay2 = 0.99, s.fresh2 = 0.01;
  s.root = 3, s.epsilon = 1e-3;
  s.shrink = 0.5, s.grow = 1.25, s.least = 0.01, s.most = 2;
  return s;
}

template <class F>
void expect_formula(OptimizerStep step, DType t, const OptimizerSettings& s) {
  const Parameters x(t), before(t);
  cpu::optimizer_step(step, x.slots(F::states), s);
  const double near = t == DType::f64 ? 1e-14 : 1e-5, rounded = t == DType::f16 ? 0x1p-10 : 0x1p-7;
  for (size_t k = 0; k < x.p.size(); ++k) {
    for (int64_t i = 0; i < x.p[k].numel(); ++i) {
      double p = before.p[k].get(i), state[3];
      for (int n = 0; n < 3; ++n) state[n] = before.state[n][k].get(i);
      F::step(p, before.g[k].get(i), state[0], state[1], state[2], s);
      const bool is_small = t == DType::f16 || t == DType::bf16;
      ASSERT_NEAR(x.p[k].get(i), p, is_small ? rounded * std::abs(p) + 1e-4 : near * (1 + std::abs(p)))
          << k << " " << i;
      for (int n = 0; n < 3; ++n) ASSERT_NEAR(x.state[n][k].get(i), state[n], near * (1 + std::abs(state[n])));
    }
  }
}

class Optimizer : public testing::TestWithParam<DType> {};

// Against scalar C++: every SIMD loop, its remainders, pieces of large parameters, blocks of 16-bit ones. The formulas
// themselves are compared with PyTorch's numbers in tests/optim/.
TEST_P(Optimizer, EveryStepFollowsItsFormula) {
  for (int flags = 0; flags < 8; ++flags) {
#define WEFT_ROW(name, F, ...)                                                        \
  {                                                                                   \
    SCOPED_TRACE(#name);                                                              \
    expect_formula<functors::F>(OptimizerStep::name, GetParam(), settings_of(flags)); \
  }
    WEFT_OPTIMIZER_STEPS(WEFT_ROW)
#undef WEFT_ROW
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Optimizer, testing::Values(DType::f32, DType::f64, DType::f16, DType::bf16),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(OptimizerThreads, GiveTheSameBits) {
  const int before = num_threads();
  std::vector<std::vector<double>> results;
  for (int threads : {1, 3}) {
    set_num_threads(threads);
    const Parameters x(DType::f32);
    cpu::optimizer_step(OptimizerStep::adam, x.slots(2), settings_of(0));
    for (const HostArray& p : x.p) results.push_back(p.values());
  }
  for (size_t i = 0; i < lengths.size(); ++i) EXPECT_EQ(results[i], results[i + lengths.size()]);
  set_num_threads(before);
}

}  // namespace
}  // namespace weft
