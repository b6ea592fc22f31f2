// Out of memory while files are read and written: an exception, never the end of the process, and the old file stays.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <new>
#include <ostream>
#include <streambuf>

#include <gtest/gtest.h>

#include <weft/io/model.hpp>
#include <weft/io/npy.hpp>
#include <weft/io/npz.hpp>
#include <weft/io/pt.hpp>
#include <weft/io/safetensors.hpp>
#include <weft/io/sharded_state.hpp>
#include <weft/io/step_recorder.hpp>
#include <weft/io/tensor_json.hpp>
#include <weft/io/training_state.hpp>
#include <weft/nn/layers.hpp>
#include <weft/ops/create.hpp>
#include <weft/optim/optim.hpp>
#include <weft/tensor/allocator.hpp>
#include <weft/tensor/warning.hpp>

#include <temporary_folder.hpp>

namespace {
// How many allocations still succeed; the next one and all after it fail. Negative: none fails.
std::atomic<int64_t> allocations_left{-1};
// The bytes of all requests since it was set to 0.
std::atomic<size_t> requested{0};
}  // namespace

// Not inlined: the compiler would take malloc and delete for a mismatch.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (const int64_t left = allocations_left; left == 0) throw std::bad_alloc();
  else if (left > 0) --allocations_left;
  requested += bytes;
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

// Before and after the step; the step itself is the user's code.
TEST(OutOfMemory, AStepThatCannotBeKeptIsTakenAllTheSame) {
  const TemporaryFolder folder;
  const std::string path = folder / "step.weft";
  nn::Linear model(2, 1);
  optim::Adam optimizer(model.parameters(), {.lr = 0.1});
  const WarningHandler before = set_warning_handler([](const Warning&) {});
  int kept = 0;
  for (int k = 0; kept < 2; k += 1 + k / 30) {  // until both have enough
    kept = 0;
    for (const bool early : {true, false}) {
      io::StepRecorder recorder(path, {model, &optimizer});
      const Tensor good = ones({1}), bad = full({1}, std::numeric_limits<double>::quiet_NaN());
      const auto returning = [&](const Tensor& loss, int64_t left) {
        return io::StepFunction([&loss, left](const io::TensorMap&) {
          allocations_left = left;
          return loss;
        });
      };
      const io::StepFunction first = returning(good, -1), second = returning(bad, early ? -1 : k);
      const io::TensorMap batch = {{"x", ones({2, 2})}};
      recorder.step(first, batch);
      if (early) allocations_left = k;
      const Tensor loss = recorder.step(second, batch);
      allocations_left = -1;
      EXPECT_EQ(loss.impl(), bad.impl());
      EXPECT_EQ(io::holds_step(path), std::filesystem::exists(path));
      if (!io::holds_step(path)) continue;
      ++kept;
      EXPECT_NE(io::step_text(path).find("step 1, bad: the loss is NaN"), std::string::npos);
      std::filesystem::remove_all(path);
    }
  }
  set_warning_handler(before);
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

TEST(OutOfMemory, JsonRaises) {
  const std::string tensors = io::tensors_to_json(some_tensors(), {{"a longer name than fits in place", "a value"}});
  const std::string model = io::to_json(nn::Sequential(nn::Linear(2, 3), nn::LayerNorm({3}), nn::ReLU()));
  (void)nn::ModuleRegistry::standard();
  EXPECT_GT(failures_of([&] { (void)io::tensors_from_json(tensors); }), 50);
  EXPECT_GT(failures_of([&] { (void)io::from_json(model); }), 50);
  EXPECT_GT(failures_of([&] { (void)io::to_json(io::read_model(model)); }), 50);
}

TEST(OutOfMemory, SavingAndLoadingAModelRaisesAndLeavesTheOldOne) {
  const TemporaryFolder folder;
  const std::string path = folder / "model";
  const nn::Sequential old(nn::Linear(2, 3)), net(nn::Linear(2, 3), nn::ReLU(), nn::Linear(3, 1));
  io::save_model(path, old);
  const std::string before = read_bytes(folder / "model" / "model.json");
  EXPECT_GT(failures_of([&] {
              try {
                io::save_model(path, net);
              } catch (...) {
                const int64_t left = allocations_left.exchange(-1);
                EXPECT_EQ(read_bytes(folder / "model" / "model.json"), before);
                allocations_left = left;
                throw;
              }
            }),
            50);
  EXPECT_GT(failures_of([&] { (void)io::load_model(path); }), 50);
}

TEST(OutOfMemory, SavingAndLoadingATrainingStateRaises) {
  const TemporaryFolder folder;
  const std::string path = folder / "run";
  nn::Sequential net(nn::Linear(2, 3));
  optim::AdamW optimizer(net.parameters());
  const io::TrainingRun run{net, &optimizer};
  const io::RunState state{.step = 1, .best_metric = 0.5, .documents = {{"config", "{}"}}};
  EXPECT_GT(failures_of([&] { io::save_training_state(path, run, state); }), 50);
  EXPECT_GT(failures_of([&] { io::load_training_state(path, run); }), 50);
  EXPECT_EQ(io::training_states(path).size(), 1u);
}

TEST(OutOfMemory, MappingAndLoadingAStateRaises) {
  const TemporaryFolder folder;
  const Tensor w = ones({4, 2});
  const std::vector<io::ShardedState> ranks = {
      {{"w", {w.narrow(0, 0, 2), {4, 2}, {0, 0}}}},
      {{"w", {w.narrow(0, 2, 2).reshape(-1), {4, 2}, {2, 0}, io::FlatRange{0, 4}, {2, 2}}}}};
  io::save_state_dict(ranks, folder.path());
  const std::string path = folder.path();
  const auto load = [&] {
    const io::Mapping mapping =
        io::Mapping::parse("w -> a.0, a.1, axis=0, permute=[]\na.$I -> b.$I, dtype=\"float64\"");
    const io::TensorMap loaded = mapping.apply(io::open_state_dict(path)).tensors();
    if (loaded.at("b.1").shape() != Dims{2, 2}) std::abort();
  };
  EXPECT_GT(failures_of(load), 100);
  EXPECT_GT(failures_of([&] { io::save_state_dict(ranks, path, {.id = 2}); }), 100);
  EXPECT_EQ(io::state_ids(path), (std::vector<int64_t>{1, 2}));
}

// ---- memory of saving -----------------------------------------------------------------------------------------------

// Counts and forgets.
class CountingBuffer : public std::streambuf {
 public:
  size_t bytes = 0;

 private:
  std::streamsize xsputn(const char*, std::streamsize count) override {
    bytes += static_cast<size_t>(count);
    return count;
  }
};

struct Need {
  size_t in_tensors, on_the_heap;
};
// The additional peak of tensor memory in `f`, and its total heap requests.
Need need_of(const auto& f) {
  const size_t before = memory_stats().allocated;
  reset_peak();
  requested = 0;
  f();
  const size_t heap = requested;
  return {memory_stats().peak_allocated - before, heap};
}

constexpr size_t buffer = size_t{1} << 20;

TEST(MemoryForSaving, IsBoundedByTheBufferForViewsOfAnySize) {
  const TemporaryFolder folder;
  const std::string path = folder / "f";
  for (const int64_t rows : {1024, 8192}) {
    const Tensor views = ones({rows, 1024}).t(), rows_alone = ones({2, rows * 512}).t();
    const io::TensorMap tensors = {{"dense", ones({rows, 1024})}, {"packed", views}, {"narrow", rows_alone}};
    CountingBuffer counter;
    std::ostream out(&counter);
    const Need stream = need_of([&] { io::save_stream(out, tensors, {}, {.buffer_bytes = buffer}); });
    EXPECT_GT(counter.bytes, static_cast<size_t>(rows) * 3 * 4096 - 1);
    const Need file = need_of([&] { io::save_file(tensors, path, {}, {.buffer_bytes = buffer}); });
    for (const Need& need : {stream, file}) {
      EXPECT_LE(need.in_tensors, 2 * buffer) << rows;
      EXPECT_LE(need.on_the_heap, buffer) << rows;
    }
  }
}

TEST(MemoryForSaving, OfTensorsCreatedOneAtATimeIsOneTensor) {
  std::vector<io::TensorEntry> entries;
  for (int i = 0; i < 64; ++i) entries.push_back({"layer." + std::to_string(i), f32, {512, 512}});
  CountingBuffer counter;
  std::ostream out(&counter);
  const auto source = [](const std::string&) { return ones({512, 512}); };
  const Need need = need_of([&] { io::save_stream(out, entries, source); });
  EXPECT_GT(counter.bytes, size_t{64} << 20);
  EXPECT_LE(need.in_tensors, 2 * buffer);
  EXPECT_LE(need.on_the_heap, buffer);
}

TEST(MemoryForSaving, OfAnOffloadingMergeIsOneTensor) {
  const TemporaryFolder states, merged;
  constexpr int64_t side = 512;
  constexpr size_t one = side * side * sizeof(float);
  std::vector<io::ShardedState> ranks(2);
  for (int64_t i = 0; i < 32; ++i) {
    for (int64_t rank = 0; rank < 2; ++rank) {
      ranks[static_cast<size_t>(rank)]["layer." + std::to_string(i)] = {
          ones({side / 2, side}), {side, side}, {rank * side / 2, 0}};
    }
  }
  io::save_state_dict(ranks, states.path());
  ranks.clear();
  io::MergeOptions options = {.mapping = io::Mapping::parse("layer.$I -> l.$I, permute=[]"), .offload = true};
  options.shards = {.max_shard_size = 4 * one, .buffer_bytes = buffer};
  const auto merge = [&] { io::merge_sharded(states.path(), merged.path(), options); };
  EXPECT_LE(need_of(merge).in_tensors, 4 * one);
  options.offload = false;
  EXPECT_GE(need_of(merge).in_tensors, 32 * one);
}

}  // namespace
}  // namespace weft
