// Out of memory while files are read and written: an exception, never the end of the process, and the old file stays.
#include <atomic>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include <weft/io/npy.hpp>
#include <weft/io/npz.hpp>
#include <weft/io/pt.hpp>
#include <weft/io/safetensors.hpp>
#include <weft/ops/create.hpp>

#include <temporary_folder.hpp>

namespace {
// How many allocations still succeed; the next one and all after it fail. Negative: none fails.
std::atomic<int64_t> allocations_left{-1};
}  // namespace

// Not inlined: the compiler would take malloc and delete for a mismatch.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (const int64_t left = allocations_left; left == 0) throw std::bad_alloc();
  else if (left > 0) --allocations_left;
  if (void* memory = std::malloc(bytes != 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace weft {
namespace {

// Runs `f` again and again, with one allocation more each time, until it has enough; returns how often it failed.
int failures_of(const auto& f) {
  for (int k = 0;; ++k) {
    allocations_left = k;
    bool done = false;
    try {
      f();
      done = true;
    } catch (const std::bad_alloc&) {
    } catch (const OutOfMemoryError&) {
    }
    allocations_left = -1;
    if (done) return k;
  }
}

io::TensorMap some_tensors() {
  io::TensorMap tensors;
  for (int i = 0; i < 12; ++i) tensors.emplace("a tensor with a long name, number " + std::to_string(i), ones({2, 3}));
  return tensors;
}

TEST(OutOfMemory, ReadingAFileRaises) {
  const TemporaryFolder folder;
  io::save_file(some_tensors(), folder / "f", {{"a longer name than fits in place", "and a value like that"}});
  io::save_npy(ones({2, 3}), folder / "f.npy");
  const std::string path = folder / "f", npy = folder / "f.npy";
  EXPECT_GT(failures_of([&] { io::load_file(path); }), 50);
  EXPECT_GT(failures_of([&] { io::load_npy(npy); }), 0);
}

#if WEFT_HAS_ZIP
TEST(OutOfMemory, ReadingAnArchiveRaises) {
  const TemporaryFolder folder;
  const std::string npz = folder / "f.npz", pt = WEFT_SOURCE_DIR "/tests/io/pt_cases/training.pt";
  io::save_npz(some_tensors(), npz, true);
  EXPECT_GT(failures_of([&] { io::load_npz(npz); }), 50);
  EXPECT_GT(failures_of([&] { io::load_pt(pt); }), 50);
}

TEST(OutOfMemory, WritingAnArchiveRaisesAndLeavesTheOldFile) {
  const TemporaryFolder folder;
  const std::string path = folder / "f.npz";
  io::save_npz({{"old", ones(2)}}, path);
  const std::string before = read_bytes(path);
  const io::TensorMap tensors = {{"dense", ones({2, 3})}, {"transposed", ones({200, 300}).t()}};
  EXPECT_GT(failures_of([&] {
              try {
                io::save_npz(tensors, path);
              } catch (...) {
                const int64_t left = allocations_left.exchange(-1);
                EXPECT_EQ(read_bytes(path), before);
                EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
                allocations_left = left;
                throw;
              }
            }),
            10);
  EXPECT_EQ(io::load_npz(path).size(), 2u);
}
#endif

TEST(OutOfMemory, AMalformedFileIsRefusedOrRaises) {
  const TemporaryFolder folder;
  io::save_file(some_tensors(), folder / "f");
  std::string bytes = read_bytes(folder / "f");
  bytes[bytes.rfind("shape")] = '"';
  write_bytes(folder / "f", bytes);
  const std::string path = folder / "f";
  bool refused = false;
  EXPECT_GT(failures_of([&] {
              try {
                io::load_file(path);
              } catch (const FormatError&) {
                refused = true;
              }
            }),
            10);
  EXPECT_TRUE(refused);
}

TEST(OutOfMemory, SavingRaisesAndLeavesTheOldFile) {
  const TemporaryFolder folder;
  io::save_file({{"old", ones(2)}}, folder / "f");
  const std::string before = read_bytes(folder / "f"), path = folder / "f";
  const io::TensorMap tensors = some_tensors();
  EXPECT_GT(failures_of([&] {
              try {
                io::save_file(tensors, path);
              } catch (...) {
                const int64_t left = allocations_left.exchange(-1);
                EXPECT_EQ(read_bytes(folder / "f"), before);
                EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
                allocations_left = left;
                throw;
              }
            }),
            20);
  EXPECT_EQ(io::load_file(path).size(), 12u);
}

}  // namespace
}  // namespace weft
