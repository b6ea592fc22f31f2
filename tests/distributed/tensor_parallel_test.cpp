// Layers in parts on ranks beside the whole layer on one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include <weft/distributed/detail/member.hpp>

#include <temporary_folder.hpp>

#include "ranks.hpp"

namespace weft::distributed {
namespace {

constexpr int64_t features = 5, hidden = 24, sequence = 24, vocabulary = 48;

bool near(const Tensor& a, const Tensor& b) { return allclose(a, b, 1e-5, 1e-6); }

/// All ranks' parts of a tensor, as the whole.
Tensor whole_of(const Tensor& part, const Group& group, int dim) { return all_gather(part.detach(), group, dim); }

/// A fresh leaf.
Tensor leaf(const Tensor& x) { return x.clone().requires_grad_(); }

template <class Make>
auto seeded(Make make) {
  manual_seed(7);
  return make();
}

struct Dense : nn::Layer<Dense> {
  nn::Linear up{features, hidden}, down{hidden, features};
  Dense() { WEFT_REGISTER(up, down); }
  Tensor forward(const Tensor& x) const { return down(tanh(up(x))); }
};

struct InParts : nn::Layer<InParts> {
  ColumnParallelLinear up;
  RowParallelLinear down;
  InParts(const ColumnParallelOptions& first, const RowParallelOptions& second)
      : up(features, hidden, first), down(hidden, features, second) {
    WEFT_REGISTER(up, down);
  }
  Tensor forward(const Tensor& x) const { return down(tanh(up(x))); }
};

TEST(TensorParallel, InitialValuesEqualOneRankAndGeneratorsAdvanceEqually) {
  on_all_ranks([](const Group& group) {
    const Dense dense = seeded([] { return Dense(); });
    const Tensor after = randn({3});
    const InParts parts = seeded([&] { return InParts({.group = group}, {.group = group}); });
    EXPECT_TRUE(same_bits(randn({3}), after));
    EXPECT_TRUE(same_bits(whole_of(parts.up.weight, group, 0), dense.up.weight));
    EXPECT_TRUE(same_bits(whole_of(parts.up.bias, group, 0), dense.up.bias));
    EXPECT_TRUE(same_bits(whole_of(parts.down.weight, group, 1), dense.down.weight));
    EXPECT_TRUE(same_bits(parts.down.bias, dense.down.bias));
    EXPECT_EQ(parts.up.weight.shape(), (Dims{hidden / group.size(), features}));
    EXPECT_EQ(parts.down.weight.shape(), (Dims{features, hidden / group.size()}));
  });
}

/// The result, the loss's gradients of x and of all parameters.
void expect_equal(const Group& group, const InParts& parts, const std::function<Tensor(const Tensor&)>& call) {
  const Dense dense = seeded([] { return Dense(); });
  const Tensor weights = input_of(3, {2, sequence, features});
  const Tensor x = leaf(input_of(4, {2, sequence, features})), x_dense = leaf(x.detach());
  const Tensor y = call(x), y_dense = dense(x_dense);
  EXPECT_TRUE(near(y, y_dense));
  (y * weights).sum().backward();
  (y_dense * weights).sum().backward();
  EXPECT_TRUE(near(x.grad(), x_dense.grad()));
  EXPECT_TRUE(near(whole_of(parts.up.weight.grad(), group, 0), dense.up.weight.grad()));
  EXPECT_TRUE(near(whole_of(parts.up.bias.grad(), group, 0), dense.up.bias.grad()));
  EXPECT_TRUE(near(whole_of(parts.down.weight.grad(), group, 1), dense.down.weight.grad()));
  EXPECT_TRUE(near(parts.down.bias.grad(), dense.down.bias.grad()));
}

TEST(TensorParallel, ColumnThenRowIsTheDenseNet) {
  on_all_ranks([](const Group& group) {
    const InParts parts = seeded([&] { return InParts({.group = group}, {.group = group}); });
    expect_equal(group, parts, [&](const Tensor& x) { return parts(x); });
  });
}
TEST(TensorParallel, OutputsAreGatheredAndInputsScatteredOnRequest) {
  on_all_ranks([](const Group& group) {
    const InParts parts = seeded(
        [&] { return InParts({.gather_output = true, .group = group}, {.input_is_parallel = false, .group = group}); });
    EXPECT_EQ(parts.up(input_of(1, {4, features})).shape(), (Dims{4, hidden}));
    expect_equal(group, parts, [&](const Tensor& x) { return parts(x); });
  });
}
TEST(TensorParallel, SequencesInPartsBetweenTheLayersGiveTheDenseNet) {
  on_all_ranks([](const Group& group) {
    const InParts parts = seeded([&] {
      return InParts({.sequence_parallel = true, .group = group}, {.sequence_parallel = true, .group = group});
    });
    expect_equal(group, parts, [&](const Tensor& x) {
      const Tensor y = parts(scatter_to_tensor_parallel(x, group, -2));
      EXPECT_EQ(y.shape(), (Dims{2, sequence / group.size(), features}));
      return gather_from_tensor_parallel(y, group, -2);
    });
  });
}
TEST(TensorParallel, LayersWithoutBias) {
  on_all_ranks([](const Group& group) {
    const auto make = [&] { return InParts({.bias = false, .group = group}, {.bias = false, .group = group}); };
    const InParts parts = seeded(make);
    EXPECT_EQ(parts.parameters().size(), 2u);
    const Tensor x = input_of(1, {3, features});
    const Tensor expected =
        matmul(tanh(matmul(x, whole_of(parts.up.weight, group, 0).t())), whole_of(parts.down.weight, group, 1).t());
    EXPECT_TRUE(near(parts(x), expected));
  });
}

TEST(TensorParallel, LayersMoveToDevices) {
  if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "there is no HPU";
  LocalWorld(2).run([](const Group& group) {
    const Device hpu("hpu");
    const auto loss_and_gradient = [&](const Device& device) {
      auto table = seeded([&] { return VocabParallelEmbedding(vocabulary, features, {.group = group}); });
      auto net = seeded([&] { return InParts({.group = group}, {.group = group}); });
      table.to(device);
      net.to(device);
      const Tensor ids = tensor({0, 47, 5, 47}).to(device), targets = tensor({0, 3, 1, 2}).to(device);
      const Tensor logits = scatter_to_tensor_parallel(net(table(ids)).narrow(1, 0, 4), group);
      const Tensor loss = parallel_cross_entropy(logits, targets, {.group = group});
      loss.backward();
      EXPECT_EQ(table.weight.grad().device(), device);
      return std::pair(loss.to(Device()), table.weight.grad().to(Device()));
    };
    const auto expected = loss_and_gradient(Device()), got = loss_and_gradient(hpu);
    EXPECT_TRUE(near(got.first, expected.first));
    EXPECT_TRUE(near(got.second, expected.second));
  });
}

TEST(TensorParallel, SecondDerivativesEqualTheDenseNets) {
  on_all_ranks([](const Group& group) {
    const Dense dense = seeded([] { return Dense(); });
    const InParts parts = seeded([&] { return InParts({.group = group}, {.group = group}); });
    const auto second = [](const auto& net, const Tensor& x) {
      const Tensor first = grad({sum(square(net(x)))}, {x}, {}, {.create_graph = true})[0];
      return grad({sum(square(first))}, {x})[0];
    };
    const Tensor x = input_of(4, {3, features});
    EXPECT_TRUE(allclose(second(parts, leaf(x)), second(dense, leaf(x)), 1e-4, 1e-5));
  });
}

TEST(TensorParallel, ARegionsGradientEqualsThatOfOneLoss) {
  on_all_ranks([](const Group& group) {
    const auto k = static_cast<double>(group.size());
    const Tensor x = leaf(full({24, 2}, 3.f));
    (copy_to_tensor_parallel(x, group) * (group.rank() + 1)).sum().backward();
    EXPECT_TRUE(near(x.grad(), full({24, 2}, k * (k + 1) / 2)));
    const Tensor term = leaf(input_of(group.rank(), {2}));
    const Tensor total = reduce_from_tensor_parallel(term, group);
    EXPECT_TRUE(same_bits(total, all_reduce(term.detach(), group)));
    (total * 5).sum().backward();
    EXPECT_TRUE(near(term.grad(), full({2}, 5.f)));
    const Tensor mine = leaf(input_of(group.rank(), {2, 1})), weights = input_of(9, {2, group.size()});
    (gather_from_tensor_parallel(mine, group) * weights).sum().backward();
    EXPECT_TRUE(near(mine.grad(), weights.narrow(1, group.rank(), 1)));
    const Tensor all = leaf(input_of(2, {24, 2}));
    (scatter_to_tensor_parallel(all, group, 0) * (group.rank() + 1)).sum().backward();
    EXPECT_TRUE(near(all.grad()[group.size() == 1 ? 0 : 24 / group.size()], full({2}, group.size() == 1 ? 1.f : 2.f)));
  });
}

TEST(TensorParallel, SizesThatRanksDoNotDivideAreRefused) {
  LocalWorld(3).run([](const Group& group) {
    EXPECT_THROW(ColumnParallelLinear(3, 4, {.group = group}), ValueError);
    EXPECT_THROW(RowParallelLinear(4, 3, {.group = group}), ValueError);
    EXPECT_THROW(VocabParallelEmbedding(4, 3, {.group = group}), ValueError);
    EXPECT_THROW(ColumnParallelLinear(-3, 3, {.group = group}), ValueError);
    EXPECT_THROW(scatter_to_tensor_parallel(zeros({4}), group), ValueError);
    const RowParallelLinear row(3, 2, {.sequence_parallel = true, .group = group});
    EXPECT_THROW(row(zeros({4, 1})), ValueError);
    if (group.rank() != 0) return;
    EXPECT_THROW(ColumnParallelLinear(2, 3, {.group = group.subgroup({1, 2})}), ValueError);
  });
}

TEST(TensorParallel, EmbeddingOfAVocabularyInPartsIsTheWholeOne) {
  on_all_ranks([](const Group& group) {
    const nn::Embedding dense = seeded([] { return nn::Embedding(vocabulary, features); });
    const auto parts = seeded([&] { return VocabParallelEmbedding(vocabulary, features, {.group = group}); });
    EXPECT_TRUE(same_bits(whole_of(parts.weight, group, 0), dense.weight));
    const Tensor ids = tensor({0, 47, 5, 23, 24, 47, 0, 5}).reshape({2, 4}), weights = input_of(3, {2, 4, features});
    EXPECT_TRUE(same_bits(parts(ids) + 0.0, dense(ids) + 0.0));
    (parts(ids) * weights).sum().backward();
    (dense(ids) * weights).sum().backward();
    EXPECT_TRUE(near(whole_of(parts.weight.grad(), group, 0), dense.weight.grad()));
    EXPECT_THROW(parts(tensor({48})), IndexError);
    EXPECT_THROW(parts(tensor({-1})), IndexError);
    EXPECT_THROW(parts(tensor({1.0f})), DTypeError);
  });
}
TEST(TensorParallel, EmbeddingGivesItsPartOfTheSequenceOnRequest) {
  on_all_ranks([](const Group& group) {
    const nn::Embedding dense = seeded([] { return nn::Embedding(vocabulary, features); });
    const auto parts = seeded(
        [&] { return VocabParallelEmbedding(vocabulary, features, {.sequence_parallel = true, .group = group}); });
    const Tensor ids = arange(sequence) * 2, weights = input_of(3, {sequence, features});
    const Tensor all = gather_from_tensor_parallel(parts(ids), group, -2);
    EXPECT_TRUE(near(all, dense(ids)));
    (all * weights).sum().backward();
    (dense(ids) * weights).sum().backward();
    EXPECT_TRUE(near(whole_of(parts.weight.grad(), group, 0), dense.weight.grad()));
  });
}

// ---- parallel_cross_entropy ----
TEST(ParallelCrossEntropy, WorkedCase) {
  LocalWorld(2).run([](const Group& group) {
    const Tensor z = leaf(group.rank() == 0 ? tensor({1.f, 2.f}).unsqueeze(0) : tensor({3.f, 4.f}).unsqueeze(0));
    const Tensor loss = parallel_cross_entropy(z, tensor({2}), {.group = group});
    EXPECT_NEAR(loss.item<double>(), 1.4401897, 1e-6);
    loss.backward();
    const Tensor expected = group.rank() == 0 ? tensor({.032059f, .087144f}) : tensor({-.763117f, .643914f});
    EXPECT_TRUE(allclose(z.grad()[0], expected, 0, 1e-6));
  });
}

Tensor part_of_classes(const Tensor& logits, const Group& group) {
  const int64_t n = logits.size(-1) / group.size();
  return leaf(logits.narrow(-1, n * group.rank(), n).detach());
}

TEST(ParallelCrossEntropy, IsCrossEntropyInValuesAndGradients) {
  on_all_ranks([](const Group& group) {
    const Tensor logits = leaf(input_of(1, {2, 3, vocabulary}) * 30), weights = input_of(2, {2, 3});
    const Tensor targets = tensor({0, 47, -100, 24, 23, 7}).reshape({2, 3});
    for (const LossReduction reduction : {LossReduction::none, LossReduction::sum, LossReduction::mean}) {
      const Tensor part = part_of_classes(logits, group), whole = leaf(logits.detach());
      const Tensor loss = parallel_cross_entropy(part, targets, {.reduction = reduction, .group = group});
      Tensor expected = cross_entropy(whole.reshape({6, vocabulary}), targets.reshape({6}), {.reduction = reduction});
      if (reduction == LossReduction::none) expected = expected.reshape({2, 3});
      EXPECT_TRUE(near(loss, expected));
      (loss * (reduction == LossReduction::none ? weights : tensor(2.f))).sum().backward();
      (expected * (reduction == LossReduction::none ? weights : tensor(2.f))).sum().backward();
      EXPECT_TRUE(near(whole_of(part.grad(), group, -1), whole.grad()));
    }
  });
}
TEST(ParallelCrossEntropy, IgnoredTargetsGiveNoLossAndNoGradient) {
  on_all_ranks([](const Group& group) {
    const Tensor part = part_of_classes(full({2, vocabulary}, -INFINITY), group);
    const Tensor loss = parallel_cross_entropy(part, tensor({5, 5}),
                                               {.reduction = LossReduction::sum, .ignore_index = 5, .group = group});
    EXPECT_EQ(loss.item<float>(), 0);
    loss.backward();
    EXPECT_TRUE(same_bits(part.grad(), zeros_like(part)));
    EXPECT_TRUE(std::isnan(parallel_cross_entropy(part, tensor({-100, -100}), {.group = group}).item<float>()));
  });
}
TEST(ParallelCrossEntropy, SecondDerivativesAreThoseOfCrossEntropy) {
  on_all_ranks([](const Group& group) {
    const Tensor logits = input_of(1, {3, vocabulary}, f64), targets = tensor({0, 47, 20}),
                 v = input_of(2, {3, vocabulary}, f64);
    const auto second = [](const Tensor& x, const Tensor& first_of, const auto& weigh) {
      const Tensor first = grad({square(first_of)}, {x}, {}, {.create_graph = true})[0];
      return grad({weigh(first)}, {x})[0];
    };
    const Tensor whole = leaf(logits), part = part_of_classes(logits, group);
    const Tensor expected =
        second(whole, cross_entropy(whole, targets), [&](const Tensor& g) { return sum(square(g) * v); });
    const Tensor v_part = part_of_classes(v, group).detach();
    const Tensor got = second(part, parallel_cross_entropy(part, targets, {.group = group}), [&](const Tensor& g) {
      return reduce_from_tensor_parallel(sum(square(g) * v_part), group);
    });
    EXPECT_TRUE(allclose(whole_of(got, group, -1), expected, 1e-8, 1e-10));
  });
}
TEST(ParallelCrossEntropy, SixteenBitLogitsAreComputedInSingle) {
  on_all_ranks([](const Group& group) {
    const Tensor logits = input_of(1, {4, vocabulary}, bf16), targets = tensor({0, 47, 20, 3});
    const Tensor part = part_of_classes(logits, group);
    const Tensor loss = parallel_cross_entropy(part, targets, {.group = group});
    EXPECT_EQ(loss.dtype(), bf16);
    EXPECT_EQ(loss.item<float>(), cross_entropy(logits.to(f32), targets).to(bf16).item<float>());
    loss.backward();
    EXPECT_EQ(part.grad().dtype(), bf16);
  });
}
TEST(ParallelCrossEntropy, ErrorsAreFoundBeforeAnythingIsSent) {
  on_all_ranks([](const Group& group) {
    const Tensor z = zeros({2, 3});
    if (group.rank() != 0) return;
    EXPECT_THROW(parallel_cross_entropy(z, tensor({0, 3 * group.size()}), {.group = group}), IndexError);
    EXPECT_THROW(parallel_cross_entropy(z, tensor({0, -1}), {.group = group}), IndexError);
    EXPECT_THROW(parallel_cross_entropy(z, tensor({0, 1, 2}), {.group = group}), ShapeError);
    EXPECT_THROW(parallel_cross_entropy(z, tensor({0.f, 1.f}), {.group = group}), DTypeError);
    EXPECT_THROW(parallel_cross_entropy(z.to(i64), tensor({0, 1}), {.group = group}), DTypeError);
  });
}

// ---- one rank ----
/// Nothing may be sent over it.
struct NoWire final : detail::Wire {
  static inline std::atomic<int64_t> sent{0};
  NoWire() : Wire(sent) {}
  [[noreturn]] static void refuse() { throw std::logic_error("a group of one rank sends"); }
  const char* name() const override { return "none"; }
  void exchange(const detail::CallRecord&, std::span<const detail::Sent>, std::span<const detail::Received>,
                detail::Clock::time_point) override {
    refuse();
  }
  void collect(const detail::CallRecord&, std::span<const detail::Sent>, const Parts&,
               detail::Clock::time_point) override {
    refuse();
  }
  void wait_for_all(const detail::CallRecord&, detail::Clock::time_point) override { refuse(); }
  void fail(const std::string&) noexcept override {}
  void keep(std::vector<Tensor>) override {}
  void check_others(const CallPlace&) override { refuse(); }
  std::unique_ptr<Transfer> send(const CallPlace&, int, int, const Header&, detail::Sent) override { refuse(); }
  Header peek(const CallPlace&, int, int, detail::Clock::time_point) override { refuse(); }
  std::unique_ptr<Transfer> receive(const CallPlace&, int, int, const Header&, detail::Received) override { refuse(); }
  Shared<Wire> of_subgroup(std::span<const int>, const detail::CallRecord&, detail::Clock::time_point) override {
    refuse();
  }
  void count_work(int) noexcept override {}
};

TEST(TensorParallel, OneRankSendsNothing) {
  const Group alone(
      Shared<detail::Member>::make(Shared<detail::Wire>(Shared<NoWire>::make()), std::vector<int>{0}, 0, 1.0));
  EXPECT_THROW(all_reduce(zeros({2}), alone), std::logic_error);
  for (const bool in_parts : {false, true}) {
    const InParts net({.gather_output = !in_parts, .sequence_parallel = in_parts, .group = alone},
                      {.input_is_parallel = in_parts, .sequence_parallel = in_parts, .group = alone});
    const VocabParallelEmbedding table(10, features, {.sequence_parallel = in_parts, .group = alone});
    parallel_cross_entropy(net(table(tensor({1, 2}))), tensor({0, 1}), {.group = alone}).backward();
    EXPECT_TRUE(table.weight.grad().defined());
  }
}

// ---- states ----
TEST(TensorParallel, PartsAreSavedAndLoadedByAnotherNumberOfRanks) {
  const TemporaryFolder folder;
  std::mutex mutex;
  std::vector<io::ShardedState> states(4);
  LocalWorld(4).run([&](const Group& group) {
    const InParts parts = seeded([&] { return InParts({.group = group}, {.group = group}); });
    const auto table = seeded([&] { return VocabParallelEmbedding(vocabulary, features, {.group = group}); });
    io::ShardedState state = sharded_state(parts.up, "up.");
    state.merge(sharded_state(parts.down, "down."));
    state.merge(sharded_state(table, "table."));
    const std::lock_guard lock(mutex);
    states[static_cast<size_t>(group.rank())] = std::move(state);
  });
  io::save_state_dict(states, folder.path());
  LocalWorld(2).run([&](const Group& group) {
    const InParts saved = seeded([&] { return InParts({.group = group}, {.group = group}); });
    const auto table = seeded([&] { return VocabParallelEmbedding(vocabulary, features, {.group = group}); });
    const InParts other({.group = group}, {.group = group});
    const VocabParallelEmbedding other_table(vocabulary, features, {.group = group});
    io::ShardedState state = sharded_state(other.up, "up.");
    state.merge(sharded_state(other.down, "down."));
    state.merge(sharded_state(other_table, "table."));
    io::load_state_dict(state, folder.path());
    EXPECT_TRUE(same_bits(other_table.weight, table.weight));
    const auto expected = saved.parameters(), loaded = other.parameters();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same_bits(loaded[i], expected[i])) << i;
  });
}

}  // namespace
}  // namespace weft::distributed
