// Generates text with a published checkpoint folder, or with a run saved by `./weft train --save`.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>

#include <CLI/CLI.hpp>
#include <weft/generate/checkpoint.hpp>
#include <weft/generate/generate.hpp>
#include <weft/nn/quantize.hpp>

#include "char_gpt.hpp"

struct Options {
  std::string path, prompt, device = "cpu", dtype, draft;
  std::vector<std::string> stops;
  int64_t bits = 0;
  int threads = 0;
  bool echo = false;
  generate::GenerateOptions generate{.max_new_tokens = 200, .sampling = {.temperature = 0.8}};
};

// A model with its tokenizer.
struct Writer {
  generate::LanguageModel model;
  std::function<std::vector<int64_t>(const std::string&)> encode;
  // Decodes to bytes, which may end within a character.
  std::function<std::string(const std::vector<int64_t>&)> decode;
  std::vector<int64_t> ends = {};
};

bool is_checkpoint(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / "config.json")) return false;
  const auto config =
      nlohmann::json::parse(io::read_file((folder / "config.json").string(), "generate", nowhere), nullptr, false);
  return config.is_object() && config.contains("model_type");
}

data::Tokenizer tokenizer_in(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / "tokenizer.json")) {
    return data::Tokenizer::load((folder / "tokenizer.json").string(), nowhere);
  }
  return data::Tokenizer::load_gpt2((folder / "vocab.json").string(), (folder / "merges.txt").string(), nowhere);
}

Writer of_checkpoint(const std::string& folder, const Options& o) {
  generate::LoadCausalLMOptions loading;
  if (!o.dtype.empty()) loading.dtype = dtype_from_name(o.dtype.c_str(), nowhere);
  nn::CausalLM model = generate::load_causal_lm(folder, loading, nowhere);
  if (o.bits > 0) nn::quantize(model, {.targets = {"_proj$"}, .bits = o.bits}, nowhere);
  model.to(Device(o.device, nowhere));
  const auto tokenizer = std::make_shared<data::Tokenizer>(tokenizer_in(folder));
  return {.model = generate::language_model(model),
          .encode = [=](const std::string& text) { return tokenizer->encode(text, {}, nowhere); },
          .decode =
              [=](const std::vector<int64_t>& tokens) {
                return tokenizer->decode_bytes(tokens, {.skip_special_tokens = true}, nowhere);
              },
          .ends = generate::end_tokens(folder, nowhere)};
}

Writer of_run(const std::string& folder, const Options& o) {
  const SavedRun saved = read_saved(folder);
  const io::Vocabulary vocabulary = io::Vocabulary::from_hex(saved.vocabulary, nowhere);
  const Config& config = presets.at(saved.preset);
  Gpt gpt(config, vocabulary.size());
  io::load_training_state(folder, {gpt}, {.weights_only = true}, nowhere);
  const Device device(o.device, nowhere);
  gpt.to(device);
  gpt.eval();
  return {.model = language_model(gpt, config.context, vocabulary.size(), device),
          .encode =
              [=](const std::string& text) {
                // Without a prompt, generation starts with the first character of the vocabulary.
                return text.empty() ? std::vector<int64_t>{0} : vocabulary.encode(text, nowhere).to_vector<int64_t>();
              },
          .decode = [=](const std::vector<int64_t>& tokens) { return vocabulary.decode(tensor(tokens)); }};
}

Writer writer_of(const std::string& folder, const Options& o) {
  return is_checkpoint(folder) ? of_checkpoint(folder, o) : of_run(folder, o);
}

// Number of bytes that form complete UTF-8 characters.
size_t whole_characters(const std::string& bytes) {
  for (size_t back = 1; back <= std::min<size_t>(3, bytes.size()); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? bytes.size() - back : bytes.size();
  }
  return bytes.size();
}

// Length of the longest suffix of `text` that is a proper prefix of `stop`.
size_t begun(const std::string& stop, const std::string& text) {
  for (size_t n = std::min(stop.size() - 1, text.size()); n > 0; --n) {
    if (text.ends_with(stop.substr(0, n))) return n;
  }
  return 0;
}

// Prints tokens as they arrive, until the text contains one of the stop strings.
class Printer {
 public:
  Printer(const Writer& writer, const std::vector<std::string>& stops) : writer_(writer), stops_(stops) {}
  bool take(const generate::TokenEvent& e) {
    tokens_.push_back(e.token);
    if (e.finish == generate::Finish::end_token) tokens_.pop_back();
    const std::string text = writer_.decode(tokens_);
    size_t end = e.finish ? text.size() : whole_characters(text);
    bool goes_on = true;
    for (const std::string& stop : stops_) {
      const size_t place = text.find(stop);
      if (place == std::string::npos) {
        if (!e.finish) end = std::min(end, text.size() - begun(stop, text));
        continue;
      }
      end = std::min(end, place);
      goes_on = false;
    }
    if (end > printed_) std::cout << text.substr(printed_, end - printed_) << std::flush;
    printed_ = std::max(printed_, end);
    return goes_on;
  }

 private:
  const Writer& writer_;
  const std::vector<std::string>& stops_;
  std::vector<int64_t> tokens_;
  size_t printed_ = 0;
};

void run(Options o) {
  std::erase(o.stops, std::string());
  if (o.threads > 0) set_num_threads(o.threads);
  check_device(Device(o.device, nowhere), "generate", nowhere);
  const Writer writer = writer_of(o.path, o);
  const std::vector<int64_t> prompt = writer.encode(o.prompt);
  if (prompt.empty()) throw ValueError("[generate] the prompt has no tokens: give --prompt TEXT");
  o.generate.end_tokens = writer.ends;
  if (!o.draft.empty()) o.generate.draft = writer_of(o.draft, o).model;
  Printer printer(writer, o.stops);
  if (o.generate.beams == 1) o.generate.on_token = [&](const generate::TokenEvent& e) { return printer.take(e); };
  if (o.echo) std::cout << o.prompt;
  const auto start = std::chrono::steady_clock::now();
  const generate::Generation made = generate::generate(writer.model, {prompt}, o.generate, nowhere)[0];
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  if (o.generate.beams > 1) std::cout << writer.decode(made.tokens);
  std::cout << std::endl;
  std::fprintf(stderr, "%zu tokens behind %zu in %.2f s, %.1f a second\n", made.tokens.size(), prompt.size(),
               spent.count(), static_cast<double>(made.tokens.size()) / spent.count());
}

int main(int argc, char** argv) {
  Options o;
  generate::SamplingOptions& sampling = o.generate.sampling;
  CLI::App app("Writes text with a model; the text alone goes to the standard output, as it comes.", "weft generate");
  app.add_option("path", o.path, "folder of a checkpoint, or of a run that `./weft train --save` left")->required();
  app.add_option("--prompt", o.prompt, "the beginning of the text");
  app.add_flag("--echo", o.echo, "prints the prompt, too");
  app.add_option("--tokens", o.generate.max_new_tokens, "at most so many")->capture_default_str();
  app.add_option("--temperature", sampling.temperature, "0 takes the likeliest token")->capture_default_str();
  app.add_option("--top-k", sampling.top_k, "only so many of the likeliest tokens");
  app.add_option("--top-p", sampling.top_p, "only the likeliest that have this probability together");
  app.add_option("--min-p", sampling.min_p, "only those at least so many times as likely as the likeliest");
  app.add_option("--repetition-penalty", sampling.repetition_penalty,
                 "above 1: tokens that were there are less likely");
  app.add_option("--seed", o.generate.seed, "the same one gives the same text")->capture_default_str();
  app.add_option("--stop", o.stops, "a text that ends it, and is not printed; may be given several times");
  app.add_option("--beams", o.generate.beams, "the likeliest of so many texts, with --temperature 1")
      ->capture_default_str();
  app.add_option("--draft", o.draft, "folder of a smaller model of the same tokens, which makes it faster");
  app.add_option("--draft-tokens", o.generate.draft_tokens, "how many tokens that one proposes")->capture_default_str();
  app.add_option("--dtype", o.dtype, "float32, bfloat16 or float16 instead of the checkpoint's");
  app.add_option("--bits", o.bits, "holds a checkpoint's weights in so many bits")->check(CLI::IsMember({4, 8}));
  app.add_option("--device", o.device, "cpu, hpu, cuda, or the kind of a plug-in")->capture_default_str();
  app.add_option("--threads", o.threads, "threads of one kernel");
  CLI11_PARSE(app, argc, argv);
  try {
    run(std::move(o));
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
