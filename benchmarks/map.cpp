// weft::map compared with a hand-written loop for the same formula, compiled with the same flags, on one thread.
#include <cmath>

#include <weft/map/map.hpp>

#include "case.hpp"

namespace weft::bench {

namespace {

constexpr auto arithmetic = [](auto x, auto y) { return x * y + x - 2 * y; };
constexpr auto damped = [](auto x, auto y) { return x * exp(-y); };

void arithmetic_loop(float* __restrict out, const float* __restrict x, const float* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * y[i] + x[i] - 2 * y[i];
}
void damped_loop(float* __restrict out, const float* __restrict x, const float* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * std::exp(-y[i]);
}
void damped_gradient_loop(float* __restrict gx, float* __restrict gy, const float* __restrict g,
                          const float* __restrict x, const float* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float e = std::exp(-y[i]);
    gx[i] = g[i] * e;
    gy[i] = -g[i] * x[i] * e;
  }
}

void add_size(const std::string& size, int64_t n) {
  const Tensor a = randn({n}), b = randn({n}), g = randn({n});
  const double w = static_cast<double>(n);
  const auto name = [&](const char* op) { return "map." + std::string(op) + "." + size; };
  const auto plain = [&](const char* op, auto body) { add_case(name(op), body, Mode::no_grad, 12 * w, Rate::bytes); };
  plain("arithmetic", [=] { Tensor r = map(arithmetic, a, b); });
  plain("arithmetic_by_hand", [=] {
    Tensor r = empty({n});
    arithmetic_loop(r.data<float>(), a.data<float>(), b.data<float>(), n);
  });
  plain("arithmetic_by_ops", [=] { Tensor r = a * b + a - 2 * b; });
  plain("exp", [=] { Tensor r = map(damped, a, b); });
  plain("exp_by_hand", [=] {
    Tensor r = empty({n});
    damped_loop(r.data<float>(), a.data<float>(), b.data<float>(), n);
  });
  plain("exp_by_ops", [=] { Tensor r = a * exp(-b); });

  const Tensor x = randn({n}).requires_grad_(), y = randn({n}).requires_grad_();
  const auto recorded = [&](const char* op, auto body) {
    add_case(name(op), body, Mode::recording, 32 * w, Rate::bytes);
  };
  const auto backward = [=](auto function) {
    x.set_grad({});
    y.set_grad({});
    function().backward(g);
  };
  recorded("exp_grad", [=] { backward([&] { return map(damped, x, y); }); });
  recorded("exp_grad_by_hand", [=] {
    Tensor r = empty({n}), gx = empty({n}), gy = empty({n});
    damped_loop(r.data<float>(), x.data<float>(), y.data<float>(), n);
    damped_gradient_loop(gx.data<float>(), gy.data<float>(), g.data<float>(), x.data<float>(), y.data<float>(), n);
  });
  recorded("exp_grad_by_ops", [=] { backward([&] { return x * exp(-y); }); });
}

}  // namespace

void add_map_cases() {
  add_size("1e2", 100);
  add_size("1e4", 10000);
  add_size("1e7", 10000000);
}

}  // namespace weft::bench
