#include "tensor.hpp"

#include <cstring>
#include <limits>
#include <new>

#include <fmt/format.h>

#include "allocator.hpp"
#include "free_list.hpp"
#include "large_storage.hpp"
#include "layout.hpp"
#include "live.hpp"
#include "capture_recorder.hpp"
#include "expect-inl.hpp"

namespace weft {

namespace detail {

void raise_undefined(const char* op, Location where) {
  raise<ValueError>(
      {.op = op,
       .problem = "the tensor is undefined",
       .remedy = "it was never given a value, was moved from, or is the grad() of a tensor without one: a leaf has one "
                 "after backward, a result after retain_grad()"},
      where);
}
void raise_undefined() { raise_undefined(current_call.entry, current_call.where); }

void raise_no_room(int64_t n, size_t element_size, Location where) {
  const CallScope call("to_vector", where);
  constexpr auto most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const bool fits = static_cast<uint64_t>(n) <= most / element_size;
  raise_out_of_memory({}, fits ? static_cast<size_t>(n) * element_size : most, " to read values into");
}

namespace {

constexpr size_t head_size = sizeof(TensorImpl);
constexpr size_t block_size = sizeof(TensorBlock);

struct HeadGuard {
  TensorBlock* block;
  ~HeadGuard() {
    if (block == nullptr) return;
    free_block(block, block_size);
    count_live(-1);
  }
};

Allocator& allocator_of(Device device) {
  if (device.is_cpu()) return cpu_allocator();
  if (Allocator* allocator = find_allocator(device)) return *allocator;
  raise<DeviceError>({.op = "allocate",
                      .problem = fmt::format("there is no device {}", device.name()),
                      .remedy = "see weft::device_count"});
}

// Allocates the data of a storage that does not fit beside the head. Frees the block on failure.
[[gnu::noinline]] void allocate_data(TensorBlock* block, Allocator* allocator = nullptr) {
  Storage& storage = block->storage;
  if (storage.bytes == 0 || storage.device.type == DeviceType::meta) return;
  HeadGuard guard{block};
  if (allocator == nullptr) {
    allocator = &allocator_of(storage.device);
    if (WEFT_UNLIKELY(capture_recorder != nullptr)) allocator = &capture_recorder->memory(storage.device, *allocator);
  }
  storage.data = allocator->allocate(storage.bytes);
  if (storage.data == nullptr) raise_out_of_memory(storage.device, storage.bytes);
  storage.allocator = allocator;
  if (storage.bytes >= noted_bytes.load(MemoryOrder::relaxed)) note_storage(&storage);
  block->impl.view.data = storage.data;
  guard.block = nullptr;
}

// A head and a storage without memory.
template <class... Arguments>
inline TensorBlock* new_block(const Arguments&... view) {
  auto* block = static_cast<TensorBlock*>(allocate_block(block_size));
  count_live(1);
  new (&block->impl) TensorImpl(&block->storage, view...);
  new (&block->storage) Storage;
  block->impl.owns_block = true;
  return block;
}

inline TensorImpl* with_data(TensorBlock* block) {
  const Layout& layout = block->impl.view.layout;
  Storage& storage = block->storage;
  storage.device = Device(layout.device_type, layout.device_index);
  storage.bytes = static_cast<size_t>(layout.numel) * static_cast<size_t>(itemsize(layout.dtype));
  const bool beside = storage.bytes <= inline_bytes && storage.device.is_cpu();
  if (WEFT_LIKELY(beside && (WEFT_LIKELY(capture_recorder == nullptr) || storage.bytes == 0))) {
    block->impl.view.data = storage.data = block->inline_data;
  } else {
    allocate_data(block);
  }
  return &block->impl;
}

[[gnu::noinline]] void release_storage(Storage* storage) {
  if (storage->allocator != nullptr) {
    if (storage->bytes >= noted_bytes.load(MemoryOrder::relaxed)) forget_storage(storage);
    storage->allocator->free(storage->data, storage->bytes);
  } else if (storage->deleter != nullptr) {
    storage->deleter(storage->data, storage->deleter_context);
  }
}

inline TensorBlock* block_of(Storage* storage) {
  return reinterpret_cast<TensorBlock*>(reinterpret_cast<char*>(storage) - offsetof(TensorBlock, storage));
}

inline void drop_storage(Storage* storage) {
  if (!storage->refs.decrement()) return;
  if (HeldMemory* held = held_memory.load(MemoryOrder::acquire); WEFT_UNLIKELY(held != nullptr)) {
    if (held->take(storage)) return;
  }
  if (storage->allocator != nullptr || storage->deleter != nullptr) release_storage(storage);
  free_block(block_of(storage), block_size);
}

}  // namespace

void free_held(Storage* storage) {
  if (storage->allocator != nullptr || storage->deleter != nullptr) release_storage(storage);
  free_block(block_of(storage), block_size);
}

TensorImpl* new_tensor(const Layout& layout) { return with_data(new_block(layout, nullptr)); }

namespace {

inline TensorBlock* new_contiguous_block(std::span<const int64_t> sizes, DType dtype, Device device) {
  TensorBlock* block = new_block();
  Layout& layout = block->impl.view.layout;
  layout.dtype = dtype;
  layout.device_type = device.type;
  layout.device_index = device.index;
  if (WEFT_UNLIKELY(!set_contiguous(layout, sizes, itemsize(dtype)))) {
    const HeadGuard guard{block};
    contiguous_layout(sizes, dtype);  // raises
  }
  return block;
}

}  // namespace

TensorImpl* new_tensor(std::span<const int64_t> sizes, DType dtype, Device device) {
  return with_data(new_contiguous_block(sizes, dtype, device));
}

TensorImpl* new_tensor(std::span<const int64_t> sizes, DType dtype, Allocator& allocator) {
  TensorBlock* block = new_contiguous_block(sizes, dtype, Device());
  block->storage.bytes = static_cast<size_t>(block->impl.view.layout.numel) * static_cast<size_t>(itemsize(dtype));
  allocate_data(block, &allocator);
  return &block->impl;
}

TensorImpl* new_alias(const TensorImpl* source, const Layout& layout, void* data) {
  auto* impl = new (allocate_block(head_size)) TensorImpl(source->storage, layout, data);
  count_live(1);
  impl->inference = source->inference;
  impl->mobility = Mobility::loose;
  impl->storage->refs.increment();
  return impl;
}

namespace {

template <class... Arguments>
inline TensorImpl* new_view_head(TensorImpl* source, const Arguments&... view) {
  auto* impl = new (allocate_block(head_size)) TensorImpl(source->storage, view...);
  count_live(1);
  if (WEFT_UNLIKELY(source->inference)) {
    impl->inference = true;
    impl->storage->refs.increment();
    return impl;
  }
  impl->base = source->base != nullptr ? source->base : source;
  retain(impl->base);
  if (WEFT_UNLIKELY(impl->base->mobility != Mobility::fixed)) {
    impl->mobility = Mobility::loose;
    impl->storage->refs.increment();
  }
  impl->node_version.store(impl->storage->version.load(MemoryOrder::relaxed), MemoryOrder::relaxed);
  return impl;
}

}  // namespace

TensorImpl* new_view(TensorImpl* source, const Layout& layout, void* data) {
  return new_view_head(source, layout, data);
}

TensorImpl* new_view(TensorImpl* source) {
  TensorImpl* impl = new_view_head(source);
  impl->view.data = source->view.data;
  std::memcpy(static_cast<void*>(&impl->view.layout), &source->view.layout, offsetof(Layout, sizes));
  return impl;
}

namespace {

Storage* first_storage(TensorImpl* impl) { return &reinterpret_cast<TensorBlock*>(impl)->storage; }

bool is_last_reference(TensorImpl* impl) {
  return WEFT_UNLIKELY(impl->accumulates) ? impl->refs.decrement_shared() : impl->refs.decrement();
}

// Ends a head that got other memory than that of its block.
[[gnu::cold, gnu::noinline]] void destroy_moved(TensorImpl* impl) {
  Storage* const first = first_storage(impl);
  drop_storage(impl->storage);
  drop_storage(first);
  count_live(-1);
}

[[gnu::noinline]] void destroy(TensorImpl* impl) {
  if (impl->node != nullptr) release_node(impl);
  Storage* storage = impl->storage;
  TensorImpl* base = impl->base;
  const bool counted = base == nullptr || impl->mobility != Mobility::fixed;
  if (!impl->owns_block) free_block(impl, head_size);
  else if (WEFT_UNLIKELY(impl->mobility != Mobility::fixed)) return destroy_moved(impl);
  if (counted) drop_storage(storage);
  count_live(-1);
  if (base != nullptr && is_last_reference(base)) destroy(base);
}

}  // namespace

void release(TensorImpl* impl) {
  if (is_last_reference(impl)) destroy(impl);
}

namespace {

void loosen(TensorImpl* impl) {
  if (impl->mobility != Mobility::fixed) return;
  if (impl->owns_block) first_storage(impl)->refs.increment();
  impl->mobility = Mobility::loose;
}

// The data of a first storage that only keeps the head's block, where no view can have them.
void free_first_data(TensorImpl* impl) {
  Storage* const first = first_storage(impl);
  if (impl->refs.value() != 1 || first->refs.value() != 1 || first->bytes == 0) return;
  if (held_memory.load(MemoryOrder::acquire) != nullptr) return;
  if (first->allocator != nullptr || first->deleter != nullptr) release_storage(first);
  first->data = nullptr;
  first->bytes = 0;
  first->allocator = nullptr;
  first->deleter = nullptr;
}

void return_borrowed(void*, void* lender) { drop_storage(static_cast<Storage*>(lender)); }

Storage* lender_of(Storage* storage) {
  return storage->deleter == return_borrowed ? static_cast<Storage*>(storage->deleter_context) : storage;
}

Storage* borrow(Storage* storage) {
  auto* block = static_cast<TensorBlock*>(allocate_block(block_size));
  Storage* const borrower = new (&block->storage) Storage;
  Storage* const lender = lender_of(storage);
  lender->refs.increment();
  borrower->device = lender->device;
  borrower->external = true;
  borrower->data = lender->data;
  borrower->bytes = lender->bytes;
  borrower->deleter = return_borrowed;
  borrower->deleter_context = lender;
  return borrower;
}

}  // namespace

const Storage& owning_storage(const Storage& storage) { return *lender_of(const_cast<Storage*>(&storage)); }

void put_memory(TensorImpl* impl, const TensorImpl* source) {
  Storage* const fresh = borrow(source->storage);
  TensorImpl* const base = std::exchange(impl->base, nullptr);
  const bool counted = base == nullptr || impl->mobility != Mobility::fixed;
  loosen(impl);
  Storage* const former = std::exchange(impl->storage, fresh);
  impl->view = source->view;
  if (counted) drop_storage(former);
  if (base != nullptr) release(base);
  if (impl->owns_block) free_first_data(impl);
}

void exchange_memory(TensorImpl* a, TensorImpl* b) {
  loosen(a);
  loosen(b);
  std::swap(a->storage, b->storage);
  std::swap(a->view, b->view);
}

}  // namespace detail

namespace {
// Elsewhere a 0-d tensor counts as one dimension, but it has no size and no stride.
int existing_dim(int dim, int rank, const char* op, Location where) {
  const CallScope call(op, where);
  return wrap_dim(rank == 0 ? 1 : dim, rank);
}
}  // namespace

int64_t Tensor::size(int dim, Location where) const {
  const Layout& l = layout("size", where);
  return l.sizes[existing_dim(dim, l.rank, "size", where)];
}

int64_t Tensor::stride(int dim, Location where) const {
  const Layout& l = layout("stride", where);
  return l.strides[existing_dim(dim, l.rank, "stride", where)] / weft::itemsize(l.dtype);
}

Dims Tensor::strides(Location where) const {
  const Layout& l = layout("strides", where);
  Dims out;
  for (int i = 0; i < l.rank; ++i) out.push_back(l.strides[i] / weft::itemsize(l.dtype));
  return out;
}

int64_t Tensor::storage_offset(Location where) const {
  const auto* data = static_cast<const char*>(data_ptr(where));
  return (data - static_cast<const char*>(impl_->storage->data)) / itemsize();
}

void Tensor::check_element_type(DType wanted, Location where) const {
  detail::refuse_recording("values are read on the host");
  if (wanted == dtype(where)) return;
  raise<DTypeError>({.op = "data",
                     .problem = mismatch_text("elements", wanted, dtype()),
                     .remedy = "convert with to(dtype) or use the element type"},
                    where);
}

}  // namespace weft
