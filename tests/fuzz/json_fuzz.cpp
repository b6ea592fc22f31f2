// Damaged JSON: models and tensors. Expects a typed error, or a lossless round trip.
//
// usage: json_fuzz [--count N] [--seed N]
#include <algorithm>
#include <random>
#include <string>

#include <weft/io/model.hpp>
#include <weft/io/tensor_json.hpp>
#include <weft/weft.hpp>

#include "fuzz.hpp"

namespace weft {
namespace {

struct Seed {
  std::string text;
  bool is_model;
};

std::vector<Seed> seeds() {
  const nn::Sequential net(nn::Conv2d(2, 2, {3, 3}, {.padding = "same"}), nn::BatchNorm2d(2), nn::Flatten(),
                           nn::TransformerBlock(4, 2), nn::Upsample({.scale_factor = {2}}), nn::Linear(2, 2));
  const Tensor x = tensor({1.5f, -0.1f, 3e-8f});
  return {{io::to_json(net), true},
          {io::to_json(nn::Sequential(nn::Threshold(0, 1), nn::PReLU())), true},
          {io::tensors_to_json({{"a", x}, {"b", x.to(DType::f16)}, {"c", x.to(DType::f8_e4m3fn)}, {"d", arange(3)}}),
           false},
          {io::tensors_to_json({{"flag", ones({1, 2}, DType::boolean)}, {"s", tensor(2.5)}}, {{"by", "me"}}), false}};
}

class Damage {
 public:
  explicit Damage(uint64_t seed) : random_(seed) {}
  size_t below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  std::string done_to(std::string text) {
    constexpr std::string_view marks("{}[]\",:0123456789.-eE\\truefalsn \n");
    constexpr std::string_view words[] = {"null",
                                          "true",
                                          "\"NaN\"",
                                          "1e999",
                                          "-0.0",
                                          "18446744073709551616",
                                          "{}",
                                          "[[[[[",
                                          "{\"i64\": []}",
                                          "9223372036854775807",
                                          "\"\\ud800\"",
                                          "1e-400"};
    for (size_t n = 1 + below(3); n > 0 && !text.empty(); --n) {
      const size_t at = below(text.size());
      switch (below(9)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text[at] = marks[below(marks.size())];
          break;
        case 2:
          text.erase(at, 1 + below(30));
          break;
        case 3:
          text.insert(at, text.substr(below(text.size()), below(90)));
          break;
        case 4:
          text.insert(at, words[below(std::size(words))]);
          break;
        case 5:
        case 6:
        case 7:
          replace_value(text, at, words[below(std::size(words))]);
          break;
        default:
          text.insert(at, std::string(1 + below(600), marks[below(marks.size())]));
      }
    }
    return text;
  }

 private:
  /// The text between the next colon and the next comma.
  static void replace_value(std::string& text, size_t at, std::string_view value) {
    const size_t colon = text.find(':', at);
    if (colon == text.npos) return;
    const size_t end = std::min(text.find_first_of(",}", colon), text.size());
    text.replace(colon + 1, end - colon - 1, value);
  }

  std::mt19937_64 random_;
};

std::string model_failure(const std::string& text, uint64_t& loaded) {
  const nn::ModuleRegistry& registry = nn::ModuleRegistry::standard();
  const nn::ModuleDescription tree = io::read_model(text);
  const std::string again = io::to_json(tree);
  if (io::to_json(io::read_model(again)) != again) return "it differs when it is read again";
  try {
    const nn::AnyModule module = registry.build(registry.migrated(tree));
    if (io::to_json(io::from_json(io::to_json(module))) != io::to_json(module)) return "what was built is another";
    ++loaded;
  } catch (const OutOfMemoryError&) {
  }
  return {};
}

std::string tensors_failure(const std::string& text, uint64_t& loaded) {
  const io::JsonTensors read = io::tensors_from_json(text);
  const std::string again = io::tensors_to_json(read.tensors, read.metadata);
  const io::JsonTensors second = io::tensors_from_json(again);
  if (io::tensors_to_json(second.tensors, second.metadata) != again) return "it differs when it is read again";
  ++loaded;
  return {};
}

std::string failure(const std::string& text, bool is_model, uint64_t& loaded) {
  try {
    return is_model ? model_failure(text, loaded) : tensors_failure(text, loaded);
  } catch (const Error& error) {
    return problem_of(error.what());
  } catch (const std::exception& error) {
    return std::string("no error of Weft's: ") + error.what();
  }
  return {};
}

int fuzz(uint64_t count, uint64_t first) {
  set_memory_limit(Device(), size_t{64} << 20);
  set_warning_handler([](const Warning&) {});
  const std::vector<Seed> all = seeds();
  uint64_t loaded = 0;
  const int code = for_seeds(count, first, [&](uint64_t seed) {
    Damage damage(seed);
    const Seed& from = all[damage.below(all.size())];
    const std::string text = damage.done_to(from.text);
    const std::string problem = failure(text, from.is_model, loaded);
    return problem.empty() ? 0 : failed(seed, from.is_model ? "model" : "tensors", problem + '\n' + text);
  });
  return code != 0 ? code : summary(count, loaded, "texts");
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) { return weft::fuzz_main(argc, argv, 50'000, weft::fuzz); }
