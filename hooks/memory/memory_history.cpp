#include "../memory_history.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/memory_use.hpp"
#include "../detail/graph_text.hpp"
#include "growth.hpp"
#include "memory_notes.hpp"

namespace weft {

namespace {

/// A storage's entry. `made` and `freed` are times of a clock that counts allocations and releases.
struct Note {
  LiveMemory memory;
  Device device;
  uint64_t made = 0, freed = std::numeric_limits<uint64_t>::max();
};

/// Further entries of a step are dropped, and missing in its curve.
constexpr size_t most_gone = size_t{1} << 20;
/// A running module of one history, by the history's number; an entry may outlive its history.
struct RunningModule {
  std::string path;
  int64_t history;
  RunningModule* outer;
};
constinit thread_local RunningModule* running_module = nullptr;

void leave_module() {
  const RunningModule* const left = running_module;
  if (left == nullptr) return;
  running_module = left->outer;
  delete left;
}

MemoryKind kind_now() {
  switch (detail::memory_use) {
    case detail::MemoryUse::backward:
      return MemoryKind::gradient;
    case detail::MemoryUse::optimizer:
      return MemoryKind::optimizer;
    case detail::MemoryUse::forward:
      break;
  }
  return grad_mode().enabled ? MemoryKind::activation : MemoryKind::other;
}

using LineKey = std::tuple<std::string, std::string, MemoryKind>;

}  // namespace

struct MemoryHistory::State final : detail::StorageWatch {
  explicit State(NamedTensors all) : parameters(std::move(all)) {
    static Atomic<int64_t> made{0};
    number = made.fetch_add(1, MemoryOrder::relaxed);
  }

  void made(const Storage& storage) noexcept override {
    try {
      const CallPlace& call = detail::current_call;
      Note note{.memory = {.bytes = storage.bytes, .kind = kind_now()}, .device = storage.device};
      if (call.op != nullptr) note.memory.op = call.entry;
      if (call.where.known()) note.memory.where = call.where;
      if (running_module != nullptr && running_module->history == number) note.memory.module = running_module->path;
      const std::lock_guard lock(mutex);
      note.memory.step = steps;
      note.made = ++clock;
      live[&storage] = std::move(note);
    } catch (const std::exception&) {  // it remains untracked
    }
  }
  void freed(const Storage& storage) noexcept override {
    const std::lock_guard lock(mutex);
    const auto found = live.find(&storage);
    if (found == live.end()) return;
    found->second.freed = ++clock;
    try {
      if (gone.size() < most_gone) gone.push_back(std::move(found->second));
    } catch (const std::exception&) {
    }
    live.erase(found);
  }

  /// Includes named storages that were allocated before the history.
  std::vector<Note> notes_of_living(std::map<const Storage*, detail::NamedStorage>& named) const {
    std::vector<Note> notes;
    notes.reserve(live.size() + named.size());
    for (const auto& [storage, note] : live) {
      notes.push_back(note);
      const auto n = named.find(storage);
      if (n == named.end()) continue;
      notes.back().memory.name = n->second.name;
      notes.back().memory.kind = n->second.kind;
      n->second.noted = true;
    }
    for (const auto& [storage, n] : named) {
      // Elements stored inside the tensor object are not counted.
      if (n.noted || storage->allocator == nullptr) continue;
      notes.push_back({{.bytes = storage->bytes, .kind = n.kind, .name = n.name}, n.tensor.device()});
    }
    return notes;
  }

  void compare_lines() {
    std::map<LineKey, std::pair<size_t, size_t>> now;
    for (const Note& note : last) {
      if (note.freed <= clock || !note.memory.where.known()) continue;
      auto& [bytes, tensors] = now[{note.memory.where.text(), note.memory.op, note.memory.kind}];
      bytes += note.memory.bytes, ++tensors;
    }
    for (const auto& [key, kept] : now) lines[key];
    for (auto& [key, line] : lines) {
      const auto found = now.find(key);
      if (found == now.end()) line.add(0, 0);
      else line.add(found->second.first, found->second.second);
    }
  }

  const NamedTensors parameters;
  std::vector<HookHandle> hooks;
  int64_t number = 0;

  mutable std::mutex mutex;
  std::unordered_map<const Storage*, Note> live;
  std::vector<Note> gone;  ///< freed in this step
  uint64_t clock = 0, step_began = 0;
  int64_t steps = 0;
  /// All storages that existed in the last completed step.
  std::vector<Note> last;
  uint64_t last_began = 0, last_ended = 0;
  std::map<LineKey, detail::KeptByLine> lines;
};

namespace {
std::mutex the_one_mutex;
const MemoryHistory* the_one = nullptr;
}  // namespace

MemoryHistory::MemoryHistory(Location where) : MemoryHistory(NamedTensors(), where) {}

MemoryHistory::MemoryHistory(NamedTensors parameters, Location where)
    : state_(Shared<State>::make(std::move(parameters))) {
  const std::lock_guard lock(the_one_mutex);
  if (the_one != nullptr) {
    raise<ValueError>({.op = "MemoryHistory", .problem = "another one lives, and notes all tensors"}, where);
  }
  the_one = this;
  detail::set_storage_watch(state_.get());
}

MemoryHistory::~MemoryHistory() {
  const std::lock_guard lock(the_one_mutex);
  the_one = nullptr;
  detail::set_storage_watch(nullptr);
  for (HookHandle& hook : state_->hooks) hook.remove();
}

void MemoryHistory::own(HookHandle hook) { state_->hooks.push_back(std::move(hook)); }

void MemoryHistory::enter(const Weak<State>& weak, const std::string& path) {
  const Shared<State> state = weak.lock();
  if (!state) return;
  while (running_module != nullptr && running_module->history != state->number) leave_module();
  running_module = new RunningModule{path, state->number, running_module};
}
void MemoryHistory::leave(const Weak<State>& weak) {
  const Shared<State> state = weak.lock();
  if (state && running_module != nullptr && running_module->history == state->number) leave_module();
}

void MemoryHistory::step() {
  State& s = *state_;
  auto named = detail::named_storages(s.parameters);
  const std::lock_guard lock(s.mutex);
  s.last = s.notes_of_living(named);
  std::move(s.gone.begin(), s.gone.end(), std::back_inserter(s.last));
  s.gone.clear();
  s.last_began = std::exchange(s.step_began, s.clock);
  s.last_ended = s.clock;
  ++s.steps;
  s.compare_lines();
}

MemorySnapshot MemoryHistory::snapshot(Device device, const NamedTensors& more) const {
  auto named = detail::named_storages(state_->parameters);
  named.merge(detail::named_storages(more));
  std::vector<LiveMemory> tensors;
  {
    const std::lock_guard lock(state_->mutex);
    for (Note& note : state_->notes_of_living(named)) {
      if (note.device == device) tensors.push_back(std::move(note.memory));
    }
  }
  return detail::snapshot_of(device, std::move(tensors));
}

MemorySnapshot memory_snapshot(Device device, const NamedTensors& parameters, Location where) {
  {
    const std::lock_guard lock(the_one_mutex);
    if (the_one != nullptr) return the_one->snapshot(device, parameters);
  }
  auto named = detail::named_storages(parameters);
  std::vector<LiveMemory> tensors;
  for (const detail::StorageNote& note : detail::large_storages(device)) {
    LiveMemory memory{.bytes = note.bytes};
    if (note.use == detail::MemoryUse::backward) memory.kind = MemoryKind::gradient;
    if (note.use == detail::MemoryUse::optimizer) memory.kind = MemoryKind::optimizer;
    if (note.place.op != nullptr) memory.op = note.place.entry;
    if (note.place.where.known()) memory.where = note.place.where;
    if (const auto n = named.find(note.storage); n != named.end()) {
      memory.name = n->second.name, memory.kind = n->second.kind;
      n->second.noted = true;
    }
    tensors.push_back(std::move(memory));
  }
  for (const auto& [storage, n] : named) {
    if (n.noted || storage->allocator == nullptr || n.tensor.device() != device) continue;
    tensors.push_back({.bytes = storage->bytes, .kind = n.kind, .name = n.name});
  }
  return detail::snapshot_of(device, std::move(tensors), where);
}

// ---- growth ---------------------------------------------------------------------------------------------------------

namespace {

std::string sentence(const MemoryGrowth& g) {
  return fmt::format("{} keeps {} more in each of {} steps, now {} in {} tensors", detail::made_by(g.op, g.where),
                     detail::bytes_text(static_cast<int64_t>(g.bytes_each_step)), g.steps,
                     detail::bytes_text(static_cast<int64_t>(g.bytes)), g.tensors);
}

}  // namespace

std::vector<MemoryGrowth> MemoryHistory::growth() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<MemoryGrowth> found;
  for (const auto& [key, line] : state_->lines) {
    const auto trend = line.growth();
    if (!trend) continue;
    const auto& [place, op, kind] = key;
    MemoryGrowth growth{.op = op,
                        .kind = kind,
                        .steps = trend->steps,
                        .bytes_each_step = trend->bytes_each_step,
                        .bytes = line.bytes(),
                        .tensors = line.tensors()};
    for (const Note& note : state_->last) {
      if (note.memory.where.known() && note.memory.where.text() == place) growth.where = note.memory.where;
    }
    found.push_back(std::move(growth));
  }
  std::sort(found.begin(), found.end(),
            [](const MemoryGrowth& a, const MemoryGrowth& b) { return a.bytes_each_step > b.bytes_each_step; });
  return found;
}

std::string MemoryHistory::growth_text() const {
  std::string text;
  for (const MemoryGrowth& g : growth()) text += sentence(g) + '\n';
  if (text.empty()) return text;
  return "memory grows:\n" + text +
         "  something holds them past the step, such as a list of losses with their graphs: keep item() or detach()\n";
}

// ---- the last completed step ----------------------------------------------------------------------------------------

namespace {

struct Change {
  uint64_t time;
  int64_t bytes;
  int kind;
};

/// Changes on one device in time order; storages that exist at the start of the step are added at its begin.
std::vector<Change> changes_of(const std::vector<Note>& notes, Device device, uint64_t began) {
  std::vector<Change> changes;
  for (const Note& note : notes) {
    if (note.device != device) continue;
    const auto bytes = static_cast<int64_t>(note.memory.bytes);
    changes.push_back({std::max(note.made, began), bytes, static_cast<int>(note.memory.kind)});
    if (note.freed != std::numeric_limits<uint64_t>::max()) {
      changes.push_back({note.freed, -bytes, static_cast<int>(note.memory.kind)});
    }
  }
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
  return changes;
}

/// Calls f(time, bytes by kind) after the changes of each moment.
template <class F>
void each_moment(const std::vector<Change>& changes, F&& f) {
  MemoryMoment moment;
  for (size_t i = 0; i < changes.size(); ++i) {
    size_t& bytes = moment.bytes[changes[i].kind];
    bytes = static_cast<size_t>(static_cast<int64_t>(bytes) + changes[i].bytes);
    if (i + 1 == changes.size() || changes[i + 1].time != changes[i].time) f(changes[i].time, moment);
  }
}

}  // namespace

size_t MemoryMoment::sum() const {
  size_t sum = 0;
  for (const size_t b : bytes) sum += b;
  return sum;
}

std::vector<MemoryMoment> MemoryHistory::curve(Device device, size_t max_moments) const {
  const std::lock_guard lock(state_->mutex);
  const State& s = *state_;
  const std::vector<Change> changes = changes_of(s.last, device, s.last_began);
  const auto length = static_cast<double>(std::max<uint64_t>(s.last_ended - s.last_began, 1));
  // The highest moment of each of `max_moments` equal parts of the step.
  const size_t parts = std::max<size_t>(max_moments, 1);
  std::vector<MemoryMoment> curve;
  size_t part_of_last = parts;
  each_moment(changes, [&](uint64_t time, const MemoryMoment& moment) {
    const double at = static_cast<double>(time - s.last_began) / length;
    const auto part = std::min(static_cast<size_t>(at * static_cast<double>(parts)), parts - 1);
    if (part != part_of_last) curve.emplace_back();
    else if (moment.sum() < curve.back().sum()) return;
    part_of_last = part;
    curve.back() = moment;
    curve.back().at = at;
  });
  return curve;
}

MemorySnapshot MemoryHistory::peak(Device device) const {
  std::vector<LiveMemory> tensors;
  {
    const std::lock_guard lock(state_->mutex);
    const State& s = *state_;
    uint64_t highest = s.last_began;
    size_t largest_sum = 0;
    each_moment(changes_of(s.last, device, s.last_began), [&](uint64_t time, const MemoryMoment& moment) {
      if (moment.sum() > largest_sum) largest_sum = moment.sum(), highest = time;
    });
    for (const Note& note : s.last) {
      if (note.device == device && note.made <= highest && highest < note.freed) tensors.push_back(note.memory);
    }
  }
  MemorySnapshot peak = detail::snapshot_of(device, std::move(tensors));
  peak.stats.allocated = peak.known();
  return peak;
}

std::vector<Device> MemoryHistory::devices() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<Device> out;
  for (const Note& note : state_->last) {
    if (std::ranges::find(out, note.device) == out.end()) out.push_back(note.device);
  }
  return out;
}

int64_t MemoryHistory::steps() const {
  const std::lock_guard lock(state_->mutex);
  return state_->steps;
}

// ---- for a recorder's page ------------------------------------------------------------------------------------------

void detail::keep_total(DeviceMemory::Total total, DeviceMemory& record) {
  constexpr size_t max_totals = 1024;
  auto& totals = record.totals;
  if (totals.size() >= max_totals) {
    size_t kept = 0;
    for (size_t i = 0; i < totals.size(); i += 2) totals[kept++] = totals[i];
    totals.resize(kept);
  }
  totals.push_back(total);
}

void detail::note_memory(std::vector<DeviceMemory>& records, int64_t step, bool closely, int64_t& seen) {
  constexpr size_t moments = 240, lines = 8;
  const auto highest_of = [](const std::vector<MemoryMoment>& curve) {
    size_t highest = 0;
    for (const MemoryMoment& m : curve) highest = std::max(highest, m.sum());
    return highest;
  };
  const std::lock_guard lock(the_one_mutex);
  if (the_one == nullptr || the_one->steps() == std::exchange(seen, the_one->steps()) || seen == 0) return;
  for (const Device device : the_one->devices()) {
    auto record = std::ranges::find(records, device.name(), &DeviceMemory::device);
    if (record == records.end()) record = records.insert(records.end(), DeviceMemory{.device = device.name()});
    std::vector<MemoryMoment> curve = the_one->curve(device, moments);
    const size_t peak = highest_of(curve), shown = highest_of(record->curve);
    keep_total({step, peak, curve.back().sum()}, *record);
    // A curve is long in a log, so slow growth does not replace it in every step.
    if (!closely && !record->curve.empty() && peak <= shown + shown / 16) continue;
    record->step = step;
    record->curve = std::move(curve);
    record->at_peak = lines_of(the_one->peak(device), lines);
  }
  if (records.empty()) return;
  records.front().growth.clear();
  for (const MemoryGrowth& g : the_one->growth()) records.front().growth.push_back(sentence(g));
}

}  // namespace weft
