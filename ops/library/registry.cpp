#include "registry.hpp"

#include <cstring>
#include <mutex>

namespace weft {

namespace detail {

constinit Atomic<uint32_t> op_registry_version{0};

bool Retirable::hold() {
  uint32_t state = state_.load(MemoryOrder::relaxed);
  do {
    if ((state & retired) != 0) return false;
  } while (!state_.compare_exchange_weak(state, state + one, MemoryOrder::acq_rel));
  return true;
}

void Retirable::release() noexcept {
  if (state_.fetch_sub(one, MemoryOrder::acq_rel) == one + retired) drop();
}

void Retirable::retire() noexcept {
  if (state_.fetch_or(retired, MemoryOrder::acq_rel) == 0) drop();
}

bool Retirable::close() {
  uint32_t idle = 0;
  return state_.compare_exchange_strong(idle, retired, MemoryOrder::acq_rel);
}

namespace {

// Nothing in it is ever destroyed: records and names live as long as the process, threads that outlive main included.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<OpSlot>, std::less<>> slots;
  std::vector<std::unique_ptr<RegisteredOp>> ops;
};
Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

const OpRecord* own_record(std::string_view name) {
  for (const OpRecord& record : op_records()) {
    if (record.name == name) return &record;
  }
  return nullptr;
}

OpSlot* slot_of(Registry& r, std::string_view name, bool make) {
  if (const auto found = r.slots.find(name); found != r.slots.end()) return found->second.get();
  const OpRecord* const own = own_record(name);
  if (own == nullptr && !make) return nullptr;
  std::unique_ptr<OpSlot> slot(new OpSlot{.name = std::string(name), .own = own});
  return r.slots.emplace(std::string(name), std::move(slot)).first->second.get();
}

const OpRecord* present(const OpSlot& slot) {
  const RegisteredOp* const op = slot.current.load(MemoryOrder::acquire);
  return op != nullptr ? &op->record : slot.own;
}

void changed() { op_registry_version.fetch_add(1, MemoryOrder::acq_rel); }

// Whether calls of `old` are valid calls of `now`.
std::string call_difference(const Signature& old, const Signature& now) {
  const std::vector<Argument>&before = old.arguments, &after = now.arguments;
  for (size_t i = 0; i < before.size(); ++i) {
    if (i == after.size()) return fmt::format("it does not take argument '{}'", before[i].name);
    if (!after[i].answers_to(before[i].name))
      return fmt::format("argument '{}' is not '{}'", after[i].name, before[i].name);
    if (after[i].type.kind != before[i].type.kind && after[i].type.kind != ArgumentType::Kind::any) {
      return fmt::format("argument '{}' is {}, and was {}", after[i].name, kind_text(after[i].type),
                         kind_text(before[i].type));
    }
    if (after[i].required && !before[i].required) return fmt::format("argument '{}' must be given", after[i].name);
    if (after[i].keyword_only && !before[i].keyword_only)
      return fmt::format("argument '{}' must be given by its name", after[i].name);
  }
  for (size_t i = before.size(); i < after.size(); ++i) {
    if (after[i].required) return fmt::format("argument '{}' must be given", after[i].name);
  }
  if (old.results.size() != now.results.size()) {
    return fmt::format("it has {} named results, and had {}", now.results.size(), old.results.size());
  }
  return {};
}

// The cells of a kernel's device and dtypes, from the kernels that are there.
void set_cells(RegisteredOp& op, const RegisteredKernel& about) {
  for (int t = 0; t < dtype_count; ++t) {
    if (!about.dtypes.contains(static_cast<DType>(t))) continue;
    RegisteredKernel* newest = nullptr;
    for (RegisteredKernel* kernel : op.kernel_list) {
      if (kernel->device == about.device && kernel->dtypes.contains(static_cast<DType>(t))) newest = kernel;
    }
    op.kernels[static_cast<int>(about.device)][t].store(newest, MemoryOrder::release);
  }
}

// Out of the stack of its name.
void unlink(RegisteredOp& op) noexcept {
  RegisteredOp* const top = op.slot->current.load(MemoryOrder::acquire);
  if (top == &op) {
    op.slot->current.store(op.below, MemoryOrder::release);
  } else {
    for (RegisteredOp* above = top; above != nullptr; above = above->below) {
      if (above->below == &op) above->below = op.below;
    }
  }
  changed();
}
void unlink(RegisteredKernel& kernel) noexcept {
  std::erase(kernel.op->kernel_list, &kernel);
  set_cells(*kernel.op, kernel);
}

}  // namespace

void RegisteredOp::drop() noexcept {
  composite = infer_meta = {};
  backward = nullptr;
  samples = nullptr;
  record.partition = nullptr;
  inherited = {};
  std::vector<RegisteredKernel*> list;
  {
    const std::lock_guard lock(registry().mutex);
    list = std::exchange(kernel_list, {});
    for (const RegisteredKernel* kernel : list) set_cells(*this, *kernel);
  }
  for (RegisteredKernel* kernel : list) kernel->retire();
}

OpSlot* find_slot(std::string_view name) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  return slot_of(r, name, false);
}

bool add_op(std::unique_ptr<RegisteredOp>& owned, OpPolicy policy, bool allow_schema_change, std::string& replaced) {
  RegisteredOp& op = *owned;
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  OpSlot& slot = *slot_of(r, op.name, true);
  RegisteredOp* const top = slot.current.load(MemoryOrder::acquire);
  const OpRecord* const old = present(slot);
  if (old != nullptr) {
    const std::string origin_text = top != nullptr ? "registered at " + top->origin : "one of the library's own";
    if (policy == OpPolicy::keep) return false;
    if (policy == OpPolicy::error) {
      raise<ValueError>({.op = op.name.c_str(),
                         .problem = "there is an op of this name already",
                         .details = fmt::format("{}; the new one is registered at {}", origin_text, op.origin),
                         .remedy = "put it into a namespace of its own, or register it with OpPolicy::override"},
                        Location::none());
    }
    const std::string difference =
        allow_schema_change ? std::string() : call_difference(old->signature(), *op.signature);
    if (!difference.empty()) {
      raise<ValueError>({.op = op.name.c_str(),
                         .problem = "the override is not called as the op that it replaces: " + difference,
                         .details = fmt::format("{} in place of {}", op.signature->text, old->signature().text),
                         .remedy = "change the schema, or allow_schema_change()"},
                        Location::none());
    }
    replaced = origin_text;
  }
  r.ops.push_back(std::move(owned));
  op.slot = &slot;
  op.below = top;
  slot.current.store(&op, MemoryOrder::release);
  changed();
  return true;
}

void swap_op(RegisteredOp& old, std::unique_ptr<RegisteredOp>& owned) {
  RegisteredOp& op = *owned;
  {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    r.ops.push_back(std::move(owned));
    op.slot = old.slot;
    op.below = old.below;
    old.below = &op;  // so that taking `old` out leaves `op` there
    unlink(old);
  }
  old.retire();
}

void remove_op(RegisteredOp& op) noexcept {
  {
    const std::lock_guard lock(registry().mutex);
    unlink(op);
  }
  op.retire();
}

RegisteredKernel* add_kernel(std::unique_ptr<RegisteredKernel> owned, OpPolicy policy) {
  const std::lock_guard lock(registry().mutex);
  RegisteredKernel& kernel = *owned;
  RegisteredOp& op = *kernel.op;
  for (int t = 0; t < dtype_count; ++t) {
    if (!kernel.dtypes.contains(static_cast<DType>(t))) continue;
    const RegisteredKernel* const old = op.kernels[static_cast<int>(kernel.device)][t].load(MemoryOrder::acquire);
    if (old == nullptr || policy == OpPolicy::override) continue;
    if (policy == OpPolicy::keep) return nullptr;
    raise<ValueError>({.op = op.name.c_str(),
                       .problem = fmt::format("there is a kernel for {} on {} already", name(static_cast<DType>(t)),
                                              Device(kernel.device).name()),
                       .details = fmt::format("registered at {}; the new one at {}", old->origin, kernel.origin),
                       .remedy = "register it with OpPolicy::override"},
                      Location::none());
  }
  op.all_kernels.push_back(std::move(owned));
  op.kernel_list.push_back(&kernel);
  set_cells(op, kernel);
  return &kernel;
}

void remove_kernel(RegisteredKernel& kernel) noexcept {
  {
    const std::lock_guard lock(registry().mutex);
    unlink(kernel);
  }
  kernel.retire();
}

bool remove_idle(std::span<RegisteredOp* const> ops, std::span<RegisteredKernel* const> kernels) {
  std::vector<Retirable*> closed;
  const auto close = [&](auto* entry) {
    if (entry->close()) closed.push_back(entry);
    else if (!entry->gone()) return false;
    return true;
  };
  closed.reserve(ops.size() + kernels.size());
  {
    const std::lock_guard lock(registry().mutex);
    if (!std::ranges::all_of(ops, close) || !std::ranges::all_of(kernels, close)) {
      for (Retirable* entry : closed) entry->reopen();
      return false;
    }
    for (RegisteredOp* op : ops) unlink(*op);
    for (RegisteredKernel* kernel : kernels) unlink(*kernel);
  }
  for (Retirable* entry : closed) entry->finish();
  return true;
}

std::string kernels_of(const RegisteredOp& op) {
  std::string text;
  for (int d = 0; d < device_type_count; ++d) {
    std::string dtypes;
    for (int t = 0; t < dtype_count; ++t) {
      if (op.kernels[d][t].load(MemoryOrder::acquire) == nullptr) continue;
      dtypes += fmt::format("{}{}", dtypes.empty() ? "" : ", ", name(static_cast<DType>(t)));
    }
    if (dtypes.empty()) continue;
    text += fmt::format("{}{} on {}", text.empty() ? "" : "; ", dtypes, Device(static_cast<DeviceType>(d)).name());
  }
  return text.empty() ? "none" : text;
}

}  // namespace detail

const OpRecord* find_record(const char* name) {
  if (WEFT_LIKELY(detail::op_registry_version.load(MemoryOrder::acquire) == 0)) return detail::own_record(name);
  const detail::OpSlot* const slot = detail::find_slot(name);
  return slot != nullptr ? detail::present(*slot) : nullptr;
}

std::vector<const OpRecord*> all_ops() {
  std::vector<const OpRecord*> all;
  detail::Registry& r = detail::registry();
  const std::lock_guard lock(r.mutex);
  for (const OpRecord& own : op_records()) all.push_back(detail::present(*detail::slot_of(r, own.name, true)));
  for (const auto& [name, slot] : r.slots) {
    if (slot->own == nullptr && detail::present(*slot) != nullptr) all.push_back(detail::present(*slot));
  }
  return all;
}

bool Registration::active() const { return op_ != nullptr; }
const OpRecord* Registration::record() const { return op_ != nullptr ? &op_->record : nullptr; }
const OpRecord* Registration::previous() const {
  if (op_ == nullptr) return nullptr;
  const std::lock_guard lock(detail::registry().mutex);
  return op_->below != nullptr ? &op_->below->record : op_->slot->own;
}
void Registration::unregister() noexcept {
  if (detail::RegisteredOp* op = std::exchange(op_, nullptr); op != nullptr) remove_op(*op);
}
void KernelRegistration::unregister() noexcept {
  if (detail::RegisteredKernel* kernel = std::exchange(kernel_, nullptr); kernel != nullptr) remove_kernel(*kernel);
}

}  // namespace weft
