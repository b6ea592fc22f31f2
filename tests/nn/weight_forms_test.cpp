// Every combination of weight forms, for layers of three kinds: products and gradients beside the formula, training,
// merging, saving and loading. nn/weight_forms-inl.hpp defines the order and the combinations without a meaning.
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/io/adapter.hpp>
#include <weft/io/model.hpp>
#include <weft/weft.hpp>

#include <message_of.hpp>
#include <temporary_folder.hpp>

namespace weft {
namespace {

using testing::HasSubstr;

enum class Kind { linear, embedding, conv };
enum class Stored { floats, int8, int4, fp8 };
enum class Adapter { none, first, last };

struct Mix {
  Kind kind;
  Stored stored;
  bool parametrized;
  Adapter adapter;

  bool has_codes() const { return stored == Stored::int8 || stored == Stored::int4; }
  bool is_adapted() const { return adapter != Adapter::none; }
  bool has_meaning() const {
    if (kind == Kind::linear) return !(has_codes() && parametrized);
    return stored == Stored::floats && (kind == Kind::embedding || !is_adapted());
  }
  std::string name() const {
    constexpr const char* kinds[] = {"Linear", "Embedding", "Conv"};
    constexpr const char* formats[] = {"", "Int8", "Int4", "Fp8"};
    constexpr const char* adapters[] = {"", "AdaptedFirst", "AdaptedLast"};
    return std::string(kinds[static_cast<int>(kind)]) + formats[static_cast<int>(stored)] +
           (parametrized ? "Parametrized" : "") + adapters[static_cast<int>(adapter)];
  }
};
std::ostream& operator<<(std::ostream& out, const Mix& mix) { return out << mix.name(); }

constexpr WeightQuantOptions format_of(Stored stored) {
  return {.bits = stored == Stored::int8 ? 8 : 4, .group_size = 4, .symmetric = stored == Stored::int8};
}

nn::Sequential plain(Kind kind) {
  if (kind == Kind::linear) return nn::Sequential(nn::Linear(16, 8));
  if (kind == Kind::embedding) return nn::Sequential(nn::Embedding(16, 8));
  return nn::Sequential(nn::Conv1d(16, 8, 3));
}

void adapt(const nn::Sequential& net) { nn::apply_lora(net, {.r = 2, .alpha = 3, .targets = {"^0$"}}); }

/// Converts to all forms but the adapter.
void convert(const nn::Sequential& net, const Mix& mix) {
  if (mix.parametrized) nn::weight_norm(net.children()[0]);
  if (mix.stored == Stored::fp8) nn::convert_to_fp8(net, {"^0$"});
  if (!mix.has_codes()) return;
  const WeightQuantOptions format = format_of(mix.stored);
  nn::quantize(net, {{"^0$"}, format.bits, format.group_size, format.symmetric});
}

nn::Sequential made(const Mix& mix, uint64_t seed) {
  manual_seed(seed);
  nn::Sequential net = plain(mix.kind);
  if (mix.adapter == Adapter::first) adapt(net);
  convert(net, mix);
  if (mix.adapter == Adapter::last) adapt(net);
  const NoGradGuard unrecorded;
  for (const nn::LoraLayer& layer : nn::lora_layers(net)) layer.b.normal_(0, 0.3);
  return net;
}

Tensor input_of(Kind kind) {
  manual_seed(99);
  if (kind == Kind::embedding) return tensor({0, 3, 3, 15, 7});
  return kind == Kind::linear ? randn({5, 16}) : randn({2, 16, 6});
}

/// The value of the stored weight in floats, and of the bias, of `made(mix, seed)`.
struct Base {
  Tensor weight, bias;
};
Base base_of(const Mix& mix, uint64_t seed) {
  manual_seed(seed);
  const nn::StateDict state = plain(mix.kind).state_dict();
  Base out{state.at("0.weight"), state.contains("0.bias") ? state.at("0.bias") : Tensor()};
  if (!mix.has_codes()) return out;
  const WeightQuantOptions format = format_of(mix.stored);
  const QuantizedWeight w = quantize_weight(out.weight, format);
  out.weight = dequantize_weight(w.codes, w.scale, 16, {w.zero, {}, format.bits, format.group_size});
  return out;
}

Tensor formula(Kind kind, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (kind == Kind::linear) return linear(x, weight, bias);
  return kind == Kind::embedding ? embedding(weight, x) : conv1d(x, weight, bias);
}

double error_of(const Tensor& got, const Tensor& expected) {
  return (norm(got - expected) / (norm(expected) + 1e-12)).item<double>();
}
double tolerance_of(const Mix& mix) { return mix.stored == Stored::fp8 ? 0.06 : 1e-5; }

class WeightForms : public ::testing::TestWithParam<Mix> {
 protected:
  const Mix mix = GetParam();
  const Tensor x = input_of(mix.kind);
};
class AdaptedForms : public WeightForms {};

TEST_P(WeightForms, OutputAndGradientsAreTheFormula) {
  const nn::Sequential net = made(mix, 1);
  const auto [weight, bias] = base_of(mix, 1);
  const bool has_gradient = mix.kind != Kind::embedding;
  const Tensor in = has_gradient ? x.clone().requires_grad_() : x, same = has_gradient ? x.clone().requires_grad_() : x;
  Tensor sum = weight, a, b;
  if (mix.is_adapted()) {
    const nn::LoraLayer own = nn::lora_layers(net)[0];
    a = own.a.detach().clone().requires_grad_(), b = own.b.detach().clone().requires_grad_();
    sum = weight + own.scale * matmul(b, a);
  }
  const Tensor y = net(in), expected = formula(mix.kind, same, sum, bias), g = randn(expected.shape());
  EXPECT_LT(error_of(y, expected), tolerance_of(mix));
  if (!y.requires_grad()) return;
  (y * g).sum().backward();
  if (expected.requires_grad()) (expected * g).sum().backward();
  if (has_gradient) {
    EXPECT_LT(error_of(in.grad(), same.grad()), tolerance_of(mix));
  }
  if (!mix.is_adapted()) return;
  const nn::LoraLayer own = nn::lora_layers(net)[0];
  EXPECT_LT(error_of(own.a.grad(), a.grad()), tolerance_of(mix));
  EXPECT_LT(error_of(own.b.grad(), b.grad()), tolerance_of(mix));
  for (const auto& [name, p] : net.named_parameters()) {
    EXPECT_EQ(p.requires_grad(), name.find("lora_") != std::string::npos) << name;
  }
}

TEST_P(WeightForms, TrainingLowersTheLossAndKeepsWhatIsFrozen) {
  const nn::Sequential net = made(mix, 2);
  const Tensor target = randn(net(x).shape());
  nn::StateDict frozen;
  for (const auto& [name, t] : net.state_dict()) frozen.emplace(name, t.clone());
  std::vector<Tensor> trained;
  for (const auto& [name, p] : net.named_parameters()) {
    if (p.requires_grad()) trained.push_back(p), frozen.erase(name);
  }
  ASSERT_EQ(trained.empty(), false);
  optim::Adam optimizer(trained, {.lr = 0.05});
  double first = 0, last = 0;
  for (int step = 0; step < 30; ++step) {
    optimizer.zero_grad();
    const Tensor loss = mse_loss(net(x), target);
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, first * 0.95);
  for (const auto& [name, value] : frozen) EXPECT_TRUE(equal(net.state_dict().at(name), value)) << name;
}

TEST_P(AdaptedForms, MergingComputesTheSameAndUnmergingRestoresTheBits) {
  nn::Sequential net = made(mix, 3);
  net.eval();
  const Tensor before = net(x).detach();
  nn::StateDict stored;
  for (const auto& [name, t] : net.state_dict()) stored.emplace(name, t.clone());
  nn::merge_lora(net);
  EXPECT_LT(error_of(net(x), before), tolerance_of(mix));
  for (const auto& [name, value] : net.state_dict()) {
    if (name != "0.lora_merged") EXPECT_TRUE(equal(value, stored.at(name))) << name << " of a merged model";
  }
  nn::unmerge_lora(net);
  EXPECT_TRUE(equal(net(x), before));
  nn::merge_and_unload_lora(net);
  EXPECT_LT(error_of(net(x), before), tolerance_of(mix));
  const nn::StateDict left = net.state_dict();
  EXPECT_TRUE(left.contains("0.weight"));
  EXPECT_EQ(left.size(), mix.kind == Kind::linear ? 2u : 1u);
  EXPECT_EQ(net.children()[0].class_name(), mix.kind == Kind::embedding ? "Embedding"
                                            : mix.stored == Stored::fp8 ? "Fp8Linear"
                                                                        : "Linear");
}

TEST_P(WeightForms, AClonedLayerSharesNothing) {
  const nn::Sequential net = made(mix, 4), copy = net.clone();
  const Tensor before = net(x).detach();
  EXPECT_TRUE(equal(copy(x), before));
  const NoGradGuard unrecorded;
  for (const auto& [name, t] : copy.state_dict()) {
    if (is_floating(t.dtype())) t.fill_(0.5);
  }
  EXPECT_TRUE(equal(net(x), before));
  EXPECT_FALSE(equal(copy(x), before));
}

TEST_P(WeightForms, StateIsLoadedIntoALayerOfTheSameForms) {
  const nn::Sequential net = made(mix, 5), other = made(mix, 6);
  EXPECT_FALSE(equal(net(x), other(x)));
  nn::Sequential(other).load_state_dict(net.state_dict());
  EXPECT_TRUE(equal(net(x), other(x)));
  if (!mix.is_adapted()) return;
  nn::Sequential(net).eval(), nn::Sequential(other).eval();
  nn::merge_lora(net);
  nn::Sequential(other).load_state_dict(net.state_dict());
  EXPECT_TRUE(nn::is_lora_merged(other));
  EXPECT_LT(error_of(other(x).detach(), net(x).detach()), tolerance_of(mix));
}

TEST_P(WeightForms, AModelFileIsBuiltAgain) {
  const nn::Sequential net = made(mix, 7);
  const TemporaryFolder folder;
  io::save_model(folder.path() / "model", net);
  const nn::AnyModule loaded = io::load_model(folder.path() / "model");
  EXPECT_TRUE(equal(loaded(x), net(x)));
  EXPECT_EQ(loaded.text(), net.text());
}

TEST_P(AdaptedForms, FilesOfAdaptersAreLoadedOverTheSameBase) {
  const nn::Sequential net = made(mix, 8);
  Mix without = mix;
  without.adapter = Adapter::none;
  const nn::Sequential other = made(without, 8);
  const TemporaryFolder folder;
  io::save_adapter(folder.path() / "adapter", net);
  io::load_adapter(folder.path() / "adapter", other);
  EXPECT_TRUE(equal(other(x), net(x)));
}

class WeightFormsRefused : public ::testing::TestWithParam<Mix> {};
TEST_P(WeightFormsRefused, RaisesValueError) { EXPECT_THROW((void)made(GetParam(), 1), ValueError); }

template <class Condition>
std::vector<Mix> mixes_where(Condition&& holds) {
  std::vector<Mix> out;
  for (const Kind kind : {Kind::linear, Kind::embedding, Kind::conv}) {
    for (const Stored stored : {Stored::floats, Stored::int8, Stored::int4, Stored::fp8}) {
      for (const bool parametrized : {false, true}) {
        for (const Adapter adapter : {Adapter::none, Adapter::first, Adapter::last}) {
          const Mix mix{kind, stored, parametrized, adapter};
          if (holds(mix)) out.push_back(mix);
        }
      }
    }
  }
  return out;
}
const auto name_of = [](const auto& info) { return info.param.name(); };
INSTANTIATE_TEST_SUITE_P(All, WeightForms,
                         ::testing::ValuesIn(mixes_where([](const Mix& mix) { return mix.has_meaning(); })), name_of);
INSTANTIATE_TEST_SUITE_P(All, AdaptedForms, ::testing::ValuesIn(mixes_where([](const Mix& mix) {
                           return mix.has_meaning() && mix.is_adapted();
                         })),
                         name_of);
INSTANTIATE_TEST_SUITE_P(All, WeightFormsRefused,
                         ::testing::ValuesIn(mixes_where([](const Mix& mix) { return !mix.has_meaning(); })), name_of);

TEST(WeightFormsOf, AMergedAdapterKeepsItsWeight) {
  nn::Sequential net(nn::Linear(8, 8), nn::Linear(8, 8));
  nn::apply_lora(net, {.targets = {"^0$"}});
  nn::merge_lora(net);
  EXPECT_THAT(message_of<ValueError>([&] { nn::quantize(net, {.targets = {"^0$"}}); }),
              testing::AllOf(HasSubstr("\"0\" is merged with its adapter and cannot be quantized"),
                             HasSubstr("unmerge_lora(model) first")));
  EXPECT_THAT(message_of<ValueError>([&] { nn::weight_norm(net.children()[0]); }), HasSubstr("cannot be parametrized"));
  EXPECT_EQ(net.children()[0].class_name(), "Linear");
}

TEST(WeightFormsOf, LayersWithOneAdapterKeepTheirWeight) {
  nn::Sequential net(nn::Linear(8, 8, false), nn::Linear(8, 8, false));
  net[1].as<nn::Linear>().weight = net[0].as<nn::Linear>().weight;
  nn::apply_lora(net, {.targets = {"."}});
  EXPECT_THAT(message_of<ValueError>([&] { nn::quantize(net, {.targets = {"^1$"}}); }),
              testing::AllOf(HasSubstr("one of several layers with one adapter"), HasSubstr("share = false")));
  EXPECT_TRUE(net.state_dict().contains("0.weight"));
}

TEST(WeightFormsOf, FactorsOfAdaptersAreNotConverted) {
  const nn::Sequential net(nn::Linear(8, 8));
  nn::apply_lora(net, {.targets = {"^0$"}});
  EXPECT_THAT(nn::quantize(net), testing::ElementsAre("0"));
  EXPECT_TRUE(net.state_dict().contains("0.lora_A.weight"));
}

TEST(WeightFormsOf, AParametrizationIsRemovedUnderAnAdapter) {
  const nn::Sequential net(nn::Linear(8, 8));
  nn::weight_norm(net.children()[0]);
  nn::apply_lora(net, {.targets = {"^0$"}});
  const Tensor x = randn({3, 8}), before = net(x).detach();
  nn::remove_parametrizations(net.children()[0], "weight");
  EXPECT_LT(error_of(net(x).detach(), before), 1e-5);
  nn::merge_lora(net);
  nn::unmerge_lora(net);
  EXPECT_LT(error_of(net(x).detach(), before), 1e-5);
}

TEST(WeightFormsOf, TheSumOfADecodedWeightFollowsTheModel) {
  nn::Sequential net(nn::Linear(8, 8));
  nn::quantize(net);
  nn::apply_lora(net, {.targets = {"^0$"}, .merge_on_eval = true});
  const Tensor x = randn({3, 8});
  net.eval();
  EXPECT_TRUE(nn::is_lora_merged(net));
  const NoGradGuard unrecorded;
  const Tensor merged = net(x);
  net.to(bf16);
  EXPECT_EQ(net(x.to(bf16)).dtype(), bf16);
  EXPECT_LT(error_of(net(x.to(bf16)).to(f32), merged), 0.02);
  net.train();
  EXPECT_FALSE(nn::is_lora_merged(net));
}

}  // namespace
}  // namespace weft
