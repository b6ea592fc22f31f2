// Memory of one recorded step: allocated during recording, and kept for replays.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "../../tensor/allocator.hpp"

namespace weft::detail {

/// The memory on one device. It lives until the recording and every tensor in it are gone.
class StepMemory final : public Allocator {
 public:
  /// An address as an offset in the number-th allocated block.
  struct Place {
    int64_t number;
    int64_t offset;
  };
  /// `numbers` counts the blocks of all devices of a recording.
  StepMemory(Device device, Allocator& below, int64_t& numbers) : device_(device), below_(below), numbers_(numbers) {}

  void* allocate(size_t bytes) override;
  void free(void* data, size_t bytes) override;
  MemoryStats stats() override { return below_.stats(); }
  void reset_peak() override { below_.reset_peak(); }
  void empty_cache() override { below_.empty_cache(); }
  void set_limit(size_t bytes) override { below_.set_limit(bytes); }

  Device device() const { return device_; }
  size_t bytes() const { return bytes_; }
  std::optional<Place> find(const void* address) const;
  /// Bytes that the host wrote to the block at `address` before a kernel first read it; returned only once per block.
  struct Constant {
    void* to = nullptr;
    std::vector<char> bytes;
  };
  std::optional<Constant> written_by_host(const void* address);
  /// Stops allocating. Deletes itself when the last tensor in it dies.
  void close();

 private:
  struct Block {
    size_t size;
    int64_t number = -1;
    size_t used = 0;
    bool seen = false;  ///< by a kernel
  };
  struct Stock {
    std::vector<void*> unused;
    size_t blocks = 0;
  };
  using Blocks = std::map<const char*, Block>;
  Blocks::const_iterator around(const void* address) const;

  const Device device_;
  Allocator& below_;
  int64_t& numbers_;
  mutable std::mutex mutex_;
  Blocks blocks_;
  std::map<size_t, Stock> stocks_;
  size_t live_ = 0, bytes_ = 0;
  bool closed_ = false;
};

}  // namespace weft::detail
