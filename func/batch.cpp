// vmap batches kernels instead of ops, because free functions have no place for a batched tensor type without a cost
// for every call. The function runs on one example, and a recorder receives each kernel call before it runs. A view
// whose address differs between examples gets one more dimension, or the kernel runs once per example. Ops that need
// values fall back to a loop.
#include "batch.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "../ops/axes.hpp"
#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"

namespace weft::func::detail {

using weft::detail::UnrecordedScope;

// ---- memory ---------------------------------------------------------------------------------------------------------

namespace {

/// Fill pattern of new memory: a program is unlikely to write it.
constexpr uint64_t fresh = 0x9E3779B97F4A7C15;
constexpr size_t fewest_words = 4;

}  // namespace

bool ExampleMemory::was_written(const Block& block, const char* data) {
  const size_t words = block.size / sizeof(fresh);
  if (block.touched || words < fewest_words) return true;
  for (size_t i = 0; i < words; ++i) {
    if (std::memcmp(data + i * sizeof(fresh), &fresh, sizeof(fresh)) != 0) return true;
  }
  return false;
}

void* ExampleMemory::allocate(size_t bytes) {
  void* const data = below_.allocate(bytes);
  if (data == nullptr) return nullptr;
  std::fill_n(static_cast<uint64_t*>(data), bytes / sizeof(fresh), fresh);
  try {
    const std::lock_guard lock(mutex_);
    blocks_[static_cast<const char*>(data)] = {bytes};
  } catch (...) {
    below_.free(data, bytes);
    throw;
  }
  return data;
}

void ExampleMemory::free(void* data, size_t bytes) {
  Tensor all;
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(static_cast<const char*>(data));
    all = std::move(found->second.all);  // destroyed after the lock is released
    blocks_.erase(found);
    last = closed_ && blocks_.empty();
  }
  below_.free(data, bytes);
  if (last) delete this;
}

ExampleMemory::Place ExampleMemory::find(const void* address) {
  const std::lock_guard lock(mutex_);
  const auto* const at = static_cast<const char*>(address);
  auto found = blocks_.upper_bound(at);
  if (found == blocks_.begin()) return {};
  --found;
  if (at >= found->first + found->second.size) return {};
  return {&found->second, at - found->first};
}

std::vector<std::pair<char*, Tensor>> ExampleMemory::spread_blocks() {
  std::vector<std::pair<char*, Tensor>> list;
  const std::lock_guard lock(mutex_);
  for (const auto& [data, block] : blocks_) {
    if (block.all.defined()) list.emplace_back(const_cast<char*>(data), block.all);
  }
  return list;
}

void ExampleMemory::close() {
  std::vector<Tensor> dropped;
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    dropped.reserve(blocks_.size());
    for (auto& [data, block] : blocks_) dropped.push_back(std::move(block.all));
    closed_ = true;
    last = blocks_.empty();
  }
  if (last) delete this;
}

// ---- the function's kernels -----------------------------------------------------------------------------------------

Batch::Batch(int64_t count, bool draws_alike)
    : count_(count), draws_alike_(draws_alike), memory_(new ExampleMemory(*find_allocator(Device()))), scope_(*this) {}
Batch::~Batch() { memory_->close(); }

weft::Allocator& Batch::memory(Device device, weft::Allocator& below) {
  if (device.is_cpu()) return *memory_;
  refused_ = true;
  return below;
}

void Batch::repeat(const char* what, const void*, Callback<void()> act) {
  const UnrecordedScope unrecorded;
  if (what != weft::detail::check_of_elements) refused_ = true;
  if (refused_) act();
  else check_each(act);
}

void Batch::drew(Generator&, GeneratorState) { refused_ |= !draws_alike_; }
void Batch::moved(Generator&, GeneratorState from, GeneratorState to) {
  const bool follows = to.seed == from.seed && to.subsequence == from.subsequence && to.offset >= from.offset;
  refused_ |= !draws_alike_ || !follows;
}

namespace {

const char* low_end(const View& view) {
  return static_cast<const char*>(view.data) + (view.layout.numel == 0 ? 0 : byte_span(view.layout).low);
}
bool is_whole(const View& view, size_t bytes) {
  return view.layout.contiguous != 0 && static_cast<size_t>(view.layout.numel * itemsize(view.layout.dtype)) == bytes;
}
char* data_of(const Tensor& t) { return static_cast<char*>(t.raw_view().data); }

}  // namespace

void Batch::check_each(const Callback<void()>& check) {
  const auto blocks = memory_->spread_blocks();
  const auto put = [&](int64_t n) {
    for (const auto& [data, all] : blocks) {
      const size_t size = static_cast<size_t>(all.nbytes()) / static_cast<size_t>(count_);
      std::memcpy(data, data_of(all) + static_cast<size_t>(n) * size, size);
    }
  };
  struct Back {
    decltype(put)& put_example;
    ~Back() { put_example(0); }
  } back{put};
  for (int64_t n = 0; n < (blocks.empty() ? 1 : count_); ++n) {
    put(n);
    check();
  }
}

void Batch::spread(ExampleMemory::Block& block, const char* data) {
  block.all = empty({count_, static_cast<int64_t>(block.size)}, {.dtype = DType::u8});
  if (!ExampleMemory::was_written(block, data)) return;
  for (int64_t n = 0; n < count_; ++n)
    std::memcpy(data_of(block.all) + n * static_cast<int64_t>(block.size), data, block.size);
}

void Batch::record(std::unique_ptr<RecordedKernel> call) {
  if (refused_) return;
  const UnrecordedScope unrecorded;
  std::vector<ExampleMemory::Place> places;
  bool differ = false;
  for (size_t i = 0; i < call->views.size(); ++i) {
    const View& view = *call->views[i];
    const char* const low = low_end(view);
    ExampleMemory::Place place = memory_->find(low);
    place.offset += static_cast<const char*>(view.data) - low;
    const bool written = i < call->outputs && view.layout.numel != 0;
    wrote_inputs_ |= written && place.block != nullptr && place.block->is_input;
    refused_ |= wrote_inputs_ || view.layout.device_type != DeviceType::cpu || (written && place.block == nullptr);
    differ |= place.block != nullptr && place.block->all.defined();
    places.push_back(place);
  }
  if (refused_) return;
  if (differ) run(*call, places);
  for (size_t i = 0; i < call->outputs; ++i) {
    if (places[i].block != nullptr) places[i].block->touched = true;
  }
}

void Batch::run(RecordedKernel& call, const std::vector<ExampleMemory::Place>& places) {
  std::vector<int64_t> steps;
  for (size_t i = 0; i < places.size(); ++i) {
    View& view = *call.views[i];
    ExampleMemory::Block* const block = places[i].block;
    if (block == nullptr) {
      steps.push_back(0);
      continue;
    }
    if (i < call.outputs && !block->all.defined())
      spread(*block, static_cast<const char*>(view.data) - places[i].offset);
    steps.push_back(block->all.defined() ? static_cast<int64_t>(block->size) : 0);
    if (block->all.defined()) view.data = data_of(block->all) + places[i].offset;
  }
  if (call.put_examples(count_, steps)) return call.run();
  for (int64_t n = 0; n < count_; ++n) {
    call.run();
    for (size_t i = 0; i < steps.size(); ++i) {
      call.views[i]->data = static_cast<char*>(call.views[i]->data) + steps[i];
    }
  }
}

// ---- inputs and outputs ---------------------------------------------------------------------------------------------

Tensor Batch::example_of(const Tensor& x, int dim) {
  const NoGradGuard unrecorded;
  const Tensor first = x.detach().select(dim, 0), example = empty(first.shape(), {first.dtype(), first.device()});
  example.copy_(first);
  const ExampleMemory::Place place = memory_->find(example.raw_view().data);
  if (place.block == nullptr) return example;  // no elements
  const UnrecordedScope own;
  place.block->all = x.detach().movedim(dim, 0).contiguous();
  place.block->is_input = true;
  return example;
}

Tensor Batch::all_of(const Tensor& example) {
  const NoGradGuard unrecorded;
  const UnrecordedScope own;
  const View& view = example.raw_view();
  const char* const low = low_end(view);
  const auto [block, offset] = memory_->find(low);
  if (block == nullptr || !block->all.defined()) {
    Dims shape = {count_};
    for (const int64_t size : example.sizes()) shape.push_back(size);
    return example.detach().expand(shape).clone();
  }
  const int64_t step = static_cast<int64_t>(block->size);
  View all = view;
  all.data = data_of(block->all) + offset + (static_cast<const char*>(view.data) - low);
  if (!put_first(all.layout, count_, step)) {
    raise<ShapeError>(
        {.problem = fmt::format("an output of shape {} has no room for a dimension more", example.shape().text())});
  }
  const Tensor out = Tensor::adopt(weft::detail::new_alias(block->all.impl(), all.layout, all.data));
  const bool ours = !block->is_input && !std::exchange(block->handed_out, true) && is_whole(view, block->size);
  return ours ? out : out.clone();
}

}  // namespace weft::func::detail
