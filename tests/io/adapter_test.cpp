#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <weft/io/adapter.hpp>
#include <weft/nn/open_module.hpp>
#include <weft/weft.hpp>

#include <message_of.hpp>
#include <temporary_folder.hpp>
#include <tensor_bytes.hpp>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

nn::Sequential model() {
  manual_seed(1);
  return nn::Sequential(nn::Embedding(9, 6), nn::Linear(6, 6), nn::Linear(6, 4));
}

void stir(const nn::Module& m) {
  const NoGradGuard unrecorded;
  for (const nn::LoraLayer& layer : nn::lora_layers(m)) layer.b.normal_(0, 0.5);
}

Tensor x() { return tensor({3, 0, 8}); }

TEST(Adapter, ComesBackIntoABareModel) {
  const TemporaryFolder folder;
  nn::Sequential adapted = model();
  nn::apply_lora(adapted, {.r = 2, .alpha = 8, .rslora = true, .targets = {"0", "1"}});
  nn::apply_lora(adapted, {.r = 3, .alpha = 5, .rslora = true, .targets = {"2"}});
  stir(adapted);
  nn::merge_lora(adapted);
  io::save_adapter(folder / "a", adapted, {.base = "models/base"});
  nn::unmerge_lora(adapted);

  nn::Sequential bare = model();
  const io::AdapterInfo info = io::load_adapter(folder / "a", bare);
  EXPECT_EQ(info.base, "models/base");
  EXPECT_THAT(info.names, ElementsAre("0", "1", "2"));
  EXPECT_EQ(bytes_of(bare(x())), bytes_of(adapted(x())));
  EXPECT_EQ(nn::lora_layers(bare)[2].options.r, 3);
  io::load_adapter(folder / "a", bare);
  EXPECT_EQ(bytes_of(bare(x())), bytes_of(adapted(x()))) << "into a model that has the adapters";
}

TEST(Adapter, TheFolderIsLaidOutAsPeftHasIt) {
  const TemporaryFolder folder;
  nn::Sequential adapted = model();
  nn::apply_lora(adapted, {.r = 2, .alpha = 8, .dropout = 0.1, .targets = {"1", "2"}});
  io::save_adapter(folder / "a", adapted, {.base = "b", .bias = nn::LoraBias::lora_only});
  const auto config = nlohmann::json::parse(read_bytes(folder / "a/adapter_config.json"));
  EXPECT_EQ(config["peft_type"], "LORA");
  EXPECT_EQ(config["r"], 2);
  EXPECT_EQ(config["lora_alpha"], 8);
  EXPECT_EQ(config["lora_dropout"], 0.1);
  EXPECT_EQ(config["use_rslora"], false);
  EXPECT_EQ(config["bias"], "lora_only");
  EXPECT_EQ(config["target_modules"], (nlohmann::json{"1", "2"}));
  EXPECT_EQ(config["base_model_name_or_path"], "b");
  EXPECT_THAT(io::SafeFile::open(folder / "a/adapter_model.safetensors").keys(),
              testing::UnorderedElementsAre("base_model.model.1.base_layer.bias", "base_model.model.1.lora_A.weight",
                                            "base_model.model.1.lora_B.weight", "base_model.model.2.base_layer.bias",
                                            "base_model.model.2.lora_A.weight", "base_model.model.2.lora_B.weight"));
  nn::apply_lora(adapted, {.r = 2, .targets = {"0"}});
  nn::merge_and_unload_lora(adapted);
  nn::apply_lora(adapted, {.r = 2, .targets = {"2"}});
  io::save_adapter(folder / "b", adapted, {.bias = nn::LoraBias::all});
  EXPECT_THAT(io::SafeFile::open(folder / "b/adapter_model.safetensors").keys(),
              testing::UnorderedElementsAre("base_model.model.1.bias", "base_model.model.2.base_layer.bias",
                                            "base_model.model.2.lora_A.weight", "base_model.model.2.lora_B.weight"));
}

TEST(Adapter, BiasesComeBack) {
  for (const nn::LoraBias bias : {nn::LoraBias::all, nn::LoraBias::lora_only}) {
    const TemporaryFolder folder;
    nn::Sequential adapted = model(), bare = model();
    nn::apply_lora(adapted, {.r = 2, .targets = {"2"}});
    stir(adapted);
    const NoGradGuard unrecorded;
    for (const int layer : {1, 2}) adapted[layer].as<nn::Linear>().bias.fill_(layer);
    io::save_adapter(folder / "a", adapted, {.bias = bias});
    io::load_adapter(folder / "a", bare);
    EXPECT_EQ(bytes_of(bare[2].as<nn::Linear>().bias), bytes_of(adapted[2].as<nn::Linear>().bias));
    EXPECT_EQ(equal(bare(x()), adapted(x())), bias == nn::LoraBias::all);
  }
}

TEST(Adapter, OneOfAnotherScaleIsRefused) {
  const TemporaryFolder folder;
  nn::Sequential adapted = model(), other = model();
  nn::apply_lora(adapted, {.r = 2, .alpha = 8, .targets = {"1"}});
  nn::apply_lora(other, {.r = 2, .alpha = 4, .targets = {"1"}});
  io::save_adapter(folder / "a", adapted);
  EXPECT_THAT(message_of<ValueError>([&] { io::load_adapter(folder / "a", other); }),
              HasSubstr("1: expected 4, got 2"));
}

struct Tied : nn::Layer<Tied> {
  nn::Embedding token{9, 6};
  nn::Linear head{6, 9, false};
  Tied() {
    nn::OpenModule(head, "Linear").set_parameter("weight", token.weight);
    head.weight = token.weight;
    WEFT_REGISTER(token, head);
  }
  Tensor forward(const Tensor& tokens) const { return head(token(tokens)); }
};

// PEFT's adapter is that of one layer, Weft's that of all that hold the weight.
TEST(Adapter, AWeightThatLayersShareIsAdaptedInOneOfThemWherePeftDidSo) {
  const TemporaryFolder folder;
  manual_seed(1);
  const Tied ours;
  const Tied base = ours.clone();
  nn::apply_lora(ours, {.r = 2, .targets = {"token"}});
  stir(ours);
  io::save_adapter(folder / "a", ours);
  const Tied again = base.clone();
  io::load_adapter(folder / "a", again);
  EXPECT_EQ(bytes_of(again(x())), bytes_of(ours(x())));

  auto config = nlohmann::json::parse(read_bytes(folder / "a/adapter_config.json"));
  config["peft_version"] = "0.21.2";
  config.erase("weft_share");
  write_bytes(folder / "a/adapter_config.json", config.dump());
  const Tied alone = base.clone();
  io::load_adapter(folder / "a", alone);
  EXPECT_EQ(bytes_of(alone.token(x())), bytes_of(ours.token(x())));
  EXPECT_EQ(bytes_of(alone(x())), bytes_of(linear(ours.token(x()), base.token.weight)));
  // Merging changes the named layer only.
  Tied merged = alone.clone();
  merged.eval();
  nn::merge_lora(merged);
  EXPECT_TRUE(allclose(merged.token(x()), alone.token(x()), 1e-4, 1e-5));
  EXPECT_EQ(bytes_of(merged.head.weight), bytes_of(base.token.weight));
  // It stays so in a copy and in Weft's own file.
  io::save_adapter(folder / "b", alone);
  const Tied third = base.clone();
  io::load_adapter(folder / "b", third);
  EXPECT_EQ(bytes_of(third(x())), bytes_of(alone(x())));
  EXPECT_EQ(bytes_of(alone.clone()(x())), bytes_of(alone(x())));
}

struct PeftNet : nn::Layer<PeftNet> {
  nn::Embedding token{9, 6};
  nn::Linear hidden{6, 5}, out{5, 4};
  PeftNet() { WEFT_REGISTER(token, hidden, out); }
  Tensor forward(const Tensor& tokens) const { return out(tanh(hidden(token(tokens)))); }
};

TEST(Adapter, FilesOfPeftGiveItsOutputs) {
  const std::string cases = WEFT_SOURCE_DIR "/tests/io/peft_cases";
  const io::TensorMap expected = io::load_file(cases + "/expected.safetensors");
  PeftNet net;
  nn::StateDict base;
  for (const auto& [name, value] : expected) {
    if (name.starts_with("base.")) base.emplace(name.substr(5), value);
  }
  net.load_state_dict(base);
  io::load_adapter(cases, net);
  EXPECT_TRUE(allclose(net(expected.at("tokens")), expected.at("logits"), 1e-5, 1e-6));
  // And back: the names and values that PEFT wrote.
  const io::TensorMap written = io::load_file(cases + "/adapter_model.safetensors");
  const nn::StateDict own = nn::lora_state_dict(net);
  ASSERT_EQ(own.size(), written.size());
  for (const auto& [name, value] : written) EXPECT_EQ(bytes_of(own.at(name)), bytes_of(value)) << name;
}

TEST(Adapter, PartsOfAFusedLayerComeBack) {
  const TemporaryFolder folder;
  nn::Sequential adapted = model(), bare = model();
  nn::apply_lora(adapted, {.r = 2, .lora_plus_scale = 4, .targets = {"1"}, .enable = {true, false, true}});
  stir(adapted);
  io::save_adapter(folder / "a", adapted);
  io::load_adapter(folder / "a", bare);
  EXPECT_EQ(bytes_of(bare(x())), bytes_of(adapted(x())));
  EXPECT_EQ(nn::lora_layers(bare)[0].options.lora_plus_scale, 4);
}

TEST(Adapter, AnotherModelIsRefusedAndLeftAsItWas) {
  const TemporaryFolder folder;
  nn::Sequential adapted = model();
  nn::apply_lora(adapted, {.r = 2, .targets = {"1", "2"}});
  io::save_adapter(folder / "a", adapted);

  nn::Sequential wider(nn::Embedding(9, 8), nn::Linear(8, 6), nn::Linear(6, 4));
  const std::string text = wider.text();
  EXPECT_THAT(message_of<ShapeError>([&] { io::load_adapter(folder / "a", wider); }),
              HasSubstr("1 [2, 6][6, 2] for [2, 8][6, 2]"));
  EXPECT_EQ(wider.text(), text);

  nn::Sequential shorter(nn::Embedding(9, 6), nn::Linear(6, 6));
  EXPECT_THAT(message_of<ValueError>([&] { io::load_adapter(folder / "a", shorter); }), HasSubstr("2"));

  nn::Sequential ranked = model();
  nn::apply_lora(ranked, {.r = 4, .targets = {"1"}});
  const std::string ranked_text = ranked.text();
  EXPECT_THAT(message_of<ShapeError>([&] { io::load_adapter(folder / "a", ranked); }),
              HasSubstr("base_model.model.1.lora_A.weight [2, 6] for [4, 6]"));
  EXPECT_EQ(ranked.text(), ranked_text);
}

TEST(Adapter, InvalidAdaptersRaise) {
  const TemporaryFolder folder;
  nn::Sequential bare = model();
  EXPECT_THROW(io::save_adapter(folder / "a", bare), ValueError);
  EXPECT_THROW(io::load_adapter(folder / "a", bare), IoError);
  nn::apply_lora(bare, {.r = 2, .targets = {"1"}});
  std::filesystem::create_directory(folder / "mine");
  write_bytes(folder / "mine/notes.txt", "mine");
  EXPECT_THROW(io::save_adapter(folder / "mine", bare), ValueError);
  std::filesystem::create_directory(folder / "empty");
  io::save_adapter(folder / "empty", bare);
  io::load_adapter(folder / "empty", bare);
  io::save_adapter(folder / "a", bare);
  io::save_adapter(folder / "a", bare);
  const std::string config = read_bytes(folder / "a/adapter_config.json");
  const auto with = [&](const char* key, const nlohmann::json& value) {
    auto changed = nlohmann::json::parse(config);
    changed[key] = value;
    write_bytes(folder / "a/adapter_config.json", changed.dump());
    return message_of<FormatError>([&] { io::load_adapter(folder / "a", bare); });
  };
  EXPECT_THAT(with("peft_type", "IA3"), HasSubstr("not LoRA's"));
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, nlohmann::json>>{{"use_dora", true},
                                                                     {"fan_in_fan_out", true},
                                                                     {"lora_bias", true},
                                                                     {"alora_invocation_tokens", {1, 2}},
                                                                     {"init_lora_weights", "pissa"},
                                                                     {"init_lora_weights", "pissa_niter_4"},
                                                                     {"init_lora_weights", "olora"},
                                                                     {"init_lora_weights", "corda"},
                                                                     {"init_lora_weights", "eva"},
                                                                     {"init_lora_weights", "loftq"},
                                                                     {"init_lora_weights", 3},
                                                                     {"loftq_config", {{"loftq_bits", 4}}},
                                                                     {"target_parameters", {"w"}},
                                                                     {"trainable_token_indices", {3}},
                                                                     {"layer_replication", {{0, 1}}},
                                                                     {"ensure_weight_tying", true},
                                                                     {"bias", "some"},
                                                                     {"an_option_of_the_future", 1}}) {
    SCOPED_TRACE(key);
    EXPECT_THAT(with(key, value), HasSubstr("\"" + std::string(key) + "\""));
  }
  EXPECT_THAT(with("modules_to_save", {"head"}), HasSubstr("modules_to_save"));
  EXPECT_THAT(with("lora_alpha", "x"), HasSubstr("adapter_config.json"));
  EXPECT_THAT(with("alpha_pattern", {{"(", 2}}), HasSubstr("alpha_pattern"));
  EXPECT_THAT(with("peft_type", 3), HasSubstr("adapter_config.json"));
  auto harmless = nlohmann::json::parse(config);
  harmless.update({{"init_lora_weights", "gaussian"},
                   {"layers_to_transform", {0}},
                   {"an_option", nullptr},
                   {"megatron_core", "megatron.core"},
                   {"loftq_config", nlohmann::json::object()},
                   {"lora_bias", false},
                   {"peft_version", "0.21.2"},
                   {"qalora_group_size", 16},
                   {"revision", "main"}});
  write_bytes(folder / "a/adapter_config.json", harmless.dump());
  io::load_adapter(folder / "a", bare);
  write_bytes(folder / "a/adapter_config.json", "[1, 2");
  EXPECT_THROW(io::load_adapter(folder / "a", bare), FormatError);
  write_bytes(folder / "a/adapter_config.json", "[1, 2]");
  EXPECT_THROW(io::load_adapter(folder / "a", bare), FormatError);
}

}  // namespace
}  // namespace weft
