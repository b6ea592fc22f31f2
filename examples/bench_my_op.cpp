// Compares a user-defined op with library ops; run it with `./weft bench --file examples/bench_my_op.cpp`.
#include <weft/bench.hpp>
#include <weft/map/map.hpp>
#include <weft/weft.hpp>

using namespace weft;

int main() {
  const NoGradGuard no_grad;
  const Tensor x = randn({1'000'000}), y = randn({1'000'000});
  // Each call reads x and y and writes a result. An exponential counts as 18 operations, the cost of its formula.
  const bench::Comparison result = bench::compare(
      {{"map", [&] { Tensor r = map([](auto a, auto b) { return a * exp(-b); }, x, y); }},
       {"ops", [&] { Tensor r = x * exp(-y); }}},
      {.bytes = 12.0 * static_cast<double>(x.numel()), .operations = 20.0 * static_cast<double>(x.numel())});
  return result.cases[0].median > 0 ? 0 : 1;
}
