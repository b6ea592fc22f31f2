// A small character-level GPT and the description of its saved runs, shared by the programs that train it and generate
// text with it.
#pragma once

#include <map>
#include <string>

#include <nlohmann/json.hpp>
#include <weft/generate/language_model.hpp>
#include <weft/weft.hpp>

using namespace weft;

struct Config {
  int64_t layers, heads, width, context, batch, steps;
  double lr;
};
inline const std::map<std::string, Config> presets = {
    {"tiny", {.layers = 2, .heads = 2, .width = 32, .context = 32, .batch = 8, .steps = 100, .lr = 3e-3}},
    {"small", {.layers = 4, .heads = 4, .width = 128, .context = 128, .batch = 16, .steps = 300, .lr = 3e-3}},
    {"base", {.layers = 6, .heads = 6, .width = 384, .context = 256, .batch = 32, .steps = 3000, .lr = 1e-3}},
};

struct Gpt : nn::Layer<Gpt> {
  nn::Embedding token, position;
  nn::Sequential blocks;
  nn::LayerNorm norm;
  nn::Linear head;

  Gpt(const Config& c, int64_t vocabulary)
      : token(vocabulary, c.width, {}, 0.1),
        position(c.context, c.width, {}, 0.1),
        norm(c.width),
        head(c.width, vocabulary, false) {
    for (int64_t i = 0; i < c.layers; ++i) blocks.append(nn::TransformerBlock(c.width, c.heads));
    WEFT_REGISTER(token, position, blocks, norm, head);
    set_config({{"layers", c.layers},
                {"heads", c.heads},
                {"width", c.width},
                {"context", c.context},
                {"vocabulary", vocabulary}});
  }

  // tokens [batch, length] -> logits [batch, length, vocabulary]
  Tensor forward(const Tensor& tokens) const {
    const Tensor places = arange(0, tokens.size(1), 1, {i64, tokens.device()});
    return head(norm(blocks(token(tokens) + position(places))));
  }
};

// The model reads only the last `context` characters.
inline generate::LanguageModel language_model(const Gpt& model, int64_t context, int64_t vocabulary, Device device) {
  return generate::without_cache([=](const Tensor& tokens) { return model(tokens.to(device)); }, vocabulary, context);
}

// No source location: errors in command-line arguments are reported without a line of C++.
inline const Location nowhere = Location::none();

// The description in a saved run, sufficient to rebuild its model.
struct SavedRun {
  std::string preset, vocabulary;
  uint64_t seed;
  int64_t step;

  std::string text() const {
    return nlohmann::json{{"weft-train", 2}, {"preset", preset}, {"seed", seed}, {"vocabulary", vocabulary}}.dump(1);
  }
};

inline SavedRun read_saved(const std::string& folder) {
  const io::RunState state = io::read_run_state(folder, nowhere);
  const auto refusal = [&](const std::string& why) {
    return FormatError("[train] " + folder + " was not written by this version's --save: " + why);
  };
  const auto config_text = state.documents.find("config");
  if (config_text == state.documents.end()) throw refusal("it has no config.json");
  try {
    const auto config = nlohmann::json::parse(config_text->second);
    const std::string preset = config.at("preset");
    if (config.at("weft-train") != 2 || !presets.contains(preset)) throw refusal("it is of preset " + preset);
    return {preset, config.at("vocabulary"), config.at("seed"), state.step};
  } catch (const nlohmann::json::exception& error) {
    throw refusal(error.what());
  }
}
