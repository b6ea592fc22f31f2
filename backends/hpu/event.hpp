// Level Zero's events, used again and again, and fences made of them.
#pragma once

#include <mutex>
#include <vector>

#include "loader.hpp"
#include "../queue.hpp"

namespace weft::hpu {

class HpuDevice;
class HpuQueue;

/// Events of one device. Thread-safe.
class EventPool {
 public:
  EventPool(ze_context_handle_t context, int device, bool timed) : context_(context), device_(device), timed_(timed) {}

  /// Not signalled.
  ze_event_handle_t take();
  /// One that no queued command waits for; it may still be on its way to be signalled.
  void put_back(ze_event_handle_t event) noexcept;
  void close() noexcept;

 private:
  static constexpr uint32_t pool_size = 256;
  void grow();
  void sweep();

  const ze_context_handle_t context_;
  const int device_;
  const bool timed_;
  std::mutex mutex_;
  bool closed_ = false;
  std::vector<ze_event_pool_handle_t> pools_;
  std::vector<ze_event_handle_t> all_, fresh_, used_;
};

class HpuFence final : public Fence {
 public:
  HpuFence(HpuDevice& device, HpuQueue& queue, bool timed);
  ~HpuFence() override;

  Queue& queue() const override;
  bool reached() override;
  void wait() override;
  double milliseconds_since(const Fence& earlier) const override;
  double clock_period() const override;
  ze_event_handle_t event() const { return event_; }
  /// From the host.
  void signal();

 private:
  uint64_t timestamp() const;

  HpuDevice& device_;
  HpuQueue& queue_;
  EventPool& pool_;
  const ze_event_handle_t event_;
};

}  // namespace weft::hpu
