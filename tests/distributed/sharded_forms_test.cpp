// Layers with quantized, parametrized and adapted weights that are sharded, beside the same layers on one rank.
#include <gtest/gtest.h>

#include <weft/distributed/expert_parallel.hpp>
#include <weft/distributed/sharded_state.hpp>
#include <weft/distributed/tensor_parallel.hpp>
#include <weft/nn/attention.hpp>
#include <weft/nn/lora.hpp>
#include <weft/nn/parametrize.hpp>
#include <weft/nn/quantize.hpp>

#include <temporary_folder.hpp>

#include "ranks.hpp"
#include "whole_gradients.hpp"

namespace weft::distributed {
namespace {

constexpr int64_t width = 16, hidden = 96, length = 24;

struct Mlp : nn::Layer<Mlp> {
  nn::Linear up{width, hidden}, down{hidden, width};
  Mlp() { WEFT_REGISTER(up, down); }
  Tensor forward(const Tensor& x) const { return down(tanh(up(x))); }
};

enum class Form { floats, int8, int4, fp8, weight_norm, spectral_norm };
struct Mix {
  Form form;
  bool adapted, in_sequences;
};

void quantize(const nn::Module& model, Form form) {
  nn::quantize(model, {.bits = form == Form::int8 ? 8 : 4, .group_size = 4, .symmetric = form == Form::int8});
}

void convert(const Mlp& model, Form form) {
  if (form == Form::int8 || form == Form::int4) return quantize(model, form);
  if (form == Form::fp8) nn::convert_to_fp8(model);
  for (const nn::Module& layer : model.children()) {
    if (form == Form::weight_norm) nn::weight_norm(layer);
    if (form == Form::spectral_norm) nn::spectral_norm(layer);
  }
}

void cut(const Mlp& model, const Group& group, bool in_sequences = false) {
  cut_columns(model.up, {.sequence_parallel = in_sequences, .group = group});
  cut_rows(model.down, {.sequence_parallel = in_sequences, .group = group});
}

Mlp made(const Mix& mix) {
  manual_seed(11);
  const Mlp model;
  convert(model, mix.form);
  if (mix.adapted) nn::apply_lora(model, {.r = 2, .alpha = 3, .targets = {"^up$", "^down$"}});
  shake(model);
  return model;
}

class ShardedForms : public ::testing::TestWithParam<Mix> {};
class ShardedAdapters : public ::testing::TestWithParam<Form> {};

TEST_P(ShardedForms, ComputeAsOnOneRank) {
  on_all_ranks([](const Group& group) {
    const Mix mix = GetParam();
    const Mlp dense = made(mix), parts = made(mix);
    cut(parts, group, mix.in_sequences);
    const Tensor x = input_of(1, {2, length, width}).requires_grad_(), same = x.detach().clone().requires_grad_();
    Tensor y = parts(mix.in_sequences ? scatter_to_tensor_parallel(x, group, -2) : x);
    if (mix.in_sequences) y = gather_from_tensor_parallel(y, group, -2);
    const Tensor expected = dense(same), g = input_of(2, y.shape());
    if (mix.form == Form::fp8) {  // each shard has its own scales
      EXPECT_LT((norm(y - expected) / norm(expected)).item<double>(), 0.05);
      return;
    }
    EXPECT_TRUE(allclose(y, expected, 1e-4, 1e-5));
    (y * g).sum().backward();
    (expected * g).sum().backward();
    EXPECT_TRUE(allclose(x.grad(), same.grad(), 1e-4, 1e-5));
    expect_same_gradients(parts, dense, group);
  });
}

TEST_P(ShardedAdapters, MergedTheyComputeTheSame) {
  on_all_ranks([](const Group& group) {
    const NoGradGuard unrecorded;
    Mlp parts = made({GetParam(), true, false});
    cut(parts, group);
    parts.eval();
    const Tensor x = input_of(1, {3, width}), before = parts(x);
    nn::merge_lora(parts);
    const double tolerance = GetParam() == Form::fp8 ? 0.05 : 1e-5;
    EXPECT_LT((norm(parts(x) - before) / norm(before)).item<double>(), tolerance);
    nn::unmerge_lora(parts);
    EXPECT_TRUE(equal(parts(x), before));
  });
}

constexpr Form all_forms[] = {Form::floats, Form::int8, Form::int4, Form::fp8, Form::weight_norm, Form::spectral_norm};
std::vector<Mix> all_mixes() {
  std::vector<Mix> out;
  for (const Form form : all_forms) {
    for (const bool adapted : {false, true}) {
      for (const bool in_sequences : {false, true}) out.push_back({form, adapted, in_sequences});
    }
  }
  return out;
}
std::string name_of(Form form) {
  constexpr const char* names[] = {"Floats", "Int8", "Int4", "Fp8", "WeightNorm", "SpectralNorm"};
  return names[static_cast<int>(form)];
}
const auto name_of_mix = [](const auto& info) {
  return name_of(info.param.form) + (info.param.adapted ? "Adapted" : "") +
         (info.param.in_sequences ? "Sequences" : "");
};
const auto name_of_form = [](const auto& info) { return name_of(info.param); };
INSTANTIATE_TEST_SUITE_P(All, ShardedForms, ::testing::ValuesIn(all_mixes()), name_of_mix);
INSTANTIATE_TEST_SUITE_P(All, ShardedAdapters, ::testing::ValuesIn(all_forms), name_of_form);

TEST(ShardedCodes, AreTheCodesOfTheShards) {
  on_all_ranks([](const Group& group) {
    for (const Form form : {Form::int8, Form::int4}) {
      manual_seed(11);
      const Mlp first;
      manual_seed(11);
      const Mlp last;
      quantize(first, form);
      cut(first, group);
      cut(last, group);
      quantize(last, form);
      for (const auto& [name, value] : first.state_dict())
        EXPECT_TRUE(equal(last.state_dict().at(name), value)) << name;
    }
  });
}

TEST(ShardedCodes, AreSavedAsAWholeAndLoadedOnOtherRanks) {
  const TemporaryFolder folder;
  const Mix mix{Form::int4, true, false};
  LocalWorld(4).run([&](const Group& group) {
    const Mlp parts = made(mix);
    cut(parts, group);
    save_state_dict(sharded_state(parts), folder.path(), group);
  });
  const io::TensorStore store = io::open_state_dict(folder.path());
  for (const auto& [name, value] : made(mix).state_dict()) EXPECT_TRUE(equal(store.get(name), value)) << name;
  LocalWorld(2).run([&](const Group& group) {
    manual_seed(5);
    const Mlp parts;
    convert(parts, mix.form);
    nn::apply_lora(parts, {.r = 2, .alpha = 3, .targets = {"^up$", "^down$"}});
    cut(parts, group);
    load_sharded_state(parts, folder.path());
    const Tensor x = input_of(1, {3, width});
    EXPECT_TRUE(allclose(parts(x), made(mix)(x), 1e-4, 1e-5));
  });
}

TEST(ShardedCodes, WithOneScaleForARowAreShardedAndNotQuantizedLater) {
  LocalWorld(4).run([](const Group& group) {
    manual_seed(11);
    const Mlp dense, parts = dense.clone(), late = dense.clone();
    nn::quantize(dense, {.group_size = 0});
    nn::quantize(parts, {.group_size = 0});
    cut(parts, group);
    const Tensor x = input_of(1, {3, width});
    EXPECT_TRUE(allclose(parts(x), dense(x), 1e-4, 1e-5));
    EXPECT_EQ(parts.state_dict().at("down.scale").shape(), (Dims{width, 1}));
    cut(late, group);
    EXPECT_THROW(nn::quantize(late, {.targets = {"down"}, .group_size = 0}), ValueError);
    EXPECT_THROW(nn::quantize(late, {.targets = {"down"}, .group_size = 10}), ValueError);
  });
}

TEST(ShardedFormsOf, WithoutAMeaningRaiseAndChangeNothing) {
  LocalWorld(4).run([](const Group& group) {
    const Mlp parts;
    nn::quantize(parts.down, {.group_size = 32});
    EXPECT_THROW(cut_rows(parts.down, {.group = group}), ValueError) << "24 columns have no whole groups";
    EXPECT_EQ(parts.down.state_dict().at("codes").shape(), (Dims{width, hidden}));
    cut_columns(parts.up, {.group = group});
    EXPECT_THROW(nn::weight_norm(parts.up), ValueError) << "a parametrization computes whole tensors";
    const Mlp merged;
    nn::apply_lora(merged, {.targets = {"^up$"}});
    nn::merge_lora(merged);
    EXPECT_THROW(cut_columns(merged.up, {.group = group}), ValueError);
    const nn::MoE mixture(width, hidden, 4);
    nn::weight_norm(mixture, "up");
    EXPECT_THROW(cut_experts(mixture, {.group = group}), ValueError) << "experts are stored as shards";
  });
}

TEST(ShardedHeads, TakeParametrizedProjections) {
  on_all_ranks([](const Group& group) {
    const auto attention_of = [] {
      manual_seed(3);
      const nn::MultiheadAttention attention(48, 24, {.batch_first = true});
      nn::weight_norm(attention, "in_proj_weight");
      nn::spectral_norm(attention.out_proj);
      shake(attention);
      return attention;
    };
    const nn::MultiheadAttention dense = attention_of(), parts = attention_of();
    cut_heads(parts, {.group = group});
    const Tensor x = input_of(1, {2, 5, 48}), g = input_of(2, {2, 5, 48});
    const Tensor y = parts(x, x, x).output, expected = dense(x, x, x).output;
    EXPECT_TRUE(allclose(y, expected, 1e-4, 1e-5));
    (y * g).sum().backward();
    (expected * g).sum().backward();
    expect_same_gradients(parts, dense, group);
  });
}

class ShardedTables : public ::testing::TestWithParam<bool> {};
TEST_P(ShardedTables, TakeAdaptersAndParametrizations) {
  on_all_ranks([](const Group& group) {
    const bool sp = GetParam();
    for (const bool parametrized : {false, true}) {
      const auto table_of = [&] {
        manual_seed(3);
        const nn::Sequential table(nn::Embedding(48, width));
        if (parametrized) nn::weight_norm(table.children()[0]);
        nn::apply_lora(table, {.r = 2, .targets = {"^0$"}});
        shake(table);
        return table;
      };
      const nn::Sequential dense = table_of(), parts = table_of();
      cut_vocabulary(parts.children()[0], {.sequence_parallel = sp, .group = group});
      const Tensor tokens = (input_of(1, {2, length}, i64) * 5 + 20).clamp(0, 47);
      Tensor y = parts(tokens);
      if (sp) y = gather_from_tensor_parallel(y, group, -2);
      const Tensor expected = dense(tokens), g = input_of(2, y.shape());
      EXPECT_TRUE(allclose(y, expected, 1e-4, 1e-5));
      (y * g).sum().backward();
      (expected * g).sum().backward();
      expect_same_gradients(parts, dense, group);
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Ways, ShardedTables, ::testing::Bool());

}  // namespace
}  // namespace weft::distributed
