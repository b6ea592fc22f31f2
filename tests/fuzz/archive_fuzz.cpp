// Damaged .pt and .npz files: a typed error or values that can be read in full, never more. Each file is one that
// torch.save or save_npz wrote, with changes to its bytes, to its pickle or to its directory; where the pickle or an
// array changes, the archive around it is made anew, so that its checksums are right.
//
// usage: archive_fuzz [--count N] [--seed N]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>

#include <unistd.h>

#include <weft/io/npz.hpp>
#include <weft/io/pt.hpp>
#include <weft/ops/create.hpp>
#include <weft/tensor/layout.hpp>

#include "../io/archive_bytes.hpp"
#include "damage.hpp"
#include "fuzz.hpp"

namespace weft {
namespace {

struct Seed {
  std::string name, bytes;
  std::vector<RawEntry> entries;
  bool is_pt() const { return name.ends_with(".pt"); }
};

template <class T>
T number_at(const std::string& bytes, size_t at) {
  T value = 0;
  if (at + sizeof(T) <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// The entries of an archive that is in order.
std::vector<RawEntry> entries_of(const std::string& bytes) {
  std::vector<RawEntry> out;
  const size_t end = bytes.rfind(std::string("PK\5\6"));
  if (end == bytes.npos) return out;
  size_t at = number_at<uint32_t>(bytes, end + 16);
  for (int n = number_at<uint16_t>(bytes, end + 10); n > 0; --n) {
    const auto size = number_at<uint32_t>(bytes, at + 20), local = number_at<uint32_t>(bytes, at + 42);
    const auto name = number_at<uint16_t>(bytes, at + 28), extra = number_at<uint16_t>(bytes, at + 30);
    const size_t data = local + 30 + number_at<uint16_t>(bytes, local + 26) + number_at<uint16_t>(bytes, local + 28);
    out.push_back({.name = bytes.substr(at + 46, name), .bytes = bytes.substr(data, size)});
    out.back().method = number_at<uint16_t>(bytes, at + 10);
    at += size_t{46} + name + extra + number_at<uint16_t>(bytes, at + 32);
  }
  return out;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Seed> seeds() {
  std::vector<Seed> out;
  for (const auto& file : std::filesystem::directory_iterator(WEFT_SOURCE_DIR "/tests/io/pt_cases")) {
    if (file.path().extension() == ".pt") out.push_back({file.path().filename(), contents(file.path()), {}});
  }
  const auto folder = std::filesystem::temp_directory_path();
  const std::string path = folder / ("weft-archive-fuzz-" + std::to_string(::getpid()) + ".npz");
  const io::TensorMap arrays = {
      {"a", arange(5)}, {"b", ones({2, 3})}, {"flag", ones(3, DType::boolean)}, {"s", tensor(2.5)}};
  for (const bool compressed : {false, true}) {
    io::save_npz(arrays, path, compressed);
    out.push_back({compressed ? "deflated.npz" : "stored.npz", contents(path), {}});
  }
  std::filesystem::remove(path);
  std::ranges::sort(out, {}, &Seed::name);
  for (Seed& seed : out) seed.entries = entries_of(seed.bytes);
  return out;
}

class Damage {
 public:
  explicit Damage(uint64_t seed) : random_(seed) {}
  size_t below(size_t bound) { return random_.below(bound); }

  std::string done_to(const Seed& seed) {
    const size_t way = below(8);
    if (seed.entries.empty() || way == 0) return changed(seed.bytes);
    std::vector<RawEntry> entries = seed.entries;
    RawEntry& main = entries[seed.is_pt() ? 0 : below(entries.size())];
    if (way <= 5 && main.method == 0) main.bytes = changed(std::move(main.bytes), seed.is_pt());
    else change_directory(entries);
    return zip_of(entries);
  }

 private:
  // Opcodes and small numbers provoke errors in pickle interpreters and array headers.
  std::string changed(std::string bytes, bool pickle = false) {
    constexpr std::string_view opcodes("\x80\x02.(NJKMGXBC)taes}]uqrhjcRbQ\x88\x89\x8a\x85\x86\x87\0\1\xff\x7f\n", 37);
    constexpr std::string_view marks("{}[]()',:0123456789-<>|=TrueFalse \n");
    const std::string_view usual = pickle ? opcodes : marks;
    return random_.changed(std::move(bytes), usual, 5, 400, [&](std::string& all, size_t at) {
      if (pickle) all.insert(at, pickled::number(extreme()));
      else if (below(4) == 0) all.resize(at);
    });
  }
  int64_t extreme() {
    constexpr int64_t values[] = {0, 1, 2, -1, 6, 7, 255, INT64_MAX, INT64_MIN, int64_t{1} << 32, int64_t{1} << 62};
    return values[below(std::size(values))];
  }
  void change_directory(std::vector<RawEntry>& entries) {
    RawEntry& e = entries[below(entries.size())];
    switch (below(9)) {
      case 0:
        e.crc = static_cast<uint32_t>(random_.word());
        break;
      case 1:
        e.packed = static_cast<uint32_t>(below(3) == 0 ? random_.word() : below(20));
        break;
      case 2:
        e.unpacked = static_cast<uint32_t>(below(3) == 0 ? random_.word() : below(20));
        break;
      case 3:
        e.method = static_cast<uint16_t>(below(16));
        break;
      case 4:
        e.flags = static_cast<uint16_t>(1u << below(16));
        break;
      case 5:
        e.name = changed(e.name);
        break;
      case 6:
        entries.push_back(RawEntry(entries[below(entries.size())]));
        break;
      case 7:
        entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(below(entries.size())));
        break;
      default:
        e.bytes.resize(below(2 * e.bytes.size() + 2));
    }
  }

  RandomDamage random_;
};

// Reads every byte between a tensor's lowest and highest address; an expanded tensor may have 2^60 elements.
void read(const Tensor& t) {
  const View& view = t.raw_view();
  const ByteSpan span = byte_span(view.layout);
  char all = 0;
  for (int64_t i = span.low; i < span.high; ++i) all = static_cast<char>(all ^ static_cast<const char*>(view.data)[i]);
  asm volatile("" : : "r"(all));
}

void walk(const io::PtValue& value, std::set<const void*>& seen) {
  using Kind = io::PtValue::Kind;
  if (!seen.insert(value.identity()).second) return;
  if (value.is(Kind::tensor)) read(value.tensor());
  if (value.is(Kind::list) || value.is(Kind::tuple) || value.is(Kind::set)) {
    for (const io::PtValue& v : value.items()) walk(v, seen);
  }
  if (!value.is(Kind::dict)) return;
  for (const io::PtEntry& e : value.entries()) {
    walk(e.key, seen);
    walk(e.value, seen);
    if (e.key.is(Kind::string)) value.at(e.key.string());
  }
}

/// The error in the handling of the file, or empty.
std::string failure(const std::string& path, bool pt, uint64_t& loaded) {
  try {
    if (pt) {
      std::set<const void*> seen;
      walk(io::load_pt(path), seen);
    } else {
      for (const auto& [name, t] : io::load_npz(path)) read(t);
    }
    ++loaded;
  } catch (const OutOfMemoryError& error) {
    return std::string("memory beyond what the file can fill: ") + error.what();
  } catch (const Error& error) {
    return problem_of(error.what());
  }
  return {};
}

int fuzz(uint64_t count, uint64_t first) {
  const std::vector<Seed> all = seeds();
  MemoryFile file;
  uint64_t loaded = 0;
  const int code = for_seeds(count, first, [&](uint64_t seed) {
    Damage damage(seed);
    const Seed& from = all[damage.below(all.size())];
    const std::string problem = failure(file.holding(damage.done_to(from)), from.is_pt(), loaded);
    return problem.empty() ? 0 : failed(seed, from.name, problem);
  });
  return code != 0 ? code : summary(count, loaded, "files");
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) { return weft::fuzz_main(argc, argv, 20'000, weft::fuzz); }
