#include "allocator.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <iterator>
#include <utility>

#include "../../tensor/error.hpp"

namespace weft {

namespace {

constexpr size_t granule = 64;
constexpr size_t slab_bytes = size_t{1} << 20;
constexpr size_t carved_limit = slab_bytes / 16;
constexpr size_t few_resting = 32;

/// 64, 128, 192, 256, then 5/4, 6/4, 7/4 and 8/4 of each power of two.
int class_of(size_t bytes) {
  if (bytes <= 4 * granule) return static_cast<int>((bytes - 1) / granule);
  const int power = std::bit_width(bytes - 1) - 1;
  return (power - 7) * 4 + static_cast<int>((bytes - 1) >> (power - 2)) - 4;
}
size_t class_bytes(int c) {
  if (c < 4) return static_cast<size_t>(c + 1) * granule;
  return static_cast<size_t>(c % 4 + 5) << (c / 4 + 5);
}

}  // namespace

DeviceAllocator::Slabs::iterator DeviceAllocator::slab_around(const void* data) {
  auto* const address = static_cast<char*>(const_cast<void*>(data));
  auto next = slabs_.upper_bound(address);
  if (next == slabs_.begin()) return slabs_.end();
  --next;
  return address < next->first + next->second.bytes ? next : slabs_.end();
}

DeviceAllocator::Stock& DeviceAllocator::stock_of(const CommandQueue* home) {
  const size_t number = home == nullptr ? 0 : static_cast<size_t>(home->number());
  if (stocks_.size() <= number) stocks_.resize(number + 1);
  return stocks_[number];
}

bool DeviceAllocator::has(const void* data) {
  const std::lock_guard lock(mutex_);
  return slab_around(data) != slabs_.end();
}

/// The request to the driver: with padding, and a multiple of the alignment. 0 on overflow.
size_t DeviceAllocator::block_bytes(size_t bytes) const {
  const MemoryRules& rules = device_.memory_rules();
  if (bytes > rules.largest || rules.padding > rules.largest - bytes) return 0;
  const size_t rounded = (bytes + rules.padding + rules.alignment - 1) & ~(rules.alignment - 1);
  return rounded <= rules.largest ? rounded : 0;
}

/// A new slab's first block; the others go to the stock. All that needs the host's memory comes before the device's.
void* DeviceAllocator::from_driver(size_t bytes, size_t block_bytes, int size_class, CommandQueue* home) {
  const size_t blocks = bytes / block_bytes, c = static_cast<size_t>(size_class);
  Slabs fresh;
  fresh[nullptr] = {bytes, block_bytes, size_class, blocks, blocks - 1, home};
  Stock& stock = stock_of(home);
  if (stock.size() <= c) stock.resize(c + 1);
  const size_t all = stock[c].all + blocks, room = stock[c].blocks.capacity();
  if (room < all) stock[c].blocks.reserve(std::max(all, 2 * room));

  void* const data = memory_ == Memory::device ? device_.take_memory(bytes) : device_.take_pinned(bytes);
  if (data == nullptr) return nullptr;
  auto slab = fresh.extract(fresh.begin());
  slab.key() = static_cast<char*>(data);
  slabs_.insert(std::move(slab));
  for (size_t i = blocks; i-- > 1;) stock[c].blocks.push_back(static_cast<char*>(data) + i * block_bytes);
  stock[c].all = all;
  reserved_ += bytes;
  ++driver_calls_;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return data;
}

void* DeviceAllocator::reserve(size_t bytes) {
  bytes = block_bytes(bytes);
  if (bytes == 0) return nullptr;
  for (const bool last : {false, true}) {
    {
      const std::lock_guard lock(mutex_);
      if (void* data = from_driver(bytes, bytes, 0, nullptr)) return data;
    }
    if (last || !device_.drain()) break;
    release_all();
  }
  return nullptr;
}

void* DeviceAllocator::take(size_t bytes, CommandQueue* home) {
  // Exact blocks let a strict driver see every access past an end.
  if (device_.has_exact_blocks()) return from_driver(bytes, bytes, 0, home);
  const int c = class_of(bytes);
  Stock& stock = stock_of(home);
  if (stock.size() <= static_cast<size_t>(c)) stock.resize(static_cast<size_t>(c) + 1);
  std::vector<void*>& blocks = stock[static_cast<size_t>(c)].blocks;
  if (blocks.empty() && !resting_.empty()) wake_rested();
  if (blocks.empty()) {
    // Sizes of classes are multiples of the alignment where requests are.
    const size_t largest = device_.memory_rules().largest;
    const size_t size = std::min(class_bytes(c), largest & ~(device_.memory_rules().alignment - 1));
    const size_t slab = std::min(slab_bytes, largest);
    return from_driver(size <= carved_limit ? std::max(slab / size, size_t{1}) * size : size, size, c, home);
  }
  void* const data = blocks.back();
  blocks.pop_back();
  --slab_around(data)->second.free_blocks;
  return data;
}

void* DeviceAllocator::allocate(size_t bytes) {
  device_.require_open();
  const size_t block = block_bytes(bytes);
  if (block == 0) return nullptr;
  CommandQueue* const home = memory_ == Memory::device ? &device_.queue() : nullptr;
  for (const bool last : {false, true}) {
    {
      const std::lock_guard lock(mutex_);
      if (limit_ != 0 && (bytes > limit_ || allocated_ > limit_ - bytes)) return nullptr;
      if (void* data = take(block, home)) {
        ++allocations_;
        allocated_ += bytes;
        peak_allocated_ = std::max(peak_allocated_, allocated_);
        return data;
      }
    }
    if (last || !device_.drain()) break;
    release_all();
  }
  return nullptr;
}

void DeviceAllocator::give_back(Slabs::iterator slab) noexcept {
  if (memory_ == Memory::device) device_.return_memory(slab->first, slab->second.bytes);
  else device_.return_pinned(slab->first, slab->second.bytes);
  reserved_ -= slab->second.bytes;
  ++driver_calls_;
  stock_of(slab->second.home)[static_cast<size_t>(slab->second.size_class)].all -= slab->second.blocks;
  slabs_.erase(slab);
}

void DeviceAllocator::note_use(const void* data, CommandQueue& queue) {
  if (device_.closed()) return;
  const std::lock_guard lock(mutex_);
  const auto found = slab_around(data);
  if (found == slabs_.end() || found->second.home == &queue) return;
  const size_t number = static_cast<size_t>(static_cast<const char*>(data) - found->first) / found->second.block_bytes;
  std::vector<CommandQueue*>& users = users_[found->first + number * found->second.block_bytes];
  if (std::find(users.begin(), users.end(), &queue) == users.end()) users.push_back(&queue);
  const size_t most = resting_.size() + users_.size();  // so that each can rest when it is freed
  if (resting_.capacity() < most) resting_.reserve(2 * most);
}

DeviceAllocator::Allocation DeviceAllocator::allocation_around(const void* data) {
  const std::lock_guard lock(mutex_);
  const auto found = slab_around(data);
  return found == slabs_.end() ? Allocation() : Allocation{found->first, found->second.bytes};
}

void DeviceAllocator::put_back(void* data) {
  const auto slab = slab_around(data);
  if (device_.has_exact_blocks()) return give_back(slab);
  stock_of(slab->second.home)[static_cast<size_t>(slab->second.size_class)].blocks.push_back(data);
  ++slab->second.free_blocks;
}

/// Whether each user has come to where its queue ended when the block was freed, or later where memory for marks was
/// short then. A queue that fails keeps the block for ever.
bool DeviceAllocator::has_rested(Resting& block) noexcept {
  try {
    for (; !block.users.empty(); block.users.pop_back()) {
      block.marked.reserve(block.marked.size() + 1);
      block.marked.push_back(block.users.back()->record(false));
    }
    return std::all_of(block.marked.begin(), block.marked.end(), [](auto& mark) { return mark->reached(); });
  } catch (const std::exception&) {
    return false;
  }
}

void DeviceAllocator::wake_rested() {
  std::erase_if(resting_, [&](Resting& block) {
    if (!has_rested(block)) return false;
    put_back(block.data);
    return true;
  });
}

void DeviceAllocator::free(void* data, size_t bytes) {
  if (device_.closed()) return;
  const std::lock_guard lock(mutex_);
  allocated_ -= bytes;
  const auto found = users_.empty() ? users_.end() : users_.find(data);
  if (found == users_.end()) return put_back(data);
  if (resting_.size() >= wake_at_) {  // each mark holds an event of the driver
    wake_rested();
    wake_at_ = 2 * resting_.size() + few_resting;
  }
  resting_.push_back({data, std::move(found->second), {}});
  users_.erase(found);
  has_rested(resting_.back());  // marks the ends
}

/// Slabs that are wholly free.
void DeviceAllocator::release_cached() noexcept {
  wake_rested();
  for (Stock& stock : stocks_) {
    for (FreeBlocks& list : stock) {
      std::erase_if(list.blocks, [&](void* data) {
        const Slab& slab = slab_around(data)->second;
        return slab.free_blocks == slab.blocks;
      });
    }
  }
  for (auto slab = slabs_.begin(); slab != slabs_.end();) {
    const auto next = std::next(slab);
    if (slab->second.free_blocks == slab->second.blocks) give_back(slab);
    slab = next;
  }
}

void DeviceAllocator::release_all() noexcept {
  const std::lock_guard lock(mutex_);
  release_cached();
}

void DeviceAllocator::abandon() noexcept {
  const std::lock_guard lock(mutex_);
  for (Stock& stock : stocks_) {
    for (FreeBlocks& list : stock) list.blocks.clear();
  }
  resting_.clear();
  while (!slabs_.empty()) give_back(slabs_.begin());
}

void DeviceAllocator::empty_cache() {
  if (device_.drain()) release_all();
}

size_t DeviceAllocator::reserved() {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

MemoryStats DeviceAllocator::stats() {
  device_.require_open();
  MemoryStats s;
  // The driver is asked without the lock, and once more where other threads took memory from it meanwhile.
  for (int attempt = 0;; ++attempt) {
    uint64_t before;
    {
      const std::lock_guard lock(mutex_);
      before = driver_calls_;
    }
    if (memory_ == Memory::device) s.total = device_.total_memory(), s.free = device_.free_memory();
    const std::lock_guard lock(mutex_);
    const bool settled = driver_calls_ == before;
    if (!settled && attempt < 16) continue;
    s.allocated = allocated_;
    s.reserved = reserved_;
    s.peak_allocated = peak_allocated_;
    s.peak_reserved = peak_reserved_;
    s.allocations = allocations_;
    s.limit = limit_;
    if (!settled) s.free = std::min(s.free, s.total - std::min(s.total, reserved_));
    return s;
  }
}

void DeviceAllocator::reset_peak() {
  device_.require_open();
  const std::lock_guard lock(mutex_);
  peak_allocated_ = allocated_;
  peak_reserved_ = reserved_;
}

void DeviceAllocator::set_limit(size_t bytes) {
  device_.require_open();
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

}  // namespace weft
