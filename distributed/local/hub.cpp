#include "hub.hpp"

#include <algorithm>
#include <cstring>

namespace weft::distributed::detail {

Shared<Hub> Threads::next_hub(std::span<const int> ranks, int rank) {
  const std::vector<int> list(ranks.begin(), ranks.end());
  const std::lock_guard lock(mutex);
  const size_t number = made[static_cast<size_t>(rank)][list]++;
  std::vector<Shared<Hub>>& alike = hubs[list];
  if (alike.size() <= number) alike.push_back(Shared<Hub>::make(*this, list));
  return alike[number];
}

void Threads::wait_for_works(int rank) {
  std::unique_lock lock(mutex);
  worked.wait(lock, [&] { return works[static_cast<size_t>(rank)] == 0; });
}

void Threads::fail(int rank, const std::string& what) {
  const std::lock_guard lock(mutex);
  if (failed.load(std::memory_order_relaxed)) return;
  failed_rank = rank;
  failure = what;
  failed.store(true, std::memory_order_release);
  wake_all();
}

void Threads::wake_all() {
  for (auto& [ranks, alike] : hubs) {
    for (const Shared<Hub>& hub : alike) hub->wake();
  }
}

void Threads::end(int rank) {
  const std::lock_guard lock(mutex);
  ended[static_cast<size_t>(rank)].store(true, std::memory_order_release);
  wake_all();
}

void Hub::match(int from, int to, int tag) {
  const auto fits = [&](const auto* end) { return end->from == from && end->to == to && end->tag == tag; };
  const auto message = std::find_if(messages.begin(), messages.end(), fits);
  const auto place = std::find_if(places.begin(), places.end(), fits);
  if (message == messages.end() || place == places.end()) return;
  Message& sent = **message;
  Place& wanted = **place;
  messages.erase(message);
  places.erase(place);
  wanted.arrived = sent.header;
  if (is_same_header(sent.header, wanted.expected)) {
    if (sent.data.bytes != 0) std::memcpy(wanted.data.data, sent.data.data, sent.data.bytes);
    sent.done.store(true, std::memory_order_release);
  }  // else the receiver raises, and the sender is notified
  wanted.done.store(true, std::memory_order_release);
  changed.notify_all();
}

void Hub::wake() {
  { const std::lock_guard lock(mutex); }
  changed.notify_all();
}

}  // namespace weft::distributed::detail
