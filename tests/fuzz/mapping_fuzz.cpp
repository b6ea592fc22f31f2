// Damaged mappings and damaged metadata of sharded states: expects a typed error, or tensors that agree with their
// entries, as a whole and in slices. Each text is one of tests/fuzz/mapping_cases with changes.
//
// usage: mapping_fuzz [--count N] [--seed N]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include <unistd.h>

#include <weft/io/mapping.hpp>
#include <weft/io/sharded_state.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>

#include "fuzz.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Seed {
  std::string name, text;
  bool is_mapping() const { return name.ends_with(".map"); }
};

std::vector<Seed> seeds() {
  std::vector<Seed> out;
  for (const auto& file : fs::directory_iterator(WEFT_SOURCE_DIR "/tests/fuzz/mapping_cases")) {
    out.push_back({file.path().filename(), contents(file.path())});
  }
  std::ranges::sort(out, {}, &Seed::name);
  return out;
}

class Damage {
 public:
  explicit Damage(uint64_t seed) : random_(seed) {}
  size_t below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  std::string done_to(const Seed& seed) {
    std::string text = seed.text;
    for (size_t n = 1 + below(4); n > 0 && !text.empty(); --n) change(text, seed.is_mapping());
    return text;
  }

 private:
  void change(std::string& text, bool mapping) {
    const size_t at = below(text.size());
    const std::string word = mapping ? mapping_word() : json_word();
    switch (below(9)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, 1 + below(20));
        break;
      case 2:
        text.insert(at, text.substr(below(text.size()), below(60)));
        break;
      case 3:
        text.insert(at, word);
        break;
      case 4:
        text.replace(at, 1 + below(3), word);
        break;
      case 5:
        swap_lines(text);
        break;
      case 6:
        if (const size_t digit = text.find_first_of("0123456789", at); digit != text.npos)
          text.replace(digit, 1, number());
        break;
      case 7:
        if (below(20) == 0) text.insert(at, std::string(1 + below(3000), word.empty() ? ' ' : word[0]));
        break;
      default:
        std::swap(text[at], text[below(text.size())]);
    }
  }
  // A copy of one line takes another place.
  void swap_lines(std::string& text) {
    const size_t from = text.find('\n', below(text.size())), to = text.find('\n', below(text.size()));
    if (from == text.npos || to == text.npos) return;
    text.insert(to, text.substr(from, text.find('\n', from + 1) - from));
  }
  std::string number() {
    constexpr const char* numbers[] = {"0",
                                       "1",
                                       "2",
                                       "3",
                                       "4",
                                       "7",
                                       "8",
                                       "-1",
                                       "-8",
                                       "9223372036854775807",
                                       "9223372036854775808",
                                       "18446744073709551615",
                                       "1e9",
                                       "1.5",
                                       "4611686018427387904"};
    return numbers[below(std::size(numbers))];
  }
  std::string mapping_word() {
    constexpr const char* words[] = {" -> ",       ",",
                                     "_",          "$",
                                     "$I",         "${J}",
                                     "\"",         "\\",
                                     "#",          "\n",
                                     "axis=",      "permute=[",
                                     "]",          "q",
                                     "k",          "v",
                                     "=",          "->",
                                     ", axis=0",   ", permute=[]",
                                     "l.$LAYER.a", "empty",
                                     "scalar",     "q, k -> q, axis=0\n",
                                     "\r",         "\t",
                                     "\0",         "\"int8\"",
                                     "ω",          "q -> q, permute=[1,0]\n",
                                     ", axis=1",   ", dtype=\"float64\""};
    return below(5) == 0 ? number() : words[below(std::size(words))];
  }
  std::string json_word() {
    constexpr const char* words[] = {"{",
                                     "}",
                                     "[",
                                     "]",
                                     ",",
                                     ":",
                                     "\"",
                                     "null",
                                     "\"w\"",
                                     "\"flattened_range\": [0, 3],",
                                     "\"shards\"",
                                     "\\u0000",
                                     "\"1_1.safetensors\"",
                                     "\"replica\"",
                                     "[[[[[[[[[[",
                                     "\"float16\"",
                                     "0_1",
                                     "true",
                                     "\"local_shape\""};
    return below(3) == 0 ? number() : words[below(std::size(words))];
  }

  std::mt19937_64 random_;
};

io::TensorMap tensors() {
  const auto numbered = [](const Dims& shape) { return arange(shape.product()).reshape(shape).to(f32); };
  return {{"q", numbered({2, 4})},      {"k", numbered({1, 4})},     {"v", numbered({1, 4})},
          {"l.0.a", numbered({2, 6})},  {"l.0.b", numbered({2, 3})}, {"l.12.a", numbered({2, 3})},
          {"l.12.b", numbered({2, 0})}, {"e.1.x.2", numbered({3})},  {"e.10.x.2", numbered({3})},
          {"empty", numbered({3, 0})},  {"scalar", tensor(1.0)},     {"größe.ω", numbered({1})}};
}

// Whether every tensor agrees with its entry, and its slices with the whole.
std::string problem_with(const io::TensorStore& store, Damage& random) {
  for (const auto& [name, info] : store.entries()) {
    const Tensor whole = store.get(name);
    if (whole.dtype() != info.dtype || !(whole.shape() == info.shape)) return "another dtype or shape: " + name;
    Dims starts, ends;
    Tensor part = whole;
    for (int d = 0; d < info.shape.size(); ++d) {
      starts.push_back(static_cast<int64_t>(random.below(static_cast<size_t>(info.shape[d]) + 1)));
      ends.push_back(starts[d] +
                     static_cast<int64_t>(random.below(static_cast<size_t>(info.shape[d] - starts[d]) + 1)));
      part = part.narrow(d, starts[d], ends[d] - starts[d]);
    }
    if (!equal(store.get_slice(name, starts, ends), part)) return "another part: " + name;
  }
  return {};
}

class Fuzzer {
 public:
  Fuzzer() : folder_(fs::temp_directory_path() / ("weft-mapping-fuzz-" + std::to_string(::getpid()))) {
    fs::create_directory(folder_);
    const Tensor s = tensor(int64_t{7}), w = arange(12).to(f32);
    io::save_file({{"b", arange(2).to(f32)}, {"s", s}, {"w", w}}, folder_ / "0_1.safetensors");
    io::save_file({{"b", arange(1).to(f32)}, {"s", s}, {"w", w.reshape({2, 2, 3})}}, folder_ / "1_1.safetensors");
  }
  ~Fuzzer() { fs::remove_all(folder_); }
  Fuzzer(const Fuzzer&) = delete;

  int run(uint64_t count, uint64_t first) {
    const std::vector<Seed> all = seeds();
    for (const Seed& seed : all) {
      Damage none(0);
      if (const std::string problem = taken(seed.text, seed.is_mapping(), none); !problem.empty() || loaded_ == 0) {
        return failed(0, seed.name, problem);
      }
    }
    const int code = for_seeds(count, first, [&](uint64_t seed) {
      Damage damage(seed);
      const Seed& from = all[damage.below(all.size())];
      const std::string problem = taken(damage.done_to(from), from.is_mapping(), damage);
      return problem.empty() ? 0 : failed(seed, from.name, problem);
    });
    return code != 0 ? code : summary(count, loaded_, "texts", 100);
  }

 private:
  /// The error in the handling of the text, or empty.
  std::string taken(const std::string& text, bool is_mapping, Damage& random) {
    try {
      std::string problem;
      if (is_mapping) {
        const io::Mapping mapping = io::Mapping::parse(text);
        problem = problem_with(mapping.apply(tensors_), random);
        ++loaded_;
      } else {
        std::ofstream(folder_ / "1.metadata.json", std::ios::binary) << text;
        problem = problem_with(io::open_state_dict(folder_, 1), random);
        ++loaded_;
      }
      return problem;
    } catch (const OutOfMemoryError& error) {
      return std::string("memory beyond what the text can ask for: ") + error.what();
    } catch (const Error& error) {
      return problem_of(error.what(), 1500);
    }
    return {};
  }

  fs::path folder_;
  io::TensorStore tensors_ = tensors();
  uint64_t loaded_ = 0;
};

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  return weft::fuzz_main(argc, argv, 20'000,
                         [](uint64_t count, uint64_t seed) { return weft::Fuzzer().run(count, seed); });
}
