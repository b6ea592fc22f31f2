// A backward pass in two beside the same at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <weft/distributed/pipeline/split_backward-inl.hpp>
#include <weft/weft.hpp>

#include "ranks.hpp"

namespace weft::distributed {
namespace {

using detail::SplitBackward;
using Tensors = std::vector<Tensor>;

/// Fresh leaves: inputs from another stage, and weights.
struct Leaves {
  Tensor x = input_of(1, {4, 6}).requires_grad_(), other = input_of(2, {4, 6}).requires_grad_();
  Tensor w = input_of(3, {6, 6}).requires_grad_(), v = input_of(4, {6, 6}).requires_grad_(),
         b = input_of(5, {6}).requires_grad_();
};
using Function = std::function<Tensors(const Leaves&)>;

void expect_same(const Function& f) {
  const Leaves at_once, apart;
  const auto seeds_of = [](const Tensors& outputs) {
    Tensors seeds;
    for (const Tensor& y : outputs) seeds.push_back(input_of(9, y.shape(), y.dtype()));
    return seeds;
  };
  const Tensors expected = f(at_once), outputs = f(apart);
  backward(expected, seeds_of(expected));
  SplitBackward split(outputs, seeds_of(outputs), {apart.x, apart.other});
  const auto same = [](const Tensor& a, const Tensor& b) {
    return a.defined() == b.defined() && (!a.defined() || same_bits(a, b));
  };
  EXPECT_TRUE(same(split.gradients()[0], at_once.x.grad()));
  EXPECT_TRUE(same(split.gradients()[1], at_once.other.grad()));
  for (const Tensor& weight : {apart.w, apart.v, apart.b}) EXPECT_FALSE(weight.grad().defined());
  split.finish();
  EXPECT_TRUE(same(apart.w.grad(), at_once.w.grad()));
  EXPECT_TRUE(same(apart.v.grad(), at_once.v.grad()));
  EXPECT_TRUE(same(apart.b.grad(), at_once.b.grad()));
  EXPECT_FALSE(apart.x.grad().defined());
}

TEST(SplitBackward, IsOneBackwardBitForBit) {
  expect_same([](const Leaves& l) { return Tensors{linear(tanh(linear(l.x, l.w, l.b)), l.v)}; });
  expect_same([](const Leaves& l) { return Tensors{matmul(matmul(l.x, l.w), l.w) + matmul(l.other, l.w) * l.b}; });
}
TEST(SplitBackward, WeightsMayBeComputed) {
  expect_same([](const Leaves& l) {
    const Tensor weight = softmax(l.w * l.v, 0);
    return Tensors{matmul(matmul(l.x, weight), weight), (matmul(l.x.to(bf16), l.v.to(bf16)) + l.b.to(bf16)).to(f32)};
  });
}
TEST(SplitBackward, OutputsMayDependOnWeightsAlone) {
  expect_same([](const Leaves& l) { return Tensors{matmul(l.x, l.w), tanh(l.v), square(l.w)}; });
  expect_same([](const Leaves& l) { return Tensors{tanh(l.v)}; });
}
TEST(SplitBackward, InputsMayBeOutputsViewsAndPartsOfOps) {
  expect_same([](const Leaves& l) {
    const auto parts = split_with_sizes(linear(l.x, l.w, l.b), {2, 4}, 1);
    return Tensors{l.x, parts[1] * l.b.narrow(0, 0, 4), matmul(parts[0].t(), l.other), l.other.t()};
  });
}
TEST(SplitBackward, CheckpointedFunctionsRunAgain) {
  expect_same([](const Leaves& l) {
    static const auto f = [](const Tensor& x, const Tensor& w) { return tanh(matmul(tanh(matmul(x, w)), w)); };
    return Tensors{checkpoint(f, l.x, l.w) * l.b};
  });
}
TEST(SplitBackward, HooksRunOnceEachInItsHalf) {
  const Leaves l;
  std::vector<std::string> calls;
  const Tensor h = linear(l.x, l.w, l.b);
  const auto note = [&](const char* what) { return [&calls, what](const Tensor&) { calls.emplace_back(what); }; };
  const HookHandle activation = h.register_hook(note("h")), weight = l.w.register_hook(note("w")),
                   ready = l.w.register_post_accumulate_grad_hook(note("w ready"));
  const Tensor y = tanh(h);
  SplitBackward split({y}, {ones_like(y)}, {l.x});
  EXPECT_THAT(calls, ::testing::ElementsAre("h"));
  split.finish();
  EXPECT_THAT(calls, ::testing::ElementsAre("h", "w", "w ready"));
}
TEST(SplitBackward, ComputesNoProductTwice) {
  const auto products = [](const std::function<void()>& run) {
    Profiler profiler;
    profiler.start();
    run();
    profiler.stop();
    return std::ranges::count_if(profiler.events(), [](const ProfiledEvent& e) {
      return e.kind == ProfiledKind::kernel && std::string_view(e.kernel).find("matmul") != std::string_view::npos;
    });
  };
  const Leaves l;
  const auto net = [&] { return matmul(tanh(matmul(tanh(matmul(l.x, l.w)), l.v)), l.w); };
  const Tensor at_once = net(), apart = net();
  EXPECT_EQ(products([&] { backward(std::vector{at_once}, std::vector{ones_like(at_once)}); }), 6);
  std::optional<SplitBackward> split;
  EXPECT_EQ(products([&] { split.emplace(Tensors{apart}, Tensors{ones_like(apart)}, Tensors{l.x}); }), 3);
  EXPECT_EQ(products([&] { split->finish(); }), 3);
}

}  // namespace
}  // namespace weft::distributed
