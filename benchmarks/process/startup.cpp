// A whole process from its start to the first results; process.py runs it and measures time and memory.
#include <cstdio>
#include <cstring>

#include <weft/weft.hpp>

#include "peak.hpp"

int main(int argc, char** argv) {
  const weft::Tensor a = weft::ones({4}), b = a + a;
  std::printf("%g\n", b.sum().item<float>());
  if (argc > 1 && std::strcmp(argv[1], "backward") == 0) {
    const weft::Tensor x = weft::ones({4, 4}).requires_grad_();
    weft::matmul(x, x).sum().backward();
    std::printf("%g\n", x.grad().sum().item<float>());
  }
  if (argc > 1 && std::strcmp(argv[1], "peak") == 0) print_peak();
}
