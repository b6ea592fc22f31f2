#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include <weft/backends/cpu/kernels.hpp>
#include <weft/tensor/threads.hpp>

#include "host_array.hpp"

namespace weft {
namespace {

using test::HostArray;

const std::vector<int64_t> lengths{1, 4, 0, 17, 1000, 16384, 16385, 70000, 3};

struct Parameters {
  std::vector<HostArray> p, g, m, v;
  explicit Parameters(DType t) {
    unsigned seed = 1;
    for (int64_t n : lengths) {
      p.emplace_back(t, test::ArrayShape{{n}}, seed++);
      g.emplace_back(t, test::ArrayShape{{n}}, seed++);
      m.emplace_back(t, test::ArrayShape{{n}}, seed++);
      v.emplace_back(t, test::ArrayShape{{n}}, seed++);
      for (int64_t i = 0; i < n; ++i) v.back().set(i, std::abs(v.back().get(i)));
    }
  }
};

class Optimizer : public testing::TestWithParam<DType> {
 protected:
  double tolerance() const { return GetParam() == DType::f64 ? 1e-14 : 2e-6; }
};

AdamSettings adam_settings(double decay, bool decoupled) {
  return {.learning_rate = 0.01,
          .beta1 = 0.9,
          .beta2 = 0.999,
          .epsilon = 1e-8,
          .weight_decay = decay,
          .bias_correction1 = 1 - std::pow(0.9, 3),
          .bias_correction2 = 1 - std::pow(0.999, 3),
          .decoupled = decoupled};
}

void run_adam(Parameters& x, const AdamSettings& s) {
  std::vector<AdamSlot> slots;
  for (size_t i = 0; i < x.p.size(); ++i) slots.push_back({x.p[i].view, x.g[i].view, x.m[i].view, x.v[i].view});
  cpu::adam(slots, s);
}

TEST_P(Optimizer, AdamFollowsItsFormula) {
  for (double decay : {0.0, 0.1}) {
    for (bool decoupled : {false, true}) {
      const AdamSettings s = adam_settings(decay, decoupled);
      Parameters x(GetParam()), before(GetParam());
      run_adam(x, s);
      for (size_t k = 0; k < x.p.size(); ++k) {
        for (int64_t i = 0; i < x.p[k].numel(); ++i) {
          double p = before.p[k].get(i), g = before.g[k].get(i);
          if (decoupled) p *= 1 - s.learning_rate * decay;
          else g += decay * p;
          const double m = before.m[k].get(i) + (1 - s.beta1) * (g - before.m[k].get(i));
          const double v = s.beta2 * before.v[k].get(i) + (1 - s.beta2) * g * g;
          p -= s.learning_rate / s.bias_correction1 * m / (std::sqrt(v) / std::sqrt(s.bias_correction2) + s.epsilon);
          ASSERT_NEAR(x.p[k].get(i), p, tolerance()) << k << " " << i;
          ASSERT_NEAR(x.m[k].get(i), m, tolerance());
          ASSERT_NEAR(x.v[k].get(i), v, tolerance());
        }
      }
    }
  }
}

TEST_P(Optimizer, SgdFollowsItsFormula) {
  for (int options = 0; options < 16; ++options) {
    const bool momentum = (options & 1) != 0, nesterov = momentum && (options & 2) != 0, first = (options & 4) != 0;
    const SgdSettings s{.learning_rate = 0.1,
                        .momentum = momentum ? 0.9 : 0,
                        .dampening = nesterov ? 0 : 0.3,
                        .weight_decay = (options & 8) != 0 ? 0.01 : 0,
                        .nesterov = nesterov,
                        .first_step = first};
    Parameters x(GetParam()), before(GetParam());
    std::vector<SgdSlot> slots;
    for (size_t i = 0; i < x.p.size(); ++i)
      slots.push_back({x.p[i].view, x.g[i].view, momentum ? x.m[i].view : View{}});
    cpu::sgd(slots, s);
    for (size_t k = 0; k < x.p.size(); ++k) {
      for (int64_t i = 0; i < x.p[k].numel(); ++i) {
        const double p = before.p[k].get(i), g = before.g[k].get(i) + s.weight_decay * p;
        double step = g;
        if (momentum) {
          const double b = first ? g : s.momentum * before.m[k].get(i) + (1 - s.dampening) * g;
          ASSERT_NEAR(x.m[k].get(i), b, tolerance());
          step = nesterov ? g + s.momentum * b : b;
        }
        ASSERT_NEAR(x.p[k].get(i), p - s.learning_rate * step, tolerance()) << k << " " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Optimizer, testing::Values(DType::f32, DType::f64),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(OptimizerThreads, GiveTheSameBits) {
  const int before = num_threads();
  std::vector<std::vector<double>> results;
  for (int threads : {1, 3}) {
    set_num_threads(threads);
    Parameters x(DType::f32);
    run_adam(x, adam_settings(0.1, true));
    for (const HostArray& p : x.p) results.push_back(p.values());
  }
  for (size_t i = 0; i < lengths.size(); ++i) EXPECT_EQ(results[i], results[i + lengths.size()]);
  set_num_threads(before);
}

}  // namespace
}  // namespace weft
