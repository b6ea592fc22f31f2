// One recorded step: what it did, in order, and the memory that it did it in.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "step_memory.hpp"
#include "../../autograd/hooks.hpp"
#include "../../backends/queued/command_batch.hpp"
#include "../../backends/watch/recorded_kernel.hpp"
#include "../../tensor/memory_range.hpp"
#include "../../tensor/tensor.hpp"

namespace weft::detail {

/// What one recording does at one point. Each is told by `text` where two recordings differ.
struct StepAction {
  struct Draw {
    size_t generator;
    uint64_t offset;  ///< from where the generator stands when the step begins
  };
  struct Kernel {
    std::unique_ptr<RecordedKernel> call;
    Draw draw = {};
    bool batched = false;                      ///< its commands are in a batch
    std::unique_ptr<CommandBatch> batch = {};  ///< of the first one of those in it
  };
  struct Repeat {
    const char* what;
    const void* owner;
    Callback<void()> act;
  };
  struct Gradient {
    Tensor leaf, gradient;
  };
  struct Write {
    Storage* storage;
    CallPlace by;
  };
  std::variant<Kernel, StepMemory::Constant, Repeat, Gradient, Write> what;
  /// Equal where two recordings do the same on the same memory.
  std::string bytes;
};

/// Filled by a StepRecording::Recorder, then held: tensors that die in its memory are kept, and make it stale.
class StepRecording {
 public:
  StepRecording() = default;
  ~StepRecording();
  StepRecording(const StepRecording&) = delete;

  /// Why it cannot be replayed, with the op and line; empty where it can.
  const std::string& refusal() const { return refusal_; }
  /// Where the other one does something else, in words; empty where both do the same.
  std::string difference(const StepRecording& other) const;
  /// From now on the memory of others that it uses is kept.
  void hold();
  /// False where leaves have other hooks, or others of them hold or require a gradient, than when it was recorded.
  bool has_leaves_as_now() const;
  /// False where memory, gradients or owners are not what they were when it was recorded.
  bool is_current() const;
  /// What it uses is gone: it never becomes current again.
  bool is_stale() const { return stale_.load(MemoryOrder::acquire); }
  void replay();
  int64_t kernels() const;
  /// Of those, the ones whose commands the device repeats by itself.
  int64_t batched() const;
  size_t bytes() const;

  std::vector<Tensor> outputs;

 private:
  friend class RecorderOfStep;
  friend class HeldRecordings;
  struct Random {
    Generator* generator;
    GeneratorState start;
    uint64_t blocks = 0;
  };
  struct Start {  ///< a leaf whose gradient is added to before it is set
    Tensor leaf;
    const void* gradient;
  };
  struct Hooked {
    Tensor leaf;
    HookList<Hook>::Snapshot hooks;
  };

  std::vector<StepAction> actions_;
  std::vector<StepMemory*> memories_;
  int64_t blocks_ = 0;
  std::vector<Random> random_;
  std::vector<Start> starts_;
  std::vector<Hooked> leaves_;             ///< whose gradient is added to
  std::vector<const TensorImpl*> turned_;  ///< those in `others_` that require a gradient now and did not, or did
  std::vector<MemoryRange> others_;        ///< memory that is not its own
  std::string refusal_;
  bool batches_made_ = false;
  bool held_ = false;
  Atomic<bool> stale_{false};
  std::vector<Storage*> kept_;  ///< died in `others_` meanwhile
};

/// Records what the thread does from its construction on.
class RecorderOfStep final : public KernelRecorder {
 public:
  explicit RecorderOfStep(StepRecording& recording) : recording_(recording), scope_(*this) {}
  /// After the step: what only its end tells.
  void finish();

  Allocator& memory(Device device, Allocator& below) override;
  void refuse(const char* why) override;
  void repeat(const char* what, const void* owner, Callback<void()> act) override;
  void wrote(Storage& storage) override;
  void drew(Generator& generator, GeneratorState first) override;
  void moved(Generator& generator, GeneratorState from, GeneratorState to) override;
  void adds_gradient(const TensorImpl* leaf, const Tensor& before) override;
  void put_gradient(const TensorImpl* leaf, const Tensor& after) override;
  void record(std::unique_ptr<RecordedKernel> call) override;

 private:
  StepRecording::Random& random(Generator& generator, GeneratorState now);
  void note_address(std::string& bytes, const View& view);
  StepAction::Draw draw_of(const PhiloxSeed& seed);

  StepRecording& recording_;
  Generator* drawn_ = nullptr;  ///< whose last draw no kernel has used yet
  GeneratorState drawn_at_;
  std::vector<const TensorImpl*> met_;  ///< leaves whose gradient was set or added to
  RecordingScope scope_;
};

}  // namespace weft::detail
