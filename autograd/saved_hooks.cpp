#include "saved_hooks.hpp"

#include <memory>
#include <optional>

#include <fmt/format.h>

#include "../tensor/layout.hpp"

namespace weft {

namespace detail {

constinit thread_local const SavedHooks* saved_hooks = nullptr;

namespace {

// The packed value behind the placeholder in a Saved: the payload of its storage.
struct Packed {
  Shared<const SavedHooks> hooks;
  std::any value;
  Edge edge;
  Layout layout;
  // Set where `value` is a tensor over the memory that was saved: the version it must still have.
  std::optional<uint32_t> version;
};

// Tensors that nodes of this thread unpacked and that live while they run. Most threads never have one.
struct Unpacked {
  const Node* node;
  const Packed* from;
  Tensor tensor;
  Unpacked* next;
};
constinit thread_local Unpacked* unpacked = nullptr;

template <class Wanted>
void drop_if(const Wanted& wanted) {
  Unpacked* dead = nullptr;  // they die at the end: with a tensor may die others that were packed
  for (Unpacked** at = &unpacked; *at != nullptr;) {
    Unpacked* u = *at;
    if (!wanted(*u)) {
      at = &u->next;
      continue;
    }
    *at = u->next;
    u->next = std::exchange(dead, u);
  }
  while (dead != nullptr) delete std::exchange(dead, dead->next);
}

void destroy_packed(void*, void* context) {
  auto* packed = static_cast<Packed*>(context);
  drop_if([&](const Unpacked& u) { return u.from == packed; });
  delete packed;
}

// No storage gets here: it would take a write for each number before.
constexpr uint32_t no_version = ~uint32_t{0};

Tensor stand_in(std::unique_ptr<Packed> packed) {
  Tensor t = Tensor::adopt(new_tensor(Dims(0), DType::f32, {}));
  Storage& storage = *t.impl()->storage;
  storage.deleter = destroy_packed;
  storage.deleter_context = packed.release();
  return t;
}

Packed* packed_of(const Tensor& stand_in) {
  const Storage& storage = *stand_in.impl()->storage;
  return storage.deleter == destroy_packed ? static_cast<Packed*>(storage.deleter_context) : nullptr;
}

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.shares_storage(b) && a.data_ptr() == b.data_ptr() && same_sizes(a.raw_view().layout, b.raw_view().layout);
}

std::string text_of(const Layout& layout) {
  return fmt::format("{} {} on {}", name(layout.dtype), Dims(sizes_of(layout)).text(),
                     Device(layout.device_type, layout.device_index).name());
}

template <class E>
[[noreturn]] void raise_unpacked(const Node& node, const Layout& wanted, const Layout& got) {
  raise<E>({.op = node.op,
            .problem = "an unpack hook returned another tensor than was saved",
            .details = fmt::format("saved {}, unpacked {}", text_of(wanted), text_of(got)),
            .remedy = "return the same shape, dtype and device",
            .event = "saved"},
           node.where);
}

void check_unpacked(const Node& node, const Layout& wanted, const Tensor& got) {
  if (!got.defined()) {
    raise<ValueError>({.op = node.op, .problem = "an unpack hook returned an undefined tensor", .event = "saved"},
                      node.where);
  }
  const Layout& layout = got.raw_view().layout;
  if (!same_sizes(wanted, layout)) raise_unpacked<ShapeError>(node, wanted, layout);
  if (wanted.dtype != layout.dtype) raise_unpacked<DTypeError>(node, wanted, layout);
  if (wanted.device_type != layout.device_type || wanted.device_index != layout.device_index) {
    raise_unpacked<DeviceError>(node, wanted, layout);
  }
}

// The tensor with the place in the graph that the saved one had.
Tensor tied(const Packed& packed, Tensor&& tensor) {
  Tensor t = tensor.impl()->node != nullptr || packed.edge.node() != nullptr
                 ? Tensor::adopt(new_alias(tensor.impl(), tensor.raw_view().layout, tensor.data_ptr()))
                 : std::move(tensor);
  if (Node* node = packed.edge.node()) {
    node->refs.increment();
    set_history(t.impl(), node, packed.edge.output());
  }
  return t;
}

}  // namespace

void drop_unpacked(const Node& node) {
  if (WEFT_LIKELY(unpacked == nullptr)) return;
  drop_if([&](const Unpacked& u) { return u.node == &node; });
}

}  // namespace detail

using detail::Packed;

void SavedTensorHooks::install(Shared<const detail::SavedHooks> hooks) {
  hooks_ = std::move(hooks);
  outer_ = std::exchange(detail::saved_hooks, hooks_.get());
}

SavedTensorHooks::~SavedTensorHooks() { detail::saved_hooks = outer_; }

void Saved::pack() {
  const detail::SavedHooks& hooks = *detail::saved_hooks;
  if (hooks.only.defined() && !detail::same_elements(hooks.only, tensor_)) return;
  if (tensor_.impl()->wrapped_number) return;
  auto packed = std::make_unique<Packed>();
  packed->hooks = hooks.self.lock();
  packed->layout = tensor_.raw_view().layout;
  packed->edge = gradient_edge(tensor_.impl());
  {
    const NoGradGuard unrecorded;
    const detail::WithoutSavedHooks plain;
    const OutsideCalls users_code;
    packed->value = hooks.pack(tensor_);
  }
  if (tensor_.version() != version_) {
    raise<AutogradError>({.op = "SavedTensorHooks",
                          .problem = "a pack hook wrote to its tensor in place",
                          .details = detail::text_of(packed->layout),
                          .remedy = "clone() it in the hook"},
                         tensor_.impl()->storage->last_write);
  }
  if (!packed->value.has_value()) return;
  const auto* kept = std::any_cast<Tensor>(&packed->value);
  if (kept != nullptr && kept->defined() && kept->shares_storage(tensor_)) packed->version = version_;
  tensor_ = detail::stand_in(std::move(packed));
  version_ = detail::no_version;
}

const Tensor& Saved::unpack_or_raise(const Node& node) const {
  using detail::unpacked;
  const Packed* packed = detail::packed_of(tensor_);
  if (packed == nullptr) raise_modified(node, tensor_, version_);
  for (const detail::Unpacked* u = unpacked; u != nullptr; u = u->next) {
    if (u->from == packed && u->node == &node) return u->tensor;
  }
  if (packed->version.has_value()) {
    const auto& kept = *std::any_cast<Tensor>(&packed->value);
    if (kept.version() != *packed->version) raise_modified(node, kept, *packed->version);
  }
  Tensor tensor;
  {
    const NoGradGuard unrecorded;
    const detail::WithoutSavedHooks plain;
    const OutsideCalls users_code;
    tensor = packed->hooks->unpack(packed->value);
  }
  detail::check_unpacked(node, packed->layout, tensor);
  unpacked = new detail::Unpacked{&node, packed, detail::tied(*packed, std::move(tensor)), unpacked};
  return unpacked->tensor;
}

}  // namespace weft
