// Adapters of the output layer of a CausalLM whose embeddings are tied: as in PEFT, they apply to the head alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/io/adapter.hpp>
#include <weft/io/model.hpp>
#include <weft/nn/causal_lm.hpp>
#include <weft/weft.hpp>

#include <temporary_folder.hpp>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

nn::CausalLM tied_model(int64_t vocabulary = 11) {
  manual_seed(4);
  return nn::CausalLM(
      {.vocabulary = vocabulary, .width = 8, .layers = 1, .heads = 2, .hidden = 16, .context = 16, .tied = true});
}

Tensor tokens() { return tensor({{1, 4, 2}, {7, 0, 10}}); }

void stir(const nn::Module& model) {
  const NoGradGuard unrecorded;
  for (const nn::LoraLayer& layer : nn::lora_layers(model)) layer.a.normal_(0, 0.3), layer.b.normal_(0, 0.3);
}

nn::LoraLayer adapter_named(const nn::Module& model, const std::string& name) {
  for (const nn::LoraLayer& layer : nn::lora_layers(model)) {
    if (layer.name == name) return layer;
  }
  throw std::runtime_error("no adapter " + name);
}

/// PEFT's formula for the head alone: h Wᵀ + s h Aᵀ Bᵀ with the embedding's W.
Tensor expected_logits(const nn::CausalLM& model, const Tensor& hidden) {
  const nn::LoraLayer own = adapter_named(model, "lm_head");
  const Tensor& w = model.model.embed_tokens.weight;
  return matmul(hidden, w.t()) + own.scale * matmul(matmul(hidden, own.a.t()), own.b.t());
}

nn::CausalLM adapted(const std::vector<std::string>& targets, bool share = true) {
  nn::CausalLM model = tied_model();
  nn::apply_lora(model, {.r = 2, .alpha = 4, .targets = targets, .share = share});
  stir(model);
  return model;
}

TEST(TiedHead, AnAdapterAppliesToTheHeadAlone) {
  for (const bool share : {true, false}) {
    const nn::CausalLM model = adapted({"lm_head"}, share), base = tied_model();
    EXPECT_EQ(nn::lora_layers(model).size(), 1u);
    const Tensor hidden = model.hidden(tokens());
    EXPECT_TRUE(equal(hidden, base.hidden(tokens()))) << "the embedding has no adapter";
    EXPECT_TRUE(allclose(model(tokens()), expected_logits(model, hidden), 1e-5, 1e-6));
    EXPECT_FALSE(allclose(model(tokens()), base(tokens()), 1e-2, 1e-2));
  }
}

TEST(TiedHead, EmbeddingAndHeadHaveAnAdapterEach) {
  const nn::CausalLM model = adapted({"embed_tokens$", "^lm_head$"});
  EXPECT_EQ(nn::lora_layers(model).size(), 2u);
  EXPECT_TRUE(allclose(model(tokens()), expected_logits(model, model.hidden(tokens())), 1e-5, 1e-6));
  EXPECT_FALSE(allclose(model.hidden(tokens()), tied_model().hidden(tokens()), 1e-2, 1e-2));
}

TEST(TiedHead, CopiesAndClonesComputeWithIt) {
  nn::CausalLM model = tied_model();
  const nn::CausalLM copy = model;
  nn::apply_lora(model, {.r = 2, .targets = {"lm_head"}});
  stir(model);
  EXPECT_TRUE(equal(copy(tokens()), model(tokens())));
  const nn::CausalLM other = model.clone();
  EXPECT_TRUE(equal(other(tokens()), model(tokens())));
  stir(other);
  EXPECT_FALSE(equal(other(tokens()), model(tokens())));
  EXPECT_EQ(other.state_dict().count("lm_head.weight"), 0u);
}

TEST(TiedHead, OnlyTheAdapterTrains) {
  const nn::CausalLM model = adapted({"lm_head"});
  nn::mark_only_lora_trainable(model);
  const Tensor before = model.model.embed_tokens.weight.detach().clone();
  const std::vector<Tensor> parameters = nn::lora_parameters(model);
  EXPECT_EQ(parameters.size(), 2u);
  optim::AdamW optimizer(parameters, {.lr = 0.05, .weight_decay = 0});
  const Tensor labels = tensor({1, 2, 3, 4, 5, 6});
  double first = 0, last = 0;
  for (int step = 0; step < 40; ++step) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(tokens()).flatten(0, 1), labels);
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, first / 2);
  EXPECT_TRUE(equal(model.model.embed_tokens.weight, before));
}

TEST(TiedHead, GradientsAreTheFormulas) {
  nn::CausalLM model = adapted({"lm_head"});
  model.to(f64);
  const Tensor hidden = model.hidden(tokens()).detach(), g = randn({2, 3, 11}, f64);
  const nn::LoraLayer own = adapter_named(model, "lm_head");
  model.logits(hidden).backward(g);
  const Tensor h = hidden.flatten(0, 1), up = g.flatten(0, 1);
  EXPECT_TRUE(allclose(own.b.grad(), own.scale * matmul(up.t(), matmul(h, own.a.t())), 1e-10));
  EXPECT_TRUE(allclose(own.a.grad(), own.scale * matmul(matmul(up, own.b).t(), h), 1e-10));
  EXPECT_FALSE(model.model.embed_tokens.weight.grad().defined());
}

TEST(TiedHead, MergingLeavesTheEmbeddingAsItIs) {
  for (const std::vector<std::string>& targets :
       {std::vector<std::string>{"lm_head"}, {"embed_tokens$"}, {"embed_tokens$", "lm_head", "q_proj"}}) {
    nn::CausalLM model = adapted(targets);
    model.eval();
    const Tensor w = model.model.embed_tokens.weight.detach().clone(), apart = model(tokens());
    nn::merge_lora(model);
    EXPECT_TRUE(allclose(model(tokens()), apart, 1e-4, 1e-5)) << targets[0];
    EXPECT_TRUE(equal(model.model.embed_tokens.weight, w));
    EXPECT_TRUE(equal(model.state_dict().at("model.embed_tokens.weight"), w)) << "a state holds W";
    const nn::CausalLM other = model.clone();
    EXPECT_TRUE(equal(other(tokens()), model(tokens())));
    nn::unmerge_lora(model);
    EXPECT_TRUE(equal(model(tokens()), apart));
    EXPECT_TRUE(allclose(other(tokens()), apart, 1e-4, 1e-5));
  }
}

TEST(TiedHead, MergedAndUnloadedTheModelIsUntied) {
  for (const std::vector<std::string>& targets :
       {std::vector<std::string>{"lm_head"}, {"embed_tokens$"}, {"embed_tokens$", "lm_head"}}) {
    nn::CausalLM model = adapted(targets);
    model.eval();
    const Tensor apart = model(tokens());
    nn::merge_and_unload_lora(model);
    EXPECT_TRUE(nn::lora_layers(model).empty());
    EXPECT_FALSE(model.options().tied);
    EXPECT_TRUE(allclose(model(tokens()), apart, 1e-4, 1e-5)) << targets[0];
    EXPECT_FALSE(equal(model.state_dict().at("lm_head.weight"), model.state_dict().at("model.embed_tokens.weight")));

    const TemporaryFolder folder;
    io::save_model(folder / "m", model);
    const nn::CausalLM loaded = io::load_model(folder / "m").as<nn::CausalLM>();
    EXPECT_TRUE(loaded.lm_head.has_value());
    EXPECT_TRUE(equal(loaded(tokens()), model(tokens())));
  }
}

TEST(TiedHead, UnloadingOtherAdaptersLeavesTheModelTied) {
  nn::CausalLM model = adapted({"q_proj"});
  nn::merge_and_unload_lora(model);
  EXPECT_TRUE(model.options().tied);
  EXPECT_EQ(model.state_dict().count("lm_head.weight"), 0u);
}

TEST(TiedHead, AModelIsSavedAndLoadedWithIt) {
  for (const bool merged : {false, true}) {
    nn::CausalLM model = adapted({"embed_tokens$", "lm_head"});
    model.eval();
    if (merged) nn::merge_lora(model);
    const TemporaryFolder folder;
    io::save_model(folder / "m", model);
    const nn::CausalLM loaded = io::load_model(folder / "m").as<nn::CausalLM>();
    EXPECT_TRUE(equal(loaded(tokens()), model(tokens())));
    EXPECT_EQ(nn::is_lora_merged(loaded), merged);
    EXPECT_TRUE(loaded.options().tied);
  }
}

TEST(TiedHead, ATrainingStateResumes) {
  const auto step = [](const nn::CausalLM& model, optim::AdamW& optimizer) {
    optimizer.zero_grad();
    cross_entropy(model(tokens()).flatten(0, 1), tensor({1, 2, 3, 4, 5, 6})).backward();
    optimizer.step();
  };
  nn::CausalLM model = adapted({"lm_head"}), other = adapted({"lm_head"});
  optim::AdamW optimizer(nn::lora_parameters(model)), others(nn::lora_parameters(other));
  step(model, optimizer);
  const TemporaryFolder folder;
  io::save_training_state(folder / "s", {model, &optimizer}, {.step = 1});
  io::load_training_state(folder / "s", {other, &others});
  step(model, optimizer), step(other, others);
  EXPECT_TRUE(equal(other(tokens()), model(tokens())));
}

TEST(TiedHead, AdaptersAreFilesAsPefts) {
  const nn::CausalLM model = adapted({"lm_head", "q_proj"}), other = tied_model();
  EXPECT_TRUE(nn::lora_state_dict(model).contains("base_model.model.lm_head.lora_A.weight"));
  const TemporaryFolder folder;
  io::save_adapter(folder / "a", model);
  EXPECT_THAT(io::load_adapter(folder / "a", other).names, ElementsAre("lm_head", "model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(equal(other(tokens()), model(tokens())));
}

TEST(TiedHead, ARefusedAdapterAddsNoHead) {
  const nn::CausalLM model = tied_model();
  EXPECT_THROW(nn::apply_lora(model, {.r = 0, .targets = {"lm_head"}}), ValueError);
  EXPECT_EQ(model.named_children().size(), 1u);
}

TEST(TiedHead, HooksRunAndTheTreeShowsIt) {
  const nn::CausalLM model = adapted({"lm_head"});
  EXPECT_THAT(model.text(), HasSubstr("(lm_head): Linear("));
  int calls = 0;
  nn::Module head = model.children().back();
  const HookHandle hook = head.register_forward_hook([&](const nn::ForwardEvent&) { ++calls; });
  (void)model(tokens());
  EXPECT_EQ(calls, 1);
}

TEST(TiedHead, MovesAndReadsWithItsCache) {
  nn::CausalLM model = adapted({"lm_head"});
  model.eval();
  nn::merge_lora(model);
  model.to(f64);
  const Tensor all = model(tokens());
  EXPECT_EQ(all.dtype(), f64);
  nn::CausalLMCache cache(model.options(), 1, 8, {.dtype = f64});
  const std::vector<int64_t> counts = {3};
  const Tensor read = model.read(tensor({1, 4, 2}), counts, cache);
  EXPECT_TRUE(allclose(read, all[0], 1e-9));
}

// A model with a module that is a Linear already; the pair is tied by the user.
struct UsersModel : nn::Layer<UsersModel> {
  nn::Embedding token{11, 8};
  nn::Linear head{8, 11, false};
  UsersModel() {
    WEFT_REGISTER(token, head);
    head.weight = token.weight;
  }
  Tensor forward(const Tensor& tokens) const { return head(token(tokens)); }
};

TEST(SharedWeights, AnAdapterOfOneLayerIsMergedIntoACopy) {
  const UsersModel model;
  nn::apply_lora(model, {.r = 2, .targets = {"head"}, .share = false});
  stir(model);
  const Tensor w = model.token.weight.detach().clone(), apart = model(tokens());
  nn::merge_lora(model);
  nn::Module(model).eval();
  EXPECT_TRUE(allclose(model(tokens()), apart, 1e-4, 1e-5));
  EXPECT_TRUE(equal(model.token.weight, w));
  nn::merge_and_unload_lora(model);
  EXPECT_TRUE(equal(model.token.weight, w));
  EXPECT_TRUE(allclose(model(tokens()), apart, 1e-4, 1e-5));
  EXPECT_TRUE(model.state_dict().contains("head.weight"));
}

}  // namespace
}  // namespace weft
