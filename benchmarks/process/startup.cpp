// A complete process from start to the first results. process.py measures its time and memory;
// tests/hpu_driver/first_op.sh measures the time to the first results of a device.
#include <cstdio>
#include <cstring>

#include <weft/weft.hpp>

#include "peak.hpp"

int main(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[1], "on") == 0) {
    const weft::Tensor x = weft::rand({4}).to(argv[2]);
    std::printf("%g\n", (weft::exp(x) + x).sum().item<float>());
    return 0;
  }
  const weft::Tensor a = weft::ones({4}), b = a + a;
  std::printf("%g\n", b.sum().item<float>());
  if (argc > 1 && std::strcmp(argv[1], "backward") == 0) {
    const weft::Tensor x = weft::ones({4, 4}).requires_grad_();
    weft::matmul(x, x).sum().backward();
    std::printf("%g\n", x.grad().sum().item<float>());
  }
  if (argc > 1 && std::strcmp(argv[1], "peak") == 0) print_peak();
}
