// Attention with sharded heads against the whole layer.
#include <gtest/gtest.h>

#include <weft/distributed/parallelize.hpp>
#include <weft/nn/transformer.hpp>
#include <weft/optim/optimizers.hpp>

#include "ranks.hpp"
#include "whole_gradients.hpp"

namespace weft::distributed {
namespace {

constexpr int64_t width = 48, heads = 24, queries = 24, keys = 5, batch = 2;

struct Operands {
  Tensor query, key, value;
  std::vector<Tensor> all() const { return {query, key, value}; }
};

struct Case {
  const char* name;
  nn::MultiheadAttentionOptions options = {};
  nn::MultiheadAttentionCall call = {};
  /// Key and value are the query, or the value the key.
  bool to_itself = false, one_memory = false;
};

Operands operands_of(const Case& c) {
  const auto made = [&](int seed, int64_t length, int64_t features) {
    const Dims shape = c.options.batch_first ? Dims{batch, length, features} : Dims{length, batch, features};
    return input_of(seed, shape).requires_grad_();
  };
  const Tensor query = made(1, queries, width);
  if (c.to_itself) return {query, query, query};
  const Tensor key = made(2, keys, c.options.kdim > 0 ? c.options.kdim : width);
  return {query, key, c.one_memory ? key : made(3, keys, c.options.vdim > 0 ? c.options.vdim : width)};
}

nn::MultiheadAttention layer_of(const nn::MultiheadAttentionOptions& options) {
  manual_seed(7);
  nn::MultiheadAttention layer(width, heads, options);
  shake(layer);
  return layer;
}

Tensor loss_of(const nn::MultiheadAttentionResult& out) {
  const Tensor loss = square(out.output).sum();
  return out.weights.defined() ? loss + (out.weights * input_of(5, out.weights.shape())).sum() : loss;
}

class CutHeads : public ::testing::TestWithParam<Case> {};

TEST_P(CutHeads, AttentionInPartsIsTheAttention) {
  on_all_ranks([](const Group& group) {
    const Case& c = GetParam();
    const nn::MultiheadAttention dense = layer_of(c.options), parts = layer_of(c.options);
    cut_heads(parts, {.group = group});
    EXPECT_EQ(parts.out_proj.weight.shape(), (Dims{width, width / group.size()}));
    const Operands whole = operands_of(c), own = operands_of(c);
    const auto expected = dense(whole.query, whole.key, whole.value, c.call);
    const auto out = parts(own.query, own.key, own.value, c.call);
    EXPECT_TRUE(allclose(out.output, expected.output, 1e-5, 1e-6));
    ASSERT_EQ(out.weights.defined(), expected.weights.defined());
    if (out.weights.defined()) {
      EXPECT_TRUE(allclose(out.weights, expected.weights, 1e-5, 1e-6));
    }
    loss_of(out).backward();
    loss_of(expected).backward();
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(allclose(own.all()[i].grad(), whole.all()[i].grad(), 1e-4, 1e-5)) << i;
    }
    expect_same_gradients(parts, dense, group);
  });
}

Tensor hidden(const Dims& shape) { return input_of(9, shape) > 1; }

INSTANTIATE_TEST_SUITE_P(
    Options, CutHeads,
    ::testing::Values(
        Case{"ToItself", {}, {}, true}, Case{"ToItselfCausal", {}, {.is_causal = true}, true},
        Case{"WithoutWeights", {.batch_first = true}, {.need_weights = false}, true},
        Case{"ToOthers", {}, {.average_attn_weights = false}},
        Case{"ToOneMemory", {.bias = false, .batch_first = true}, {}, false, true},
        Case{"OtherWidths", {.add_bias_kv = true, .add_zero_attn = true, .kdim = 7, .vdim = 5}},
        Case{"Masks", {}, {.key_padding_mask = hidden({batch, keys}), .attn_mask = hidden({queries, keys})}},
        Case{"MaskOfEachHead", {.batch_first = true}, {.attn_mask = hidden({batch * heads, queries, keys})}},
        Case{"MaskOfEachHeadWithoutWeights",
             {},
             {.need_weights = false, .attn_mask = input_of(9, {batch * heads, queries, keys})}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(CutHeads, OperandsMayHaveNoBatch) {
  LocalWorld(2).run([](const Group& group) {
    const nn::MultiheadAttention dense = layer_of({}), parts = layer_of({});
    cut_heads(parts, {.group = group});
    const Tensor x = input_of(1, {queries, width});
    for (const bool average : {true, false}) {
      const auto out = parts(x, x, x, {.average_attn_weights = average}),
                 expected = dense(x, x, x, {.average_attn_weights = average});
      EXPECT_TRUE(allclose(out.output, expected.output, 1e-5, 1e-6));
      EXPECT_TRUE(allclose(out.weights, expected.weights, 1e-5, 1e-6));
    }
  });
}

TEST(CutHeads, SequencesMayBeInParts) {
  for (const bool batch_first : {false, true}) {
    on_all_ranks([&](const Group& group) {
      const nn::MultiheadAttentionOptions options{.batch_first = batch_first};
      const nn::MultiheadAttention dense = layer_of(options), parts = layer_of(options);
      cut_heads(parts, {.sequence_parallel = true, .group = group});
      const int steps = batch_first ? 1 : 0;
      const int64_t own = queries / group.size();
      const Operands whole = operands_of({"", options, {}, true});
      const Tensor x = whole.query.detach().narrow(steps, own * group.rank(), own).clone().requires_grad_();
      const Tensor expected = dense(whole.query, whole.key, whole.value, {.need_weights = false}).output;
      const Tensor y = parts(x, x, x, {.need_weights = false}).output;
      EXPECT_TRUE(allclose(y, expected.narrow(steps, own * group.rank(), own), 1e-5, 1e-6));
      square(y).sum().backward();
      square(expected).sum().backward();
      EXPECT_TRUE(allclose(x.grad(), whole.query.grad().narrow(steps, own * group.rank(), own), 1e-4, 1e-5));
    });
  }
}

TEST(CutHeads, EachRankDropsWeightsOfItsOwn) {
  LocalWorld(2).run([](const Group& group) {
    manual_seed(3);
    const nn::MultiheadAttention layer(width, heads, {.dropout = 0.5});
    cut_heads(layer, {.group = group});
    const Tensor x = input_of(1, {queries, width});
    const Tensor dropped = layer(x, x, x, {.average_attn_weights = false}).weights == 0;
    const std::vector<Tensor> halves = dropped.detach().chunk(2, 0);
    EXPECT_FALSE(equal(halves[0], halves[1]));
    const Tensor next = all_gather(randn({1}), group);
    EXPECT_TRUE(equal(next[0], next[1])) << "generators stand alike";
  });
}

TEST(CutHeads, RejectsLayersThatCannotBeSharded) {
  LocalWorld(4).run([](const Group& group) {
    const nn::MultiheadAttention odd(12, 6), even(16, 4);
    EXPECT_THROW(cut_heads(odd, {.group = group}), ValueError);
    EXPECT_THROW(cut_heads(nn::Linear(4, 4), {.group = group}), ValueError);
    cut_heads(even, {.group = group});
    EXPECT_THROW(cut_heads(even, {.group = group}), ValueError);
    EXPECT_EQ(odd.out_proj.weight.shape(), (Dims{12, 12}));
    const nn::MultiheadAttention half(16, 4);
    cut_rows(half.out_proj, {.group = group});
    EXPECT_THROW(cut_heads(half, {.group = group}), ValueError);
    EXPECT_EQ(half.in_proj_weight.shape(), (Dims{48, 16}));
  });
}

// ---- transformers of them, by a plan --------------------------------------------------------------------------------

std::vector<double> encoder_losses(const Group& group, const Dims& shape, bool in_parts, int shard_stage) {
  manual_seed(5);
  const nn::TransformerEncoderLayer layer(
      16, 4, {.dim_feedforward = 32, .dropout = 0, .batch_first = true, .norm_first = true});
  const nn::TransformerEncoder model(layer, 2);
  std::vector<ModuleSplit> splits{
      {"self_attn$", HeadParallelOptions{}}, {"linear1$", ColumnParallelOptions{}}, {"linear2$", RowParallelOptions{}}};
  if (in_parts) splits.push_back({"norm", OnSequenceParts{}});
  const ParallelModel parallel = parallelize(model, {.mesh = Mesh(shape, {"dp", "tp"}, group),
                                                     .splits = splits,
                                                     .sequence_parallel = in_parts,
                                                     .shard_stage = shard_stage});
  ParallelTraining training(parallel, optim::AdamW(parallel.parameters(), {.lr = 0.01}));
  std::vector<double> losses;
  const int64_t rows = 4 / shape[0], length = in_parts ? 8 / shape[1] : 8;
  const auto own = [&](int seed) {
    const Tensor all = input_of(seed, {4, 8, 16}).narrow(0, rows * parallel.data_parallel().rank(), rows);
    return all.narrow(1, in_parts ? length * parallel.tensor_parallel().rank() : 0, length);
  };
  for (int step = 0; step < 5; ++step) {
    training.zero_grad();
    losses.push_back(training.backward(own(step), own(100 + step), [&](const Tensor& y, const Tensor& target) {
      const Tensor part = mse_loss(y, target);
      return in_parts ? reduce_from_tensor_parallel(part, parallel.tensor_parallel()) / shape[1] : part;
    }));
    training.clip_grad_norm(0.5);
    training.step();
  }
  return losses;
}

TEST(CutHeads, AnEncoderTrainsByAPlanAsInOneProcess) {
  std::vector<double> expected;
  LocalWorld(1).run([&](const Group& group) { expected = encoder_losses(group, {1, 1}, false, 0); });
  EXPECT_LT(expected.back(), expected.front());
  const auto expect = [&](const Dims& shape, bool in_parts, int shard_stage) {
    LocalWorld(static_cast<int>(shape.product()), {.timeout_seconds = 60}).run([&](const Group& group) {
      const std::vector<double> losses = encoder_losses(group, shape, in_parts, shard_stage);
      for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << i;
    });
  };
  expect({1, 2}, false, 0);
  expect({1, 4}, false, 0);
  expect({2, 2}, false, 3);
  expect({1, 2}, true, 0);
  expect({2, 2}, true, 1);
}

}  // namespace
}  // namespace weft::distributed
