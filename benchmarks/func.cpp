// func::vmap; benchmarks/peers/func.py has the same cases in PyTorch. The cases loop.* process the examples one by one.
#include <memory>

#include <weft/func/func.hpp>

#include "case.hpp"

namespace weft::bench {

namespace {

/// The loss of a two-layer network on one row.
Tensor loss(std::span<const Tensor> x) {
  const Tensor hidden = tanh(matmul(x[4], x[0]) + x[1]);
  return square(matmul(hidden, x[2]) + x[3] - x[5]).sum();
}

std::vector<std::vector<Tensor>> slices(const std::vector<Tensor>& inputs, int64_t count, size_t shared) {
  std::vector<std::vector<Tensor>> all;
  for (int64_t n = 0; n < count; ++n) {
    std::vector<Tensor>& example = all.emplace_back(inputs);
    for (size_t i = shared; i < inputs.size(); ++i) example[i] = inputs[i].select(0, n);
  }
  return all;
}

/// Adds cases for `f` on all `count` examples at once and one by one; the first `shared` inputs are the same for all.
void add_both(const std::string& name, const func::Function& f, const std::vector<Tensor>& inputs, int64_t count,
              size_t shared) {
  std::vector<std::optional<int>> in_dims(inputs.size(), 0);
  for (size_t i = 0; i < shared; ++i) in_dims[i] = std::nullopt;
  const func::Function at_once = func::vmap(f, {.in_dims = in_dims});
  add_case("vmap." + name, [=] { at_once(std::span<const Tensor>(inputs)); });
  const auto each = std::make_shared<std::vector<std::vector<Tensor>>>(slices(inputs, count, shared));
  add_case("loop." + name, [=] {
    std::vector<Tensor> rows;
    for (const auto& example : *each) rows.push_back(f(std::span<const Tensor>(example)).tensors[0]);
    stack(rows);
  });
}

}  // namespace

void add_func_cases() {
  for (const int64_t count : {16, 256}) {
    const std::string batch = "." + std::to_string(count);
    const std::vector<Tensor> net = {randn({64, 64}), randn({64}),        randn({64, 8}),
                                     randn({8}),      randn({count, 64}), randn({count, 8})};
    add_both("example_gradients" + batch, func::grad(loss, {0, 1, 2, 3}), net, count, 4);
    const auto softmax_row = [](const Tensor& x) { return softmax(x * 2 + 1, 0); };
    add_both("softmax" + batch, softmax_row, {randn({count, 100})}, count, 0);
    const auto solution = [](const Tensor& a, const Tensor& b) { return linalg::solve(a, b); };
    const Tensor matrices = randn({count, 8, 8}) + 8 * eye(8);
    add_both("solve" + batch, solution, {matrices, randn({count, 8})}, count, 0);
  }
}

}  // namespace weft::bench
