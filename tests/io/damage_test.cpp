// Damaged files of every format: an error or tensors, never more. WEFT_TEST_DAMAGED_FILES=100000 looks longer.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weft/io/checkpoint.hpp>
#include <weft/io/npy.hpp>
#include <weft/io/sharded.hpp>
#include <weft/io/text.hpp>
#include <weft/nn/layers.hpp>
#include <weft/ops/create.hpp>

#include <temporary_folder.hpp>

namespace weft {
namespace {

int file_count() {
  const char* wanted = std::getenv("WEFT_TEST_DAMAGED_FILES");
  return wanted != nullptr ? std::atoi(wanted) : 1500;
}

class Damage {
 public:
  explicit Damage(unsigned seed) : random_(seed) {}

  // A few changes within the first `header` bytes, as a broken program, disk or transfer makes them.
  std::string done_to(std::string bytes, size_t header) {
    for (size_t n = 1 + below(4); n > 0 && !bytes.empty(); --n) {
      const size_t at = below(std::min(header, bytes.size()));
      switch (below(8)) {
        case 0:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 1:
          bytes[at] = "{}[]\",:0129-.eE \\nut\xff"[below(21)];
          break;
        case 2:
          bytes.erase(at, 1 + below(12));
          break;
        case 3:
          bytes.insert(at, bytes.substr(below(bytes.size()), below(40)));
          break;
        case 4:
          bytes.insert(at, std::string(1 + below(300), "[{\"9"[below(4)]));
          break;
        case 5:
          if (below(4) == 0) bytes.resize(below(bytes.size()));
          break;
        case 6:
          replace_number(bytes, at);
          break;
        default:
          std::swap(bytes[at], bytes[below(bytes.size())]);
      }
    }
    return bytes;
  }
  size_t below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

 private:
  void replace_number(std::string& bytes, size_t at) {
    constexpr const char* numbers[] = {
        "0",     "1",   "-1",   "4294967296", "9223372036854775807", "18446744073709551615", "18446744073709551616",
        "1e308", "0.5", "null", "1e999999"};
    const size_t start = bytes.find_first_of("0123456789", at);
    if (start == bytes.npos) return;
    const size_t end = std::min(bytes.find_first_not_of("0123456789", start), bytes.size());
    bytes.replace(start, end - start, numbers[below(std::size(numbers))]);
  }

  std::mt19937 random_;
};

// A safetensors file keeps the length of its header right in most cases: the rest of the checks is reached then.
std::string with_right_length(std::string bytes, size_t old_size) {
  uint64_t length = 0;
  if (bytes.size() < 8) return bytes;
  std::memcpy(&length, bytes.data(), 8);
  length += bytes.size() - old_size;
  std::memcpy(bytes.data(), &length, 8);
  return bytes;
}

// A file in memory: a disk would take longer than the tests.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes) : file_(memfd_create("damaged", MFD_CLOEXEC)) {
    EXPECT_EQ(::write(file_, bytes.data(), bytes.size()), std::ssize(bytes));
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

// Loads damaged copies of a file, and reads the results in full.
void damage_files(const std::string& good, size_t header, bool safetensors, const auto& load) {
  Damage damage(1);
  int loaded = 0, refused = 0;
  for (int i = 0; i < file_count(); ++i) {
    const bool keep_length = safetensors && damage.below(4) != 0;
    const size_t from = keep_length ? 8 : 0;
    std::string bytes = good.substr(0, from) + damage.done_to(good.substr(from), header);
    const MemoryFile file(keep_length ? with_right_length(bytes, good.size()) : bytes);
    try {
      load(file.path());
      ++loaded;
    } catch (const Error& error) {
      EXPECT_LT(std::strlen(error.what()), 1000u);
      ++refused;
    }
  }
  EXPECT_GT(loaded, 0);
  EXPECT_GT(refused, loaded);
}

TEST(Damaged, Safetensors) {
  const TemporaryFolder folder;
  io::save_file({{"a", ones({2, 3})}, {"flag", ones(3, boolean)}, {"n", arange(5)}}, folder / "good",
                {{"key", "välue"}});
  const std::string good = read_bytes(folder / "good");
  damage_files(good, good.size() - 67, true, [](const std::string& path) {
    for (const auto& [name, t] : io::load_file(path)) t.to_vector<double>();
  });
}

TEST(Damaged, SafetensorsReadInParts) {
  const TemporaryFolder folder;
  const Tensor shared = arange(6).view({2, 3});
  io::save_file({{"a", shared}, {"b", shared}, {"flag", ones({2, 2}, boolean)}}, folder / "good", {{"key", "välue"}},
                {.tie = io::Tie::alias});
  const std::string good = read_bytes(folder / "good");
  damage_files(good, good.size() - 52, true, [](const std::string& path) {
    const io::SafeFile file = io::SafeFile::open(path);
    for (const std::string& name : file.keys()) {
      const Dims shape = file.info(name).shape;
      Dims starts = Dims::filled(shape.size(), 0);
      for (int d = 0; d < shape.size(); ++d) starts[d] = shape[d] / 2;
      file.get_slice(name, starts, shape).to_vector<double>();
    }
  });
}

TEST(Damaged, IndexOfShards) {
  const TemporaryFolder folder;
  io::save_sharded({{"a", ones(2)}, {"layer.weight", ones(3)}, {"ünï", arange(5)}}, folder.path(),
                   {.max_shard_size = 8});
  const std::string good = read_bytes(folder / "model.safetensors.index.json");
  Damage damage(3);
  int loaded = 0, refused = 0;
  for (int i = 0; i < file_count(); ++i) {
    write_bytes(folder / "model.safetensors.index.json", damage.done_to(good, good.size()));
    try {
      for (const auto& [name, t] : io::load_sharded(folder.path())) t.to_vector<double>();
      ++loaded;
    } catch (const Error& error) {
      EXPECT_LT(std::strlen(error.what()), 1000u);
      ++refused;
    }
  }
  EXPECT_GT(loaded, 0);
  EXPECT_GT(refused, loaded);
}

TEST(Damaged, Npy) {
  const TemporaryFolder folder;
  io::save_npy(ones({2, 3}), folder / "good");
  damage_files(read_bytes(folder / "good"), 70, false,
               [](const std::string& path) { io::load_npy(path).to_vector<double>(); });
}

TEST(Damaged, Checkpoint) {
  const TemporaryFolder folder;
  nn::Linear layer(2, 3);
  optim::AdamW optimizer(layer.parameters());
  for (const Tensor& p : layer.parameters()) p.set_grad(ones(p.shape()));
  optimizer.step();
  io::save_checkpoint(folder / "good", layer, &optimizer, {{"step", "1"}});
  const std::string good = read_bytes(folder / "good");
  uint64_t header = 0;
  std::memcpy(&header, good.data(), 8);
  damage_files(good, header + 8, true, [&](const std::string& path) { io::load_checkpoint(path, layer, &optimizer); });
}

TEST(Damaged, Vocabulary) {
  Damage damage(2);
  const std::string good = io::Vocabulary("hello wörld").hex();
  for (int i = 0; i < file_count(); ++i) {
    try {
      io::Vocabulary::from_hex(damage.done_to(good, good.size()));
    } catch (const FormatError&) {
    }
  }
}

}  // namespace
}  // namespace weft
