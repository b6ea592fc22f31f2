// One recorded step: its actions, in order, and the memory that they use.
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

/// One action of a recording. `text` describes it where two recordings differ.
struct StepAction {
  struct Draw {
    size_t generator;
    uint64_t offset;  ///< relative to the generator's position at the start of the step
  };
  struct Kernel {
    std::unique_ptr<RecordedKernel> call;
    Draw draw = {};
    bool batched = false;                      ///< its commands are in a batch
    std::unique_ptr<CommandBatch> batch = {};  ///< set for the first kernel of a batch
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
  /// Equal if two recordings perform the same action on the same memory.
  std::string bytes;
};

/// Filled by ActionCapture, then held: tensors that die in the memory it uses are kept, and make it stale.
class CapturedActions {
 public:
  CapturedActions() = default;
  ~CapturedActions();
  CapturedActions(const CapturedActions&) = delete;

  /// Why it cannot be replayed, with the op and line; empty if it can.
  const std::string& refusal() const { return refusal_; }
  /// Describes the first difference to the other recording; empty if there is none.
  std::string difference(const CapturedActions& other) const;
  /// Keeps foreign memory that it uses alive from here on.
  void hold();
  /// False if the hooks of leaves, or the set of leaves that hold or require a gradient, differ from the recording.
  bool has_leaves_as_now() const;
  /// False if memory, gradients or owners differ from the recording.
  bool is_current() const;
  /// Whether memory that it uses is gone, so that it can never be current again.
  bool is_stale() const { return stale_.load(MemoryOrder::acquire); }
  void replay();
  int64_t kernels() const;
  /// Number of kernels that the device repeats in a batch.
  int64_t batched() const;
  size_t bytes() const;

  std::vector<Tensor> outputs;

 private:
  friend class ActionCapture;
  friend class HeldRecordings;
  struct Random {
    Generator* generator;
    GeneratorState start;
    uint64_t blocks = 0;
  };
  struct Start {  ///< a leaf with a gradient that is added to before it is set
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
  std::vector<Hooked> leaves_;             ///< leaves with a gradient that is added to
  std::vector<const TensorImpl*> turned_;  ///< in `others_`, with a requires_grad different from the start
  std::vector<MemoryRange> others_;        ///< memory that the recording does not own
  std::string refusal_;
  bool batches_made_ = false;
  bool held_ = false;
  Atomic<bool> stale_{false};
  std::vector<Storage*> kept_;  ///< storages in `others_` that died since
};

/// Records the thread's actions during its lifetime.
class ActionCapture final : public KernelRecorder {
 public:
  explicit ActionCapture(CapturedActions& recording) : recording_(recording), scope_(*this) {}
  /// Completes the recording after the step.
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
  CapturedActions::Random& random(Generator& generator, GeneratorState now);
  void note_address(std::string& bytes, const View& view);
  StepAction::Draw draw_of(const PhiloxSeed& seed);

  CapturedActions& recording_;
  Generator* drawn_ = nullptr;  ///< the last draw that no kernel has used yet
  GeneratorState drawn_at_;
  std::vector<const TensorImpl*> met_;  ///< leaves with a gradient that was set or added to
  RecordingScope scope_;
};

}  // namespace weft::detail
