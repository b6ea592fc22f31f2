#include "../detail/captured_actions.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include <fmt/format.h>

#include "../../autograd/accumulation.hpp"
#include "../../autograd/mode.hpp"
#include "../../backends/watch/observe.hpp"
#include "../../backends/stream.hpp"
#include "../../backends/queued/stream_use.hpp"
#include "../../tensor/index_checks.hpp"

namespace weft::detail {

namespace {

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

Tensor handle_of(const TensorImpl* impl) {
  auto* const counted = const_cast<TensorImpl*>(impl);
  retain(counted);
  return Tensor::adopt(counted);
}

const void* address_of(const Tensor& t) { return t.defined() ? t.raw_view().data : nullptr; }

HookList<Hook>::Snapshot hooks_of(const TensorImpl* leaf) {
  const NodeHooks* const hooks = leaf->node != nullptr ? leaf->node->hooks.load(MemoryOrder::acquire) : nullptr;
  return hooks != nullptr ? hooks->list->snapshot() : nullptr;
}

std::string text_of(const CallPlace& place) {
  if (place.op == nullptr) return "the step";
  const std::string where = place.where.text();
  return where.empty() ? std::string(place.entry) : fmt::format("{} at {}", place.entry, where);
}

}  // namespace

// ---- memory that recordings use ----------------------------------------------------------------------------------

/// All held recordings. While the mutex is locked, no code may run that can destroy a tensor.
class HeldRecordings final : public HeldMemory {
 public:
  static HeldRecordings& get() {
    static auto* const all = new HeldRecordings;  // never destroyed, since static tensors may be destroyed last
    return *all;
  }

  void add(CapturedActions& recording) {
    const std::lock_guard lock(mutex_);
    recordings_.push_back(&recording);
    recording.held_ = true;
    held_memory.store(this, MemoryOrder::release);
  }
  void remove(CapturedActions& recording) {
    {
      const std::lock_guard lock(mutex_);
      std::erase(recordings_, &recording);
      if (recordings_.empty()) held_memory.store(nullptr, MemoryOrder::release);
    }
    for (Storage* storage : recording.kept_) {
      if (storage->refs.decrement_shared()) free_held(storage);
    }
  }

  bool take(Storage* storage) override {
    uint32_t keepers = 0;
    for_each_user(*storage, [&](CapturedActions& recording) {
      recording.stale_.store(true, MemoryOrder::release);
      if (keepers++ == 0) new (&storage->refs) RefCount();
      else storage->refs.increment();
      recording.kept_.push_back(storage);  // capacity reserved by `hold`
    });
    return keepers != 0;
  }
  void forget_owner(const void* owner) override {
    const std::lock_guard lock(mutex_);
    for (CapturedActions* recording : recordings_) {
      for (const StepAction& action : recording->actions_) {
        const auto* const repeat = std::get_if<StepAction::Repeat>(&action.what);
        if (repeat != nullptr && repeat->owner == owner) recording->stale_.store(true, MemoryOrder::release);
      }
    }
  }

  void reshaped(const Storage& storage) override {
    for_each_user(storage, [](CapturedActions& recording) { recording.stale_.store(true, MemoryOrder::release); });
  }
  void turned(const TensorImpl* tensor) override {
    for_each_user(*tensor->storage, [&](CapturedActions& recording) {
      if (std::erase(recording.turned_, tensor) == 0) recording.turned_.push_back(tensor);
    });
  }

 private:
  // Calls f for the recordings that use memory of this storage.
  template <class F>
  void for_each_user(const Storage& storage, const F& f) {
    const auto* const data = static_cast<const char*>(storage.data);
    if (data == nullptr) return;
    const std::lock_guard lock(mutex_);
    for (CapturedActions* recording : recordings_) {
      if (overlaps(recording->others_, data, data + storage.bytes)) f(*recording);
    }
  }
  static bool overlaps(const std::vector<MemoryRange>& ranges, const char* begin, const char* end) {
    const auto after = std::upper_bound(ranges.begin(), ranges.end(), begin,
                                        [](const char* at, const MemoryRange& r) { return at < r.end; });
    return after != ranges.end() && after->begin < end;
  }

  std::mutex mutex_;
  std::vector<CapturedActions*> recordings_;
};

void CapturedActions::hold() {
  std::ranges::sort(others_, {}, &MemoryRange::begin);
  std::vector<MemoryRange> joined;
  for (const MemoryRange& r : others_) {
    if (!joined.empty() && r.begin <= joined.back().end) joined.back().end = std::max(joined.back().end, r.end);
    else joined.push_back(r);
  }
  kept_.reserve(others_.size());  // each range at most once
  others_ = std::move(joined);
  HeldRecordings::get().add(*this);
}

CapturedActions::~CapturedActions() {
  actions_.clear();
  outputs.clear();
  starts_.clear();
  leaves_.clear();
  if (held_) HeldRecordings::get().remove(*this);
  for (StepMemory* memory : memories_) memory->close();
}

size_t CapturedActions::bytes() const {
  size_t sum = 0;
  for (const StepMemory* memory : memories_) sum += memory->bytes();
  return sum;
}

int64_t CapturedActions::kernels() const {
  return std::ranges::count_if(actions_, [](const StepAction& a) { return a.what.index() == 0; });
}

int64_t CapturedActions::batched() const {
  return std::ranges::count_if(actions_, [](const StepAction& action) {
    const auto* const kernel = std::get_if<StepAction::Kernel>(&action.what);
    return kernel != nullptr && kernel->batched;
  });
}

// ---- recording ------------------------------------------------------------------------------------------------------

Allocator& ActionCapture::memory(Device device, Allocator& below) {
  for (StepMemory* known : recording_.memories_) {
    if (known->device() == device) return *known;
  }
  recording_.memories_.reserve(recording_.memories_.size() + 1);
  recording_.memories_.push_back(new StepMemory(device, below, recording_.blocks_));
  return *recording_.memories_.back();
}

void ActionCapture::refuse(const char* why) {
  if (recording_.refusal_.empty()) recording_.refusal_ = fmt::format("{}: {}", text_of(current_call), why);
}

void ActionCapture::repeat(const char* what, const void* owner, Callback<void()> act) {
  StepAction action{StepAction::Repeat{what, owner, act}, "repeat"};
  append(action.bytes, owner);
  recording_.actions_.push_back(std::move(action));
  const UnrecordedScope unrecorded;
  act();
}

// Memory of the step is identified by its block number, other memory by its address.
void ActionCapture::note_address(std::string& bytes, const View& view) {
  if (view.layout.numel == 0) return append(bytes, 'z');
  const MemoryRange range = range_of(view);
  const char* const low = range.begin;
  for (StepMemory* memory : recording_.memories_) {
    const auto place = memory->find(low);
    if (!place) continue;
    if (auto constant = memory->written_by_host(low)) {
      StepAction action{std::move(*constant), "constant"};
      append(action.bytes, place->number);
      const auto& written = std::get<StepMemory::Constant>(action.what).bytes;
      action.bytes.append(written.data(), written.size());
      recording_.actions_.push_back(std::move(action));
    }
    append(bytes, 'o'), append(bytes, place->number), append(bytes, place->offset);
    return;
  }
  append(bytes, 'a'), append(bytes, low);
  recording_.others_.push_back(range);
}

void ActionCapture::record(std::unique_ptr<RecordedKernel> call) {
  if (current_streams != 0) refuse("it runs on a stream other than the device's default one");
  StepAction action{StepAction::Kernel{}, "kernel"};
  for (const View* view : call->views) note_address(action.bytes, *view);
  action.bytes += call->attributes;
  auto& kernel = std::get<StepAction::Kernel>(action.what);
  if (call->seed != nullptr) {
    kernel.draw = draw_of(*call->seed);
    append(action.bytes, kernel.draw.offset);
  }
  call->attributes.clear();
  kernel.call = std::move(call);
  recording_.actions_.push_back(std::move(action));
}

CapturedActions::Random& ActionCapture::random(Generator& generator, GeneratorState now) {
  for (CapturedActions::Random& known : recording_.random_) {
    if (known.generator == &generator) return known;
  }
  return recording_.random_.emplace_back(CapturedActions::Random{&generator, now});
}

void ActionCapture::drew(Generator& generator, GeneratorState first) {
  if (drawn_ != nullptr) refuse("random numbers are drawn on the host");
  random(generator, first);
  drawn_ = &generator;
  drawn_at_ = first;
}

void ActionCapture::moved(Generator& generator, GeneratorState from, GeneratorState to) {
  const GeneratorState start = random(generator, from).start;
  const bool follows = to.seed == start.seed && to.subsequence == start.subsequence && to.offset >= start.offset;
  if (!follows) refuse("a generator is seeded anew");
}

StepAction::Draw ActionCapture::draw_of(const PhiloxSeed& seed) {
  const GeneratorState of_call = {seed.key, seed.subsequence, seed.offset};
  if (drawn_ == nullptr || !(of_call == drawn_at_)) {
    refuse("random numbers are drawn on the host");
    return {};
  }
  const CapturedActions::Random& known = random(*std::exchange(drawn_, nullptr), drawn_at_);
  const bool follows = known.start.seed == seed.key && known.start.subsequence == seed.subsequence;
  if (!follows) refuse("a generator is seeded anew");
  const auto number = static_cast<size_t>(&known - recording_.random_.data());
  return {number, seed.offset - known.start.offset};
}

void ActionCapture::wrote(Storage& storage) {
  if (storage.bytes == 0) return;
  for (StepMemory* memory : recording_.memories_) {
    if (memory->find(storage.data)) return;
  }
  StepAction action{StepAction::Write{&storage, current_call}, "write"};
  append(action.bytes, &storage);
  recording_.actions_.push_back(std::move(action));
  const auto* const data = static_cast<const char*>(storage.data);
  recording_.others_.push_back({data, data + storage.bytes});
}

void ActionCapture::adds_gradient(const TensorImpl* leaf, const Tensor& before) {
  const auto is_leaf = [leaf](const CapturedActions::Hooked& known) { return known.leaf.impl() == leaf; };
  if (std::ranges::none_of(recording_.leaves_, is_leaf))
    recording_.leaves_.push_back({handle_of(leaf), hooks_of(leaf)});
  if (std::ranges::find(met_, leaf) != met_.end()) return;
  met_.push_back(leaf);
  recording_.starts_.push_back({handle_of(leaf), address_of(before)});
}

void ActionCapture::put_gradient(const TensorImpl* leaf, const Tensor& after) {
  if (std::ranges::find(met_, leaf) == met_.end()) met_.push_back(leaf);
  StepAction action{StepAction::Gradient{handle_of(leaf), after}, "gradient"};
  append(action.bytes, leaf);
  if (after.defined()) note_address(action.bytes, after.raw_view());
  recording_.actions_.push_back(std::move(action));
}

void ActionCapture::finish() {
  if (drawn_ != nullptr) refuse("random numbers are drawn on the host");
  for (CapturedActions::Random& r : recording_.random_) r.blocks = r.generator->state().offset - r.start.offset;
  // A gradient that is reset and set again with only kernels between has no visible effect.
  std::vector<const TensorImpl*> set_later;
  for (auto action = recording_.actions_.rbegin(); action != recording_.actions_.rend(); ++action) {
    if (std::holds_alternative<StepAction::Repeat>(action->what)) set_later.clear();
    auto* const gradient = std::get_if<StepAction::Gradient>(&action->what);
    if (gradient == nullptr) continue;
    if (std::ranges::find(set_later, gradient->leaf.impl()) != set_later.end()) gradient->leaf = Tensor();
    else set_later.push_back(gradient->leaf.impl());
  }
}

std::string CapturedActions::difference(const CapturedActions& other) const {
  const auto name_of = [](const StepAction& action) -> std::string {
    if (const auto* kernel = std::get_if<StepAction::Kernel>(&action.what)) return text_of(kernel->call->place);
    if (const auto* repeat = std::get_if<StepAction::Repeat>(&action.what)) return repeat->what;
    if (const auto* write = std::get_if<StepAction::Write>(&action.what)) return text_of(write->by);
    return std::holds_alternative<StepAction::Gradient>(action.what) ? "the gradient of a leaf"
                                                                     : "a tensor made of numbers of the host";
  };
  const size_t common = std::min(actions_.size(), other.actions_.size());
  for (size_t i = 0; i < common; ++i) {
    if (actions_[i].bytes == other.actions_[i].bytes) continue;
    const std::string before = name_of(other.actions_[i]), now = name_of(actions_[i]);
    return before == now ? now + " computes with other numbers, shapes or memory" : now + ", where it was " + before;
  }
  if (actions_.size() > common) return name_of(actions_[common]) + " was not there before";
  if (other.actions_.size() > common) return name_of(other.actions_[common]) + " is not there any more";
  return "";
}

// ---- replaying ------------------------------------------------------------------------------------------------------

bool CapturedActions::has_leaves_as_now() const {
  return turned_.empty() &&
         std::ranges::all_of(leaves_, [](const Hooked& h) { return hooks_of(h.leaf.impl()) == h.hooks; }) &&
         std::ranges::all_of(starts_,
                             [](const Start& s) { return s.leaf.grad().defined() == (s.gradient != nullptr); });
}

bool CapturedActions::is_current() const {
  if (stale_.load(MemoryOrder::acquire)) return false;
  return std::ranges::all_of(starts_, [](const Start& s) { return address_of(s.leaf.grad()) == s.gradient; });
}

namespace {

/// Runs the kernels of a replay one by one, and forms batches of consecutive ones that a device can repeat.
class Batches {
 public:
  void run(StepAction::Kernel& kernel) {
    const Device device = device_of(*kernel.call);
    if (!(device == device_)) {
      end();
      device_ = device;
      notes_ = note_kernels(device);
    }
    if (notes_ == nullptr || kernel.call->seed != nullptr) {  // each draw uses new random numbers
      end();
      kernel.call->run();
    } else if (notes_->run(*kernel.call)) {
      noted_.push_back(&kernel);
    } else {
      end();
    }
  }
  /// Ends the batch before an action that is not a kernel and requires the earlier kernels to be queued.
  void end() {
    if (noted_.size() > 1) {
      noted_.front()->batch = notes_->batch();
      for (StepAction::Kernel* kernel : noted_) kernel->batched = noted_.front()->batch != nullptr;
    } else if (!noted_.empty()) {
      notes_ = note_kernels(device_);
    }
    noted_.clear();
  }

 private:
  static Device device_of(const RecordedKernel& call) {
    if (call.views.empty()) return {};
    const Layout& layout = call.views.front()->layout;
    return Device(layout.device_type, layout.device_index);
  }

  Device device_;
  std::unique_ptr<KernelNotes> notes_;
  std::vector<StepAction::Kernel*> noted_;
};

/// Batches do not notify observers, run no index checks and only use the default streams.
bool may_run_batches() { return !kernels_are_observed() && !index_checks() && current_streams == 0; }

void run_batched(const StepAction::Kernel& kernel) {
  if (streams_in_use.load(MemoryOrder::relaxed)) [[unlikely]] {  // as the kernel would do
    for (const View* view : kernel.call->views) note_use(*view);
  }
  if (kernel.batch != nullptr) kernel.batch->run();
}

}  // namespace

void CapturedActions::replay() {
  const NoGradGuard unrecorded;
  const bool batches = may_run_batches(), makes_batches = batches && !batches_made_;
  Batches made;
  std::vector<GeneratorState> from;
  for (const Random& r : random_) from.push_back(r.generator->reserve(r.blocks));
  for (StepAction& action : actions_) {
    if (auto* kernel = std::get_if<StepAction::Kernel>(&action.what)) {
      if (PhiloxSeed* seed = kernel->call->seed) {
        const GeneratorState& start = from[kernel->draw.generator];
        *seed = {start.seed, start.subsequence, start.offset + kernel->draw.offset};
      }
      if (makes_batches) made.run(*kernel);
      else if (batches && kernel->batched) run_batched(*kernel);
      else kernel->call->run();
    } else if (auto* constant = std::get_if<StepMemory::Constant>(&action.what)) {
      made.end();
      std::memcpy(constant->to, constant->bytes.data(), constant->bytes.size());
    } else if (auto* repeat = std::get_if<StepAction::Repeat>(&action.what)) {
      made.end();
      repeat->act();
    } else if (auto* gradient = std::get_if<StepAction::Gradient>(&action.what)) {
      AccumulationNode* const node = gradient->leaf.defined() ? accumulation_node(gradient->leaf.impl()) : nullptr;
      if (node != nullptr && node->grad.impl() != gradient->gradient.impl())
        gradient->leaf.set_grad(gradient->gradient);
    } else {
      const auto& write = std::get<StepAction::Write>(action.what);
      write.storage->note_write(write.by.entry, write.by.where);
    }
  }
  made.end();
  batches_made_ |= makes_batches;
}

}  // namespace weft::detail
