// Layers of a model for one process that are cut into parts, with adapters and without, beside the model.
#include <gtest/gtest.h>

#include <weft/distributed/sharded_state.hpp>
#include <weft/distributed/tensor_parallel.hpp>
#include <weft/nn/lora.hpp>
#include <weft/nn/transformer.hpp>

#include <temporary_folder.hpp>

#include "ranks.hpp"
#include "whole_gradients.hpp"

namespace weft::distributed {
namespace {

constexpr int64_t width = 48, heads = 24, length = 24;

template <class Make>
auto seeded(Make make) {
  manual_seed(11);
  return make();
}

nn::TransformerBlock block_of(double dropout = 0) {
  return seeded([&] { return nn::TransformerBlock(width, heads, {.dropout = dropout}); });
}

void cut_block(const nn::TransformerBlock& block, const Group& group) {
  cut_columns(block.attention.qkv, {.blocks = 3, .group = group});
  cut_rows(block.attention.proj, {.group = group});
  cut_columns(block.up, {.group = group});
  cut_rows(block.down, {.group = group});
}

Tensor leaf_of(int seed, const Dims& shape) { return input_of(seed, shape).requires_grad_(); }

TEST(CutLayers, ABlockInPartsIsTheBlock) {
  on_all_ranks([](const Group& group) {
    const nn::TransformerBlock dense = block_of(), parts = block_of();
    shake(dense), shake(parts);
    cut_block(parts, group);
    EXPECT_EQ(parts.attention.qkv.weight.shape(), (Dims{3 * width / group.size(), width}));
    if (group.size() > 1) {
      EXPECT_NE(parts.up.text().find("part " + std::to_string(group.rank()) + " of "), std::string::npos);
    }
    const Tensor x = leaf_of(1, {2, length, width}), x_dense = leaf_of(1, {2, length, width});
    const Tensor y = parts(x), y_dense = dense(x_dense);
    EXPECT_TRUE(allclose(y, y_dense, 1e-5, 1e-6));
    square(y).sum().backward();
    square(y_dense).sum().backward();
    EXPECT_TRUE(allclose(x.grad(), x_dense.grad(), 1e-4, 1e-6));
    expect_same_gradients(parts, dense, group);
  });
}

TEST(CutLayers, StatesEqualThoseOfTheWholeModel) {
  const TemporaryFolder folder;
  const nn::TransformerBlock dense = block_of();
  shake(dense);
  LocalWorld(4).run([&](const Group& group) {
    const nn::TransformerBlock parts = block_of();
    shake(parts);
    cut_block(parts, group);
    save_state_dict(sharded_state(parts, "block."), folder.path(), group);
  });
  const io::TensorStore store = io::open_state_dict(folder.path());
  for (const auto& [name, value] : dense.state_dict()) EXPECT_TRUE(equal(store.get("block." + name), value)) << name;
  LocalWorld(2).run([&](const Group& group) {
    const nn::TransformerBlock parts = block_of(), expected = block_of();
    shake(expected);
    cut_block(parts, group);
    cut_block(expected, group);
    load_sharded_state(parts, folder.path(), {}, "block.");
    for (size_t i = 0; i < parts.parameters().size(); ++i) {
      EXPECT_TRUE(equal(parts.parameters()[i], expected.parameters()[i])) << i;
    }
  });
}

struct Mlp : nn::Layer<Mlp> {
  nn::Linear qkv{width, 3 * width}, up{width, 2 * width}, down{2 * width, width};
  /// Of all positions, which no rank has where sequences are in parts.
  bool mixes = true;
  Mlp() { WEFT_REGISTER(qkv, up, down); }
  Tensor forward(const Tensor& x) const {
    const std::vector<Tensor> parts = qkv(x).chunk(3, -1);
    const Tensor mixed = parts[0] * parts[1] + parts[2];
    const Tensor y = down(tanh(up(x)));
    return mixes ? y + mixed.sum() * 0.01 : y;
  }
};

enum class When { before, after };
struct Adapted {
  When when;
  bool in_sequences;
};
class Adapters : public ::testing::TestWithParam<Adapted> {};

TEST_P(Adapters, IsTheAdaptedModelOfOneProcess) {
  on_all_ranks([](const Group& group) {
    const auto adapt = [&](const Mlp& model) {
      manual_seed(5);
      nn::apply_lora(model, {.r = 3, .alpha = 4, .targets = {"up", "down"}});
      nn::apply_lora(model, {.r = 2, .targets = {"qkv"}, .enable = {true, false, true}});
    };
    const bool sp = GetParam().in_sequences;
    const auto cut = [&](const Mlp& model) {
      cut_columns(model.qkv, {.gather_output = true, .sequence_parallel = sp, .blocks = 3, .group = group});
      cut_columns(model.up, {.sequence_parallel = sp, .group = group});
      cut_rows(model.down, {.sequence_parallel = sp, .group = group});
    };
    Mlp dense = seeded([] { return Mlp(); }), parts = seeded([] { return Mlp(); });
    dense.mixes = parts.mixes = !sp;
    adapt(dense);
    if (GetParam().when == When::before) adapt(parts), shake(parts), cut(parts);
    else cut(parts), adapt(parts);
    if (GetParam().when == When::before) shake(dense);
    const Tensor x = leaf_of(1, {2, length, width}), x_dense = leaf_of(1, {2, length, width});
    const Tensor in = sp ? scatter_to_tensor_parallel(x, group, -2) : x;
    Tensor y = parts(in);
    if (sp) y = gather_from_tensor_parallel(y, group, -2);
    const Tensor y_dense = dense(x_dense);
    EXPECT_TRUE(allclose(y, y_dense, 1e-5, 1e-6));
    (y * input_of(2, y.shape())).sum().backward();
    (y_dense * input_of(2, y.shape())).sum().backward();
    EXPECT_TRUE(allclose(x.grad(), x_dense.grad(), 1e-4, 1e-6));
    expect_same_gradients(parts, dense, group);
  });
}
INSTANTIATE_TEST_SUITE_P(Ways, Adapters,
                         ::testing::Values(Adapted{When::before, false}, Adapted{When::after, false},
                                           Adapted{When::before, true}),
                         [](const auto& info) {
                           return std::string(info.param.when == When::before ? "AdaptedFirst" : "CutFirst") +
                                  (info.param.in_sequences ? "Sequences" : "");
                         });

TEST(LoraInParts, MergedPartsArePartsOfTheMerged) {
  on_all_ranks([](const Group& group) {
    const Mlp dense = seeded([] { return Mlp(); }), parts = seeded([] { return Mlp(); });
    for (const Mlp* model : {&dense, &parts}) {
      manual_seed(5);
      nn::apply_lora(*model, {.r = 3, .alpha = 4, .targets = {"up", "down"}});
      shake(*model);
    }
    cut_columns(parts.up, {.group = group});
    cut_rows(parts.down, {.group = group});
    const Tensor before = parts.down.weight.detach().clone();
    nn::merge_lora(parts);
    nn::merge_lora(dense);
    EXPECT_TRUE(allclose(all_gather(parts.up.weight.detach(), group, 0), dense.up.weight, 1e-6, 1e-6));
    EXPECT_TRUE(allclose(all_gather(parts.down.weight.detach(), group, 1), dense.down.weight, 1e-6, 1e-6));
    {
      const NoGradGuard unrecorded;
      EXPECT_TRUE(allclose(parts(input_of(1, {3, width})), dense(input_of(1, {3, width})), 1e-5, 1e-5));
    }
    nn::unmerge_lora(parts);
    EXPECT_TRUE(equal(parts.down.weight.detach(), before));
    EXPECT_THROW(cut_columns(parts.up, {.group = group}), ValueError) << "in parts already";
  });
}

TEST(CutLayers, DropoutOfHeadsDiffersBetweenRanksAndThatBehindThemDoesNot) {
  LocalWorld(2).run([](const Group& group) {
    const nn::TransformerBlock parts = block_of(0.5);
    cut_block(parts, group);
    manual_seed(3);
    const Tensor y = parts(input_of(1, {2, length, width}));
    const Tensor all = all_gather(y.detach().unsqueeze(0), group);
    EXPECT_TRUE(equal(all[0], all[1])) << "what is whole is dropped alike";
    const Tensor next = all_gather(randn({1}), group);
    EXPECT_TRUE(equal(next[0], next[1])) << "generators stand alike";
    // Equal parts of x give equal heads, except dropped elements.
    const nn::SelfAttention attention = seeded([] { return nn::SelfAttention(width, heads, {.dropout = 0.5}); });
    {
      const NoGradGuard unrecorded;
      const Tensor one = attention.qkv.weight.narrow(0, 0, 2).clone();
      attention.qkv.weight.copy_(one.repeat({3 * width / 2, 1}));
      attention.proj.weight.copy_(eye(width));
    }
    cut_columns(attention.qkv, {.blocks = 3, .group = group});
    cut_rows(attention.proj, {.group = group});
    const Tensor mixed = attention(input_of(1, {1, length, width}));
    const std::vector<Tensor> halves = mixed.detach().chunk(2, -1);
    EXPECT_FALSE(allclose(halves[0] != 0, halves[1] != 0) && allclose(halves[0], halves[1]));
  });
}

TEST(CutLayers, RejectsLayersThatCannotBeSharded) {
  LocalWorld(4).run([](const Group& group) {
    const nn::Linear odd(6, 10), whole(8, 8);
    EXPECT_THROW(cut_columns(odd, {.group = group}), ValueError);
    EXPECT_THROW(cut_rows(odd, {.group = group}), ValueError);
    EXPECT_THROW(cut_columns(whole, {.blocks = 3, .group = group}), ValueError);
    EXPECT_EQ(odd.weight.shape(), (Dims{10, 6}));
    EXPECT_THROW(cut_rows(nn::LayerNorm(8), {.group = group}), ValueError);
    EXPECT_THROW(cut_vocabulary(whole, {.group = group}), ValueError);
    // Twelve heads on four ranks, but not five on four.
    const nn::SelfAttention attention(20, 5);
    cut_columns(attention.qkv, {.blocks = 3, .group = group});
    cut_rows(attention.proj, {.group = group});
    EXPECT_THROW(attention(randn({1, 2, 20})), ValueError);
  });
}

}  // namespace
}  // namespace weft::distributed
