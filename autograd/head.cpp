#include "head.hpp"

#include <fmt/format.h>

#include "accumulation.hpp"
#include "hooks.hpp"
#include "../tensor/capture_recorder.hpp"
#include "../tensor/layout.hpp"

namespace weft {

namespace detail {

namespace {

std::string text_of(const Layout& layout) {
  return fmt::format("{} {} on {}", name(layout.dtype), Dims(sizes_of(layout)).text(),
                     Device(layout.device_type, layout.device_index).name());
}

bool same_type(const Layout& a, const Layout& b) {
  return a.dtype == b.dtype && a.device_type == b.device_type && a.device_index == b.device_index;
}

// The stored gradient of a leaf or of a retained result.
Tensor stored_gradient(const Tensor& t) {
  const TensorImpl& impl = *t.impl();
  if (impl.accumulates) return t.grad();
  NodeHooks* const hooks = impl.node != nullptr ? impl.node->hooks.load(MemoryOrder::acquire) : nullptr;
  if (hooks == nullptr) return {};
  WordLock lock(hooks->word);
  const auto* const kept = retained_slot(*hooks, impl.output_number);
  return kept != nullptr ? kept->gradient : Tensor();
}

// The gradient that a tensor of this layout keeps: none of another shape.
Tensor fitted(const Tensor& gradient, const Layout& layout) {
  if (!gradient.defined() || !same_sizes(gradient.raw_view().layout, layout)) return {};
  if (same_type(gradient.raw_view().layout, layout)) return gradient;
  const NoGradGuard unrecorded;
  return gradient.to(Device(layout.device_type, layout.device_index), layout.dtype);
}

void check_data(const Tensor& target, const Tensor& source) {
  TensorImpl* const impl = target.impl();
  const Layout &now = impl->view.layout, &wanted = source.raw_view().layout;
  if (!needs_gradient(impl)) return;
  if (!is_inexact(wanted.dtype) || is_storage_only(wanted.dtype)) {
    raise<DTypeError>({.problem = fmt::format("a tensor that requires a gradient cannot hold {}", name(wanted.dtype)),
                       .remedy = "expected float16, bfloat16, float32, float64 or complex numbers"});
  }
  if (impl->accumulates || (same_sizes(now, wanted) && same_type(now, wanted))) return;
  raise<AutogradError>({.problem = "the result of a recorded op cannot get data of another shape, dtype or device",
                        .details = fmt::format("expected {}, got {}", text_of(now), text_of(wanted)),
                        .remedy = "use detach(), or assign to a leaf"});
}

void forget_recordings(const Storage& storage, const char* why) {
  refuse_recording(why);
  if (HeldMemory* held = held_memory.load(MemoryOrder::acquire); WEFT_UNLIKELY(held != nullptr)) {
    held->reshaped(storage);
  }
}

}  // namespace

void adopt_view(const Tensor& target, const Tensor& view) {
  TensorImpl *const impl = target.impl(), *const from = view.impl();
  if (from == impl) return;
  const Tensor before = stored_gradient(target), after = fitted(before, from->view.layout);
  Node* const old = impl->node;
  if (from->node != nullptr && old != nullptr && old->hooks.load(MemoryOrder::acquire) != nullptr) {
    make_room_for_retained_gradient(*old, *from->node);
  }
  forget_recordings(*impl->storage, "a tensor changes its shape in place");
  impl->view = from->view;
  impl->storage->note_write(current_call.entry, current_call.where);
  if (from->node != nullptr) {
    from->requires_grad = false;
    replace_producer(impl, std::exchange(from->node, nullptr));
  }
  if (before.impl() != after.impl()) target.set_grad(after);
}

void adopt_memory(const Tensor& target, const Tensor& source) {
  TensorImpl* const impl = target.impl();
  check_data(target, source);
  if (source.impl() == impl) return;
  const Tensor before = stored_gradient(target), after = fitted(before, source.raw_view().layout);
  forget_recordings(*impl->storage, "a tensor gets other memory");
  const uint32_t version = target.version();
  put_memory(impl, source.impl());
  impl->storage->version.store(version, MemoryOrder::relaxed);
  impl->storage->note_write(current_call.entry, current_call.where);
  if (before.impl() != after.impl()) target.set_grad(after);
}

}  // namespace detail

void Tensor::set_data(const Tensor& source, Location where) const {
  held("set_data", where);
  const CallScope call("set_data", where);
  if (!source.defined()) detail::raise_undefined();
  detail::adopt_memory(*this, source);
}

const Tensor& Tensor::detach_(Location where) const {
  TensorImpl* const impl = held("detach_", where);
  const CallScope call("detach_", where);
  if (impl->accumulates) return requires_grad_(false, where);
  if (impl->base != nullptr) {
    raise<AutogradError>(
        {.problem = "a view cannot be detached in place, because its base has the history", .remedy = "use detach()"});
  }
  if (impl->node == nullptr) return *this;
  detail::release_node(impl);
  impl->node = nullptr;
  impl->output_number = 0;
  impl->requires_grad = false;
  return *this;
}

}  // namespace weft
