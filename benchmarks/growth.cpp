// Cost by problem size: each case from 1e2 to 1e8 elements, for the curves of picture.py. Names end with the size.
#include <cmath>
#include <cstdio>

#include "case.hpp"

namespace weft::bench {

namespace {

std::string exponent_text(double n) {
  char text[16];
  std::snprintf(text, sizeof text, "%.0e", n);  // 3e+04
  std::string out(text);
  out.erase(out.find('+'), 1);
  while (out.size() > 3 && out[out.find('e') + 1] == '0') out.erase(out.find('e') + 1, 1);
  return out;
}

/// `make` takes the number of elements and returns the function to run with its work. It is called when the case runs,
/// so that memory is held for one case at a time.
template <class Make>
void add_growing(const std::string& family, double n, Rate rate, Make make) {
  benchmark::RegisterBenchmark(("grow." + family + "." + exponent_text(n)).c_str(), [=](benchmark::State& state) {
    const NoGradGuard guard;
    auto [body, elements, work] = make(n);
    body();
    for (auto _ : state) body();
    state.counters["elements"] = elements;
    state.counters[rate == Rate::bytes ? "GB/s" : "GFLOP/s"] =
        benchmark::Counter(work / 1e9, benchmark::Counter::kIsIterationInvariantRate);
  });
}

template <class F>
struct Growing {
  F body;
  /// `elements`: elements of the result or of the largest operand, the divisor of the curve.
  double elements, work;
};
template <class F>
Growing(F, double, double) -> Growing<F>;

void add_memory_bound(double n) {
  add_growing("add", n, Rate::bytes, [](double size) {
    const auto count = static_cast<int64_t>(size);
    return Growing{[a = randn({count}), b = randn({count})] { Tensor r = a + b; }, size, 12 * size};
  });
  add_growing("sum", n, Rate::bytes, [](double size) {
    const auto count = static_cast<int64_t>(size);
    return Growing{[a = randn({count})] { Tensor r = a.sum(); }, size, 4 * size};
  });
  // Rows of 1000, or one short row.
  add_growing("softmax", n, Rate::bytes, [](double size) {
    const auto count = static_cast<int64_t>(size), columns = std::min<int64_t>(count, 1000);
    const Tensor a = randn({count / columns, columns});
    return Growing{[a] { Tensor r = softmax(a, 1); }, double(a.numel()), 8.0 * double(a.numel())};
  });
}

/// n elements in each of the two operands: at 1e8 one product takes 2e12 operations.
void add_matmul(double n) {
  add_growing("matmul", n, Rate::flops, [](double size) {
    const auto side = static_cast<int64_t>(std::lround(std::sqrt(size)));
    const double cube = double(side) * double(side) * double(side);
    return Growing{[a = randn({side, side}), b = randn({side, side})] { Tensor r = matmul(a, b); }, double(side * side),
                   2 * cube};
  });
}

/// n elements in each of query, key and value: heads of size 64, sequences of up to 512, then more sequences.
void add_attention(double n) {
  add_growing("attention", n, Rate::flops, [](double size) {
    const int64_t rows = (static_cast<int64_t>(size) + 63) / 64, length = std::min<int64_t>(rows, 512);
    const int64_t heads = rows / length;
    const Tensor q = randn({1, heads, length, 64}), k = randn_like(q), v = randn_like(q);
    const double work = 4.0 * 64 * double(heads) * double(length) * double(length);
    return Growing{[=] { Tensor r = scaled_dot_product_attention(q, k, v); }, double(q.numel()), work};
  });
}

}  // namespace

void add_growth_cases() {
  for (int step = 0; step <= 12; ++step) {
    const double n = (step % 2 == 0 ? 1 : 3) * std::pow(10.0, 2 + step / 2);
    add_memory_bound(n);
    add_matmul(n);
    add_attention(n);
  }
}

}  // namespace weft::bench
