#include "../detail/step_memory.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace weft::detail {

namespace {

// New CPU memory is filled with this byte, so that writes by the host can be detected.
constexpr unsigned char untouched = 0xA7;

// Four sizes per power of two, as in the CPU's allocator, so that blocks are reused while they are in the cache.
size_t rounded(size_t bytes) {
  const size_t granule = std::max(size_t{64}, std::bit_floor(bytes - 1) / 4);
  return (bytes + granule - 1) / granule * granule;
}

}  // namespace

void* StepMemory::allocate(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const size_t size = rounded(bytes);
  Stock& stock = stocks_[size];
  void* data = nullptr;
  if (!stock.unused.empty()) {
    data = stock.unused.back();
    stock.unused.pop_back();
  } else {
    data = below_.allocate(size);
    if (data == nullptr) return nullptr;
    try {
      stock.unused.reserve(stock.blocks + 1);  // so that returning a block cannot fail
      blocks_[static_cast<const char*>(data)] = {size};
    } catch (...) {
      below_.free(data, size);
      throw;
    }
    ++stock.blocks;
    bytes_ += size;
  }
  if (device_.is_cpu()) std::memset(data, untouched, size);
  Block& block = blocks_[static_cast<const char*>(data)];
  block.number = numbers_++;
  block.used = bytes;
  block.seen = false;
  ++live_;
  return data;
}

void StepMemory::free(void* data, size_t bytes) {
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) below_.free(data, rounded(bytes));
    else stocks_.find(rounded(bytes))->second.unused.push_back(data);
    last = --live_ == 0 && closed_;
  }
  if (last) delete this;
}

void StepMemory::close() {
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (auto& [size, stock] : stocks_) {
      for (void* data : stock.unused) below_.free(data, size);
      stock.unused.clear();
    }
    last = live_ == 0;
  }
  if (last) delete this;
}

StepMemory::Blocks::const_iterator StepMemory::around(const void* address) const {
  const auto* const at = static_cast<const char*>(address);
  auto found = blocks_.upper_bound(at);
  if (found == blocks_.begin()) return blocks_.end();
  --found;
  return at < found->first + found->second.size ? found : blocks_.end();
}

std::optional<StepMemory::Place> StepMemory::find(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto found = around(address);
  if (found == blocks_.end()) return {};
  return Place{found->second.number, static_cast<const char*>(address) - found->first};
}

std::optional<StepMemory::Constant> StepMemory::written_by_host(const void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = around(address);
  if (found == blocks_.end() || found->second.seen) return {};
  const char* const data = found->first;
  Block& block = blocks_[data];
  block.seen = true;
  if (!device_.is_cpu()) return {};
  const auto is_untouched = [](char c) { return static_cast<unsigned char>(c) == untouched; };
  if (std::all_of(data, data + block.used, is_untouched)) return {};
  return Constant{const_cast<char*>(data), {data, data + block.used}};
}

}  // namespace weft::detail
