#include <weft/weft.hpp>
#include <weft/hooks/break_on.hpp>

using namespace weft;

void stop(const Tensor& matrix, const Tensor& leaf, const Tensor& none, const Dims& shape, Device device) {
  asm volatile("" : : "r"(&matrix), "r"(&leaf), "r"(&none), "r"(&shape), "r"(&device) : "memory");
}

void stop_in_graph(const Tensor& loss, const Node& node, const Location& place, const View& view) {
  asm volatile("" : : "r"(&loss), "r"(&node), "r"(&place), "r"(&view) : "memory");
}

int main() {
  const Tensor matrix = arange(6).view({2, 3}).t();
  const Tensor leaf = tensor({1.5, -2.0}, bf16).requires_grad_();
  stop(matrix, leaf, Tensor(), {2, 3}, Device("cpu"));

  const Tensor x = tensor({0.0, 4.0}).requires_grad_();
  const Tensor root = sqrt(x * x);
  root.register_hook([](const Tensor&) {});
  const Tensor loss = (root * root).sum();
  stop_in_graph(loss, *root.impl()->node, root.impl()->node->where, x.raw_view());

  const BreakOn forward({.op = "log"});
  log(x.detach());
  const BreakOn backward({.non_finite = true, .repro = ""});
  loss.backward();
}
