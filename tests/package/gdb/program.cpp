#include <weft/weft.hpp>

using namespace weft;

void stop(const Tensor& matrix, const Tensor& leaf, const Tensor& none, const Dims& shape, Device device) {
  asm volatile("" : : "r"(&matrix), "r"(&leaf), "r"(&none), "r"(&shape), "r"(&device) : "memory");
}

int main() {
  const Tensor matrix = arange(6).view({2, 3}).t();
  const Tensor leaf = tensor({1.5, -2.0}, bf16).requires_grad_();
  stop(matrix, leaf, Tensor(), {2, 3}, Device("cpu"));
}
