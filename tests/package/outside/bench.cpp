// An outside project measures an op of its own.
#include <weft/bench.hpp>
#include <weft/weft.hpp>

int main() {
  const weft::Tensor x = weft::randn({1000});
  const auto result = weft::bench::compare(
      {{"square", [&] { weft::Tensor y = weft::square(x); }}, {"product", [&] { weft::Tensor y = x * x; }}},
      {.bytes = 8000, .operations = 1000, .seconds = 0.1});
  return result.cases.size() == 2 && result.cases[1].median > 0 && result.cases[1].of_roof > 0 ? 0 : 1;
}
