#include <weft/tensor/tensor.hpp>

#include <cstring>
#include <new>

#include <fmt/format.h>

#include <weft/tensor/allocator.hpp>
#include <weft/tensor/free_list.hpp>
#include <weft/tensor/layout.hpp>
#include <weft/tensor/live.hpp>

namespace weft {

namespace detail {

namespace {

constexpr size_t head_size = sizeof(TensorImpl);
constexpr size_t block_size = sizeof(TensorBlock);

[[noreturn, gnu::cold]] void out_of_memory(Device device, size_t bytes, Location where) {
  const MemoryStats stats = memory_stats(device);
  const ErrorText text{
      .op = "allocate",
      .problem = fmt::format("no {} bytes on {}", bytes, device.name()),
      .details = fmt::format("{} allocated, {} reserved, limit {}", stats.allocated, stats.reserved, stats.limit),
      .remedy = "free tensors, use smaller batches or raise set_memory_limit"};
  throw OutOfMemoryError(format_error(text, where), bytes, stats.allocated, stats.reserved, stats.limit);
}

[[gnu::noinline]] void allocate_data(Storage& storage, size_t bytes, Location where) {
  if (storage.device.type == DeviceType::meta) return;
  Allocator* allocator = storage.device.is_cpu() ? &cpu_allocator() : find_allocator(storage.device);
  if (allocator == nullptr) {
    raise<DeviceError>({.op = "allocate",
                        .problem = fmt::format("there is no device {}", storage.device.name()),
                        .remedy = "see weft::device_count"},
                       where);
  }
  storage.data = allocator->allocate(bytes);
  if (storage.data == nullptr) out_of_memory(storage.device, bytes, where);
  storage.allocator = allocator;
}

struct HeadGuard {
  TensorBlock* block;
  ~HeadGuard() {
    if (block == nullptr) return;
    free_block(block, block_size);
    count_live(-1);
  }
};

[[gnu::noinline]] void release_storage(Storage* storage) {
  if (storage->allocator != nullptr) storage->allocator->free(storage->data, storage->bytes);
  else if (storage->deleter != nullptr) storage->deleter(storage->data, storage->deleter_context);
}

inline TensorBlock* block_of(Storage* storage) {
  return reinterpret_cast<TensorBlock*>(reinterpret_cast<char*>(storage) - offsetof(TensorBlock, storage));
}

inline void drop_storage(Storage* storage) {
  if (!storage->refs.decrement()) return;
  if (storage->allocator != nullptr || storage->deleter != nullptr) release_storage(storage);
  free_block(block_of(storage), block_size);
}

}  // namespace

TensorImpl* new_tensor(const Layout& layout, Device device, Location where) {
  const size_t bytes = static_cast<size_t>(layout.numel) * static_cast<size_t>(itemsize(layout.dtype));
  void* memory = allocate_block(block_size);
  count_live(1);
  auto* impl = new (memory) TensorImpl;
  auto* block = static_cast<TensorBlock*>(memory);
  Storage* storage = new (&block->storage) Storage;
  storage->device = device;
  storage->bytes = bytes;
  if (WEFT_LIKELY(bytes <= inline_bytes && device.is_cpu())) {
    storage->data = block->inline_data;
  } else if (bytes != 0) {
    HeadGuard guard{block};
    allocate_data(*storage, bytes, where);
    guard.block = nullptr;
  }
  impl->view.layout = layout;
  impl->view.layout.device_type = device.type;
  impl->view.layout.device_index = device.index;
  impl->view.data = storage->data;
  impl->storage = storage;
  impl->owns_block = true;
  return impl;
}

TensorImpl* new_alias(const TensorImpl* source, const Layout& layout, void* data) {
  auto* impl = new (allocate_block(head_size)) TensorImpl;
  impl->view.layout = layout;
  impl->view.data = data;
  impl->storage = source->storage;
  impl->inference = source->inference;
  impl->storage->refs.increment();
  count_live(1);
  return impl;
}

void destroy(TensorImpl* impl) {
  if (impl->node != nullptr) release_node(impl);
  if (impl->base != nullptr) release(impl->base);
  Storage* storage = impl->storage;
  if (!impl->owns_block) free_block(impl, head_size);
  drop_storage(storage);
  count_live(-1);
}

}  // namespace detail

int64_t Tensor::size(int dim, Location where) const {
  if (this->dim() == 0) wrap_dim(1, 0, "size", where);
  return layout().sizes[wrap_dim(dim, this->dim(), "size", where)];
}

int64_t Tensor::stride(int dim, Location where) const {
  return layout().strides[wrap_dim(dim, this->dim(), "stride", where)] / itemsize();
}

Dims Tensor::strides() const {
  Dims out;
  for (int i = 0; i < dim(); ++i) out.push_back(layout().strides[i] / itemsize());
  return out;
}

int64_t Tensor::storage_offset() const {
  return (static_cast<char*>(impl_->view.data) - static_cast<char*>(impl_->storage->data)) / itemsize();
}

void Tensor::check_element_type(DType wanted, Location where) const {
  if (wanted == dtype()) return;
  raise<DTypeError>({.op = "data",
                     .problem = fmt::format("elements are {}, not {}", name(dtype()), name(wanted)),
                     .remedy = "convert with to(dtype) or ask for the element type"},
                    where);
}

}  // namespace weft
