#include "hub.hpp"

namespace weft::distributed::detail {

Shared<Hub> Threads::hub(std::span<const int> ranks, int which) {
  std::vector<int> list(ranks.begin(), ranks.end());
  const std::lock_guard lock(mutex);
  Shared<Hub>& hub = hubs[{list, which}];
  if (hub == nullptr) hub = Shared<Hub>::make(*this, std::move(list));
  return hub;
}

void Threads::fail(int rank, const std::string& what) {
  const std::lock_guard lock(mutex);
  if (failed.load(std::memory_order_relaxed)) return;
  failed_rank = rank;
  failure = what;
  failed.store(true, std::memory_order_release);
  for (auto& [key, hub] : hubs) hub->wake();
}

void Threads::end(int rank) {
  const std::lock_guard lock(mutex);
  ended[static_cast<size_t>(rank)].store(true, std::memory_order_release);
  for (auto& [key, hub] : hubs) hub->wake();
}

void Hub::wake() {
  { const std::lock_guard lock(mutex); }
  changed.notify_all();
}

}  // namespace weft::distributed::detail
