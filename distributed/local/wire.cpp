// Ranks as threads: they read each other's memory between two meetings.
#include <algorithm>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "../error.hpp"
#include "hub.hpp"

namespace weft::distributed::detail {

namespace {

constexpr auto spin_time = std::chrono::microseconds(20);

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

[[noreturn]] void raise_failed(const CallPlace& call, const std::string& problem, const std::string& details = {}) {
  throw DistributedError(format_error({.op = call.op, .problem = problem, .details = details}, call.where));
}

class LocalWire final : public Wire {
 public:
  LocalWire(Shared<Threads> threads, Shared<Hub> hub, int rank)
      : Wire(threads->sent[static_cast<size_t>(hub->ranks[static_cast<size_t>(rank)])]),
        threads_(std::move(threads)),
        hub_(std::move(hub)),
        rank_(rank) {}

  const char* name() const override { return "threads"; }

  void exchange(const CallRecord& call, std::span<const Sent> sends, std::span<const Received> receives,
                Clock::time_point deadline) override {
    meet(call, sends, deadline);
    for (size_t r = 0; r < receives.size(); ++r) {
      const Sent& sent = slot(r).sends[static_cast<size_t>(rank_)];
      check_bytes(call, static_cast<int>(r), sent.bytes, receives[r].bytes);
      if (sent.bytes != 0 && sent.data != receives[r].data) std::memcpy(receives[r].data, sent.data, sent.bytes);
    }
    arrive_and_wait(call.place, deadline);
  }

  void collect(const CallRecord& call, std::span<const Sent> sends, const Parts& use,
               Clock::time_point deadline) override {
    meet(call, sends, deadline);
    const void* few[16];
    std::vector<const void*> many(hub_->slots.size() <= 16 ? 0 : hub_->slots.size());
    const std::span<const void*> parts = many.empty() ? std::span(few, hub_->slots.size()) : std::span(many);
    for (size_t r = 0; r < parts.size(); ++r) {
      const Sent& sent = slot(r).sends[static_cast<size_t>(rank_)];
      check_bytes(call, static_cast<int>(r), sent.bytes, sends[static_cast<size_t>(rank_)].bytes);
      parts[r] = sent.data;
    }
    use(parts);
    arrive_and_wait(call.place, deadline);
  }

  void wait_for_all(const CallRecord& call, Clock::time_point deadline) override {
    meet(call, {}, deadline);
    arrive_and_wait(call.place, deadline);
  }

  void fail(const std::string& what) noexcept override { threads_->fail(world_rank(rank_), what); }
  void check_others(const CallPlace& place) override { check_failed(place); }
  void keep(std::vector<Tensor> memory) override {
    const std::lock_guard lock(threads_->mutex);
    for (Tensor& tensor : memory) threads_->kept.push_back(std::move(tensor));
  }

  std::unique_ptr<Transfer> send(const CallPlace& place, int to, int tag, const Header& header, Sent data) override;
  Header peek(const CallPlace& place, int from, int tag, Clock::time_point deadline) override;
  std::unique_ptr<Transfer> receive(const CallPlace& place, int from, int tag, const Header& header,
                                    Received data) override;

  Shared<Wire> of_subgroup(std::span<const int> ranks, const CallRecord&, Clock::time_point) override {
    const int me = hub_->ranks[static_cast<size_t>(rank_)];
    const auto at = std::find(ranks.begin(), ranks.end(), me);
    return make_local_wire(threads_, threads_->next_hub(ranks, me), static_cast<int>(at - ranks.begin()));
  }
  void count_work(int change) noexcept override {
    {
      const std::lock_guard lock(threads_->mutex);
      threads_->works[static_cast<size_t>(world_rank(rank_))] += change;
    }
    threads_->worked.notify_all();
  }

 private:
  template <class End, std::list<End*> Hub::*ends>
  class Half;

  Hub::Slot& slot(size_t rank) { return hub_->slots[rank]; }
  int world_rank(int rank) const { return hub_->ranks[static_cast<size_t>(rank)]; }

  /// Publishes this rank's call and its data, waits for the other ranks, and checks that their calls agree.
  void meet(const CallRecord& call, std::span<const Sent> sends, Clock::time_point deadline) {
    check_failed(call.place);
    Hub::Slot& own = slot(static_cast<size_t>(rank_));
    own.call = call;
    own.sends.assign(sends.begin(), sends.end());
    threads_->last_calls[static_cast<size_t>(world_rank(rank_))].set(call.place);
    count_sent(sends, rank_);
    arrive_and_wait(call.place, deadline);
    for (size_t r = 0; r < hub_->slots.size(); ++r) {
      const CallRecord& other = slot(r).call;
      if (!call.agrees(other)) {
        raise_disagreement(rank_, call, static_cast<int>(r), other.text(), other.place.where.text());
      }
    }
  }

  void check_bytes(const CallRecord& call, int from, size_t sent, size_t expected) {
    if (sent == expected) return;
    raise_failed(call.place,
                 fmt::format("rank {} sends {} bytes where rank {} expects {}", from, sent, rank_, expected),
                 "sizes that are given must agree between ranks");
  }

  void arrive_and_wait(const CallPlace& place, Clock::time_point deadline) {
    const uint64_t meeting = ++meetings_;
    slot(static_cast<size_t>(rank_)).arrived.store(meeting, std::memory_order_seq_cst);
    if (hub_->sleepers.load(std::memory_order_seq_cst) != 0) hub_->wake();
    for (size_t r = 0; r < hub_->slots.size(); ++r) wait_for(r, meeting, place, deadline);
  }

  void wait_for(size_t rank, uint64_t meeting, const CallPlace& place, Clock::time_point deadline) {
    const std::atomic<uint64_t>& arrived = slot(rank).arrived;
    const auto here = [&] { return arrived.load(std::memory_order_seq_cst) >= meeting; };
    if (here()) return;
    const auto spin_end = Clock::now() + spin_time;
    do {
      for (int i = 0; i < 32; ++i) {
        if (here()) return;
        pause();
      }
    } while (Clock::now() < spin_end);
    std::unique_lock lock(hub_->mutex);
    wait_until(lock, place, static_cast<int>(rank), deadline, here);
  }

  /// Sleeps until `done`. Raises if a rank failed, if `other` finished, or after the deadline.
  template <class Done>
  void wait_until(std::unique_lock<std::mutex>& lock, const CallPlace& place, int other, Clock::time_point deadline,
                  Done done) {
    ++hub_->sleepers;
    struct Awake {
      std::atomic<int>& sleepers;
      ~Awake() { --sleepers; }
    } const awake{hub_->sleepers};
    const auto& ended = threads_->ended[static_cast<size_t>(world_rank(other))];
    const auto over = [&] {
      return done() || threads_->failed.load(std::memory_order_acquire) || ended.load(std::memory_order_acquire);
    };
    const bool in_time = hub_->changed.wait_until(lock, deadline, over);
    if (done()) return;
    check_failed(place);
    raise_absent(place, other, in_time ? "has ended" : "did not arrive in time");
  }

  void check_failed(const CallPlace& place) {
    if (!threads_->failed.load(std::memory_order_acquire)) [[likely]]
      return;
    raise_failed(place, fmt::format("rank {} failed", threads_->failed_rank), threads_->failure);
  }

  [[noreturn]] void raise_absent(const CallPlace& place, int other, const char* what) {
    const int number = world_rank(other);
    const CallPlace last = threads_->last_calls[static_cast<size_t>(number)].get();
    raise_failed(place, fmt::format("rank {} {}", number, what),
                 last.op == nullptr ? "it has called no collective"
                                    : fmt::format("its last call was {} at {}", last.op, last.where.text()));
  }

  const Shared<Threads> threads_;
  const Shared<Hub> hub_;
  const int rank_;
  uint64_t meetings_ = 0;
};

/// One end of a message, in the hub's list until the other end arrives.
template <class End, std::list<End*> Hub::*ends>
class LocalWire::Half final : public Transfer {
 public:
  template <class... A>
  Half(LocalWire& wire, const CallPlace& place, int other, A&&... end)
      : wire_(wire), place_(place), other_(other), end_{std::forward<A>(end)...} {
    const std::lock_guard lock(wire.hub_->mutex);
    (wire.hub_.get()->*ends).push_back(&end_);
    wire.hub_->match(end_.from, end_.to, end_.tag);
    wire.hub_->changed.notify_all();
  }
  ~Half() override {
    const std::lock_guard lock(wire_.hub_->mutex);
    (wire_.hub_.get()->*ends).remove(&end_);
  }
  bool test() override { return end_.done.load(std::memory_order_acquire); }
  void wait(Clock::time_point deadline) override {
    {
      std::unique_lock lock(wire_.hub_->mutex);
      wire_.wait_until(lock, place_, other_, deadline, [&] { return test(); });
    }
    if constexpr (std::is_same_v<End, Hub::Place>) {
      // A failed rank withdraws its messages; the next message may then have another header than the one peeked at.
      if (!is_same_header(end_.arrived, end_.expected)) wire_.check_failed(place_);
      check_header(place_, other_, end_.arrived, end_.expected);
    }
  }

 private:
  LocalWire& wire_;
  const CallPlace place_;
  const int other_;
  End end_;
};

Wire::Header LocalWire::peek(const CallPlace& place, int from, int tag, Clock::time_point deadline) {
  check_failed(place);
  std::unique_lock lock(hub_->mutex);
  const auto& messages = hub_->messages;
  auto found = messages.end();
  wait_until(lock, place, from, deadline, [&] {
    found = std::find_if(messages.begin(), messages.end(), [&](const Hub::Message* message) {
      return message->from == from && message->to == rank_ && message->tag == tag;
    });
    return found != messages.end();
  });
  return (*found)->header;
}

std::unique_ptr<Wire::Transfer> LocalWire::send(const CallPlace& place, int to, int tag, const Header& header,
                                                Sent data) {
  check_failed(place);
  count_sent(data.bytes);
  return std::make_unique<Half<Hub::Message, &Hub::messages>>(*this, place, to, rank_, to, tag, header, data);
}
std::unique_ptr<Wire::Transfer> LocalWire::receive(const CallPlace& place, int from, int tag, const Header& header,
                                                   Received data) {
  check_failed(place);
  return std::make_unique<Half<Hub::Place, &Hub::places>>(*this, place, from, from, rank_, tag, header, data);
}

}  // namespace

Shared<Wire> make_local_wire(Shared<Threads> threads, Shared<Hub> hub, int rank) {
  return Shared<LocalWire>::make(std::move(threads), std::move(hub), rank);
}

}  // namespace weft::distributed::detail
