// Decoders against the package transformers with the same weights (cases/make_cases.py).
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <weft/generate/checkpoint.hpp>
#include <weft/generate/generate.hpp>
#include <weft/io/adapter.hpp>
#include <weft/io/safetensors.hpp>
#include <weft/io/sharded.hpp>
#include <weft/weft.hpp>

#include <temporary_folder.hpp>

namespace weft::generate {
namespace {

using Tokens = std::vector<int64_t>;
const std::filesystem::path cases = std::filesystem::path(WEFT_SOURCE_DIR) / "tests/generate/cases";

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

struct Recorded {
  std::vector<Tokens> tokens, greedy;
  std::vector<std::vector<std::vector<double>>> logits;
  explicit Recorded(const std::string& name) {
    const auto all = nlohmann::json::parse(text_of(cases / name / "logits.json"));
    tokens = all["tokens"].get<std::vector<Tokens>>();
    greedy = all["greedy"].get<std::vector<Tokens>>();
    logits = all["logits"].get<decltype(logits)>();
  }
};

Tensor matrix(const std::vector<Tokens>& rows) {
  std::vector<Tensor> each;
  for (const Tokens& row : rows) each.push_back(tensor(row));
  return stack(each);
}

class Checkpoints : public ::testing::TestWithParam<const char*> {};

TEST_P(Checkpoints, LogitsEqualTransformers) {
  const std::string name = GetParam();
  const Recorded recorded(name);
  const nn::CausalLM model = load_causal_lm((cases / name).string(), {.dtype = f64});
  const Tensor logits = model(matrix(recorded.tokens));
  for (size_t b = 0; b < recorded.logits.size(); ++b) {
    for (size_t s = 0; s < recorded.logits[b].size(); ++s) {
      const std::vector<double> got =
          Tensor(logits[{static_cast<int64_t>(b), static_cast<int64_t>(s)}]).to_vector<double>();
      for (size_t v = 0; v < got.size(); ++v) {
        ASSERT_NEAR(got[v], recorded.logits[b][s][v], 2e-5 * (1 + std::abs(got[v]))) << b << ' ' << s << ' ' << v;
      }
    }
  }
}

TEST_P(Checkpoints, GreedyTextsEqualTransformers) {
  const std::string name = GetParam();
  if (name == "llama_dynamic") return;  // there frequencies change beneath what is cached
  const Recorded recorded(name);
  const LanguageModel model = language_model(load_causal_lm((cases / name).string()));
  const std::vector<Generation> out =
      generate(model, recorded.tokens, {.max_new_tokens = 10, .sampling = {.temperature = 0}});
  for (size_t b = 0; b < out.size(); ++b) EXPECT_EQ(out[b].tokens, recorded.greedy[b]) << b;
}

TEST_P(Checkpoints, LoadingInPiecesGivesTheSameLogits) {
  const std::string name = GetParam();
  if (name == "llama_dynamic") return;
  const nn::CausalLM model = load_causal_lm((cases / name).string(), {.dtype = f64});
  const Tokens a = Recorded(name).tokens[0], b = Recorded(name).tokens[1];
  const Tensor whole = model(matrix({a, b}));
  nn::CausalLMCache cache(model.options(), 2, 12, {.dtype = f64});
  const auto expect_read = [&](int64_t first_a, int64_t end_a, int64_t first_b, int64_t end_b) {
    Tokens both(a.begin() + first_a, a.begin() + end_a);
    both.insert(both.end(), b.begin() + first_b, b.begin() + end_b);
    const Tensor logits = model.read(tensor(both), Tokens{end_a - first_a, end_b - first_b}, cache);
    const Tensor expected = cat({whole[0].slice(0, first_a, end_a), whole[1].slice(0, first_b, end_b)});
    EXPECT_TRUE(allclose(logits, expected, 1e-9, 1e-9)) << first_a << ' ' << first_b;
  };
  expect_read(0, 5, 0, 1);
  expect_read(5, 6, 1, 2);
  expect_read(6, 7, 2, 9);
  cache.truncate(Tokens{4, 9});
  expect_read(4, 12, 9, 10);
  EXPECT_THROW(model.read(tensor(Tokens{1, 2}), Tokens{1, 1}, cache), IndexError);
  EXPECT_EQ(cache.lengths(), (Tokens{12, 10}));
  EXPECT_THROW(cache.truncate(Tokens{3, 11}), ValueError);
  EXPECT_THROW(cache.truncate(Tokens{3, 3, 3}), IndexError);
  EXPECT_EQ(cache.lengths(), (Tokens{12, 10}));  // of all sequences or of none
  cache.take_rows(Tokens{1});
  const Tensor next = model.read(tensor(Tokens{b[10]}), Tokens{1}, cache, true);
  EXPECT_TRUE(allclose(next, whole[1].slice(0, 10, 11), 1e-9, 1e-9));
}

INSTANTIATE_TEST_SUITE_P(Published, Checkpoints,
                         ::testing::Values("gpt2", "llama", "llama_linear", "llama_dynamic", "llama_yarn", "llama3",
                                           "mistral", "qwen2", "qwen3"),
                         [](const auto& info) { return std::string(info.param); });

nn::CausalLM small_model(nn::CausalLMOptions o = {}) {
  o.vocabulary = 17, o.width = 16, o.layers = 2, o.heads = 4, o.kv_heads = 2, o.context = 32;
  manual_seed(6);
  return nn::CausalLM(o);
}

TEST(CausalLM, BatchedCachedTextsEqualThoseOfEachPromptAlone) {
  const nn::CausalLM model = small_model();
  const LanguageModel cached = language_model(model);
  const LanguageModel anew = without_cache([&](const Tensor& t) { return model(t); }, 17);
  const std::vector<Tokens> prompts{{1, 2, 3}, {4}, {5, 6, 7, 8, 9, 10}};
  for (const bool draws : {false, true}) {
    GenerateOptions o{.max_new_tokens = 12, .seed = 5};
    if (!draws) o.sampling.temperature = 0;
    const std::vector<Generation> out = generate(cached, prompts, o), expected = generate(anew, prompts, o);
    for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(out[i].tokens, expected[i].tokens) << i;
    o.draft = language_model(small_model({.hidden = 20}));
    const std::vector<Generation> drafted = generate(cached, prompts, o);
    for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(drafted[i].tokens, expected[i].tokens) << i;
  }
  const GenerateOptions beams{.max_new_tokens = 6, .end_tokens = {3}, .beams = 4};
  EXPECT_EQ(generate(cached, prompts, beams)[2].tokens, generate(anew, prompts, beams)[2].tokens);
}

/// Heads that say something: at first they only repeat the next token.
nn::DraftHeads some_heads(int64_t count, double size = 0.5) {
  manual_seed(9);
  const nn::DraftHeads heads(16, count);
  const NoGradGuard unrecorded;
  for (const Tensor& p : heads.parameters()) p.copy_(randn(p.shape()) * size);
  return heads;
}

TEST(DraftHeads, TextsEqualThoseOfTheModelAlone) {
  const nn::CausalLM model = small_model();
  const LanguageModel alone = language_model(model), drafting = language_model(model, some_heads(3));
  const std::vector<Tokens> prompts{{1, 2, 3}, {4}, {5, 6, 7, 8, 9, 10}};
  for (const SamplingOptions& s :
       {SamplingOptions{.temperature = 0}, SamplingOptions{}, SamplingOptions{.repetition_penalty = 1.3, .top_k = 3}}) {
    for (const int64_t draft_tokens : {0, 1, 2, 3, 8}) {
      GenerateOptions o{
          .max_new_tokens = 14, .sampling = s, .seed = 5, .end_tokens = {7}, .draft_tokens = draft_tokens};
      const std::vector<Generation> expected = generate(alone, prompts, o), got = generate(drafting, prompts, o);
      for (size_t i = 0; i < prompts.size(); ++i) {
        EXPECT_EQ(got[i].tokens, expected[i].tokens) << i << ' ' << draft_tokens;
        EXPECT_EQ(got[i].finish, expected[i].finish);
        EXPECT_NEAR(got[i].log_probability, expected[i].log_probability, 1e-3);
        EXPECT_LE(got[i].accepted, got[i].proposed);
        EXPECT_EQ(expected[i].proposed, 0);
        if (draft_tokens == 0) {
          EXPECT_EQ(got[i].proposed, 0);
        }
      }
      EXPECT_EQ(generate(drafting, prompts, {.max_new_tokens = 4, .beams = 2})[0].tokens,
                generate(alone, prompts, {.max_new_tokens = 4, .beams = 2})[0].tokens);
    }
  }
}

TEST(DraftHeads, AskWithinTheContextAndRefuseAnotherWidth) {
  const nn::CausalLM model = small_model();
  const LanguageModel alone = language_model(model), drafting = language_model(model, some_heads(4));
  const std::vector<Tokens> prompts{Tokens(28, 1), Tokens(31, 2)};
  const GenerateOptions o{.max_new_tokens = 20, .sampling = {.temperature = 0}};
  const std::vector<Generation> expected = generate(alone, prompts, o), got = generate(drafting, prompts, o);
  for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(got[i].tokens, expected[i].tokens) << i;
  EXPECT_EQ(got[0].tokens.size(), 4u);
  EXPECT_THROW(language_model(model, nn::DraftHeads(8, 2)), ValueError);
  EXPECT_THROW(nn::DraftHeads(16, 0), ValueError);
  EXPECT_THROW(nn::draft_loss(model, some_heads(3), zeros({2, 4}, i64)), ValueError);
  EXPECT_THROW(generate(drafting, prompts, {.draft_tokens = -1}), ValueError);
}

TEST(DraftHeads, PredictTheModelsTokensAndSaveCalls) {
  // A model that counts: behind each token comes the next one.
  const nn::CausalLM model = small_model();
  const Tensor texts = remainder(arange(0, 17, 1, i64).unsqueeze(1) + arange(0, 12, 1, i64), 17);
  optim::AdamW learn(model.parameters(), {.lr = 0.01});
  for (int step = 0; step < 150; ++step) {
    learn.zero_grad();
    cross_entropy(model(texts.narrow(1, 0, 11)).flatten(0, 1), texts.narrow(1, 1, 11).flatten()).backward();
    learn.step();
  }
  for (const Tensor& p : model.parameters()) p.requires_grad_(false);
  const nn::DraftHeads heads(16, 3);
  optim::AdamW learn_heads(heads.parameters(), {.lr = 0.03});
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    learn_heads.zero_grad();
    const Tensor loss = nn::draft_loss(model, heads, texts);
    loss.backward();
    learn_heads.step();
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, first / 4);
  const GenerateOptions o{.max_new_tokens = 16, .sampling = {.temperature = 0}, .draft_tokens = 3};
  const Generation got = generate(language_model(model, heads), {{3, 4, 5}}, o)[0];
  EXPECT_EQ(got.tokens, generate(language_model(model), {{3, 4, 5}}, o)[0].tokens);
  EXPECT_EQ(got.tokens[0], 6);
  EXPECT_GT(got.accepted, 8);
  // Heads that were not trained say the next token over again.
  EXPECT_EQ(generate(language_model(model, nn::DraftHeads(16, 3)), {{3, 4, 5}}, o)[0].accepted, 0);
}

TEST(CausalLM, TrainsAndHasGradientsEverywhere) {
  for (const bool like_gpt2 : {false, true}) {
    nn::CausalLMOptions o;
    if (like_gpt2) {
      o.positions = nn::CausalLMPositions::learned, o.norm = nn::CausalLMNorm::layer, o.mlp = nn::CausalLMMlp::gelu;
      o.qkv_bias = o.out_bias = o.mlp_bias = o.tied = true;
    }
    const nn::CausalLM model = small_model(o);
    optim::AdamW optimizer(model.parameters(), {.lr = 0.01});
    const Tensor tokens = randint(0, 17, {4, 9});
    double first = 0, last = 0;
    for (int step = 0; step < 40; ++step) {
      optimizer.zero_grad();
      const Tensor logits = model(tokens.narrow(1, 0, 8));
      const Tensor loss = cross_entropy(logits.flatten(0, 1), tokens.narrow(1, 1, 8).flatten());
      loss.backward();
      if (step == 0) {
        first = loss.item<double>();
        for (const auto& [name, p] : model.named_parameters()) EXPECT_TRUE(p.grad().defined()) << name;
      }
      optimizer.step();
      last = loss.item<double>();
    }
    EXPECT_LT(last, first / 2);
    EXPECT_EQ(model.lm_head.has_value(), !like_gpt2);
  }
}

TEST(CausalLM, IsSavedAndLoadedAsACheckpoint) {
  const TemporaryFolder folder;
  const nn::CausalLM model = load_causal_lm((cases / "llama").string());
  io::save_sharded(io::TensorList(model.state_dict()), folder.path(), {.max_shard_size = 6000});
  std::filesystem::copy(cases / "llama/config.json", std::filesystem::path(folder.path()) / "config.json");
  const nn::CausalLM again = load_causal_lm(folder.path());
  const Tensor tokens = matrix(Recorded("llama").tokens);
  EXPECT_TRUE(equal(again(tokens), model(tokens)));
  EXPECT_EQ(end_tokens(folder.path()), (Tokens{1}));
  const nn::CausalLM half = load_causal_lm(folder.path(), {.dtype = bf16});
  EXPECT_EQ(half.model.embed_tokens.weight.dtype(), bf16);
  EXPECT_FALSE(half.is_training());
}

class Adapters : public ::testing::TestWithParam<const char*> {};

TEST_P(Adapters, LogitsEqualPefts) {
  const std::filesystem::path adapter = cases / "adapters" / GetParam();
  const auto recorded = nlohmann::json::parse(text_of(adapter / "logits.json"));
  const nn::CausalLM model = load_causal_lm((cases / recorded["base"].get<std::string>()).string());
  io::load_adapter(adapter.string(), model);
  const Tensor tokens = matrix(recorded["tokens"].get<std::vector<Tokens>>());
  const auto expected = recorded["logits"].get<std::vector<std::vector<std::vector<double>>>>();
  std::vector<double> flat;
  for (const auto& row : expected) {
    for (const auto& place : row) flat.insert(flat.end(), place.begin(), place.end());
  }
  const Tensor logits = tensor(flat, f64).reshape({2, 4, -1});
  EXPECT_TRUE(allclose(model(tokens).to(f64), logits, 1e-4, 1e-4));
  nn::merge_lora(model);
  EXPECT_TRUE(allclose(model(tokens).to(f64), logits, 1e-4, 1e-4)) << "merged";
  nn::unmerge_lora(model);

  // And back.
  const TemporaryFolder folder;
  const auto config = nlohmann::json::parse(text_of(adapter / "adapter_config.json"));
  const auto bias = config["bias"] == "all"         ? nn::LoraBias::all
                    : config["bias"] == "lora_only" ? nn::LoraBias::lora_only
                                                    : nn::LoraBias::none;
  io::save_adapter(folder / "a", model, {.bias = bias});
  const io::TensorMap written = io::load_file((adapter / "adapter_model.safetensors").string());
  const io::TensorMap own = io::load_file((folder / "a/adapter_model.safetensors").string());
  for (const auto& [name, value] : written) {
    const bool is_base = name.ends_with("base_layer.weight");
    EXPECT_TRUE(is_base || (own.contains(name) && equal(own.at(name), value))) << name;
  }
  const nn::CausalLM again = load_causal_lm((cases / recorded["base"].get<std::string>()).string());
  io::load_adapter(folder / "a", again);
  EXPECT_TRUE(equal(again(tokens), model(tokens)));
}
INSTANTIATE_TEST_SUITE_P(All, Adapters,
                         ::testing::Values("embedding_and_head", "tied_embedding", "tied_head",
                                           "tied_embedding_and_head", "bias_all", "bias_lora_only", "patterns"));

// A folder with a case's config, changed, and its weights with others among them.
void write_changed(const TemporaryFolder& folder, const std::string& name, const nlohmann::json& changes,
                   const io::TensorMap& more = {}, std::optional<DType> dtype = {}) {
  auto config = nlohmann::json::parse(text_of(cases / name / "config.json"));
  for (const auto& [key, value] : changes.items()) {
    if (value.is_null()) config.erase(key);
    else config[key] = value;
  }
  write_bytes(folder / "config.json", config.dump());
  io::TensorMap weights = io::load_file((cases / name / "model.safetensors").string(), {}, {}, {.mmap = false});
  if (dtype) {
    for (auto& [key, tensor] : weights) tensor = tensor.to(*dtype);
  }
  weights.insert(more.begin(), more.end());
  io::save_file(weights, folder / "model.safetensors");
}

// Each number of a config is replaced: loading refuses it at once, or loads the model if it does not concern weights.
TEST(CausalLM, NumbersOfAConfigAreComparedWithTheWeightsBeforeItIsBuilt) {
  for (const std::string name : {"gpt2", "llama", "qwen2"}) {
    const TemporaryFolder folder;
    int refused = 0;
    const auto config = nlohmann::json::parse(text_of(cases / name / "config.json"));
    for (const auto& [key, value] : config.items()) {
      if (!value.is_number()) continue;
      for (const nlohmann::json& other :
           {nlohmann::json(1000000000), nlohmann::json(-1), nlohmann::json(int64_t{1} << 62),
            nlohmann::json(~uint64_t{0}), nlohmann::json(1e30)}) {
        write_changed(folder, name, {{key, other}});
        reset_peak();
        const size_t before = memory_stats().allocated;
        const auto start = std::chrono::steady_clock::now();
        try {
          (void)load_causal_lm(folder.path().string());
        } catch (const Error&) {
          ++refused;
        }
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
        EXPECT_LT(passed.count(), 1) << name << " " << key << " " << other;
        EXPECT_LT(memory_stats().peak_allocated - before, size_t{1} << 20) << name << " " << key << " " << other;
      }
    }
    EXPECT_GT(refused, 15) << name;
  }
}

TEST(CausalLM, TakesTheDtypeOfItsWeightsNotOfMasksAndPositions) {
  const TemporaryFolder folder;
  const Tensor tokens = matrix(Recorded("gpt2").tokens);
  const nn::CausalLM model = load_causal_lm((cases / "gpt2").string());
  const std::string at =
      io::load_file((cases / "gpt2/model.safetensors").string()).contains("wte.weight") ? "" : "transformer.";
  for (const DType mask : {DType::u8, DType::boolean, DType::f32}) {
    for (const bool says : {true, false}) {
      io::TensorMap masks;
      for (const std::string layer : {"0", "1"}) {
        masks.emplace(at + "h." + layer + ".attn.bias", ones({1, 1, 64, 64}).tril().to(mask));
        masks.emplace(at + "h." + layer + ".attn.masked_bias", full({}, -1e4));
      }
      write_changed(folder, "gpt2", says ? nlohmann::json::object() : nlohmann::json{{"dtype", nullptr}}, masks);
      const nn::CausalLM loaded = load_causal_lm(folder.path().string());
      EXPECT_EQ(loaded.model.embed_tokens.weight.dtype(), f32);
      EXPECT_TRUE(equal(loaded(tokens), model(tokens)));
    }
  }
  // Of 16 bits beside masks of 32, and of several dtypes by the config.
  write_changed(folder, "gpt2", {{"dtype", nullptr}},
                {{at + "h.0.attn.masked_bias", full({}, -1e4)}, {at + "h.0.attn.bias", ones({1, 1, 4, 4})}}, f16);
  EXPECT_EQ(load_causal_lm(folder.path().string()).model.embed_tokens.weight.dtype(), f16);
  write_changed(folder, "gpt2", {{"dtype", "float32"}}, {{at + "h.0.attn.bias", ones({1, 1, 4, 4})}}, f16);
  EXPECT_EQ(load_causal_lm(folder.path().string()).model.embed_tokens.weight.dtype(), f32);
  const io::TensorMap frequencies = {{"model.layers.0.self_attn.rotary_emb.inv_freq", ones({2}, f64)},
                                     {"model.rotary_emb.inv_freq", ones({2}, f64)}};
  write_changed(folder, "llama", {{"dtype", nullptr}, {"torch_dtype", "float32"}}, frequencies);
  EXPECT_EQ(load_causal_lm(folder.path().string()).model.embed_tokens.weight.dtype(), f32);
}

TEST(CausalLM, AConfigLargerThanTheWeightsIsRefusedBeforeAnythingIsBuilt) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& name, const nlohmann::json& changes) {
    SCOPED_TRACE(changes.dump());
    write_changed(folder, name, changes);
    const size_t before = memory_stats().peak_allocated;
    EXPECT_THROW(load_causal_lm(folder.path().string()), Error);
    EXPECT_LT(memory_stats().peak_allocated, before + (size_t{1} << 30));
  };
  for (const std::string name : {"llama", "mistral", "qwen2", "qwen3"}) {
    refused(name, {{"num_hidden_layers", 1000000000}});
    refused(name, {{"num_hidden_layers", 4000000000000000000}});
    refused(name, {{"vocab_size", 2000000000}});
    refused(name, {{"hidden_size", 1 << 20}, {"num_attention_heads", 4}, {"head_dim", nullptr}});
    refused(name, {{"intermediate_size", 2000000000}});
  }
  refused("gpt2", {{"n_layer", 1000000000}});
  refused("gpt2", {{"n_positions", 1000000000}});
  refused("gpt2", {{"n_embd", 1 << 20}});
  refused("gpt2", {{"n_inner", 1000000000}});
}

TEST(CausalLM, RejectsUnknownOptions) {
  EXPECT_THROW(causal_lm_options("{"), FormatError);
  EXPECT_THROW(causal_lm_options("{}"), FormatError);
  EXPECT_THROW(causal_lm_options(R"({"model_type": "llama"})"), FormatError);
  EXPECT_THROW(causal_lm_options(R"({"model_type": "bert"})"), NotImplementedError);
  const auto changed = [](const char* key, const nlohmann::json& value) {
    auto config = nlohmann::json::parse(text_of(cases / "llama/config.json"));
    config[key] = value;
    return config.dump();
  };
  EXPECT_THROW(causal_lm_options(changed("hidden_act", "gelu")), NotImplementedError);
  EXPECT_THROW(causal_lm_options(changed("rope_parameters", {{"rope_type", "longrope"}})), NotImplementedError);
  EXPECT_THROW(nn::CausalLM(causal_lm_options(changed("num_key_value_heads", 3))), ValueError);
  EXPECT_THROW(nn::CausalLM(causal_lm_options(changed("vocab_size", 0))), ValueError);
  EXPECT_THROW(load_causal_lm("nowhere"), IoError);
  const nn::CausalLM model = small_model();
  EXPECT_THROW(model(tensor({1, 2})), ShapeError);
  EXPECT_THROW(model(zeros({1, 33}, i64)), ValueError);
  nn::CausalLMCache cache(model.options(), 1, 4);
  EXPECT_THROW(model.read(tensor({1, 2}), Tokens{1}, cache), ShapeError);
  EXPECT_THROW(model.read(tensor({1, 2}), Tokens{1, 1}, cache), ShapeError);
}

}  // namespace
}  // namespace weft::generate
