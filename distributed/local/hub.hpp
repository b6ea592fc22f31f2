// What the threads of a LocalWorld share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "../detail/member.hpp"

namespace weft::distributed::detail {

struct Hub;

/// The call that a rank made last, which others name when they miss it.
class LastCall {
 public:
  void set(const CallPlace& place) {
    where_.store(place.where, std::memory_order_relaxed);
    op_.store(place.op, std::memory_order_relaxed);
  }
  CallPlace get() const { return {op_.load(std::memory_order_relaxed), where_.load(std::memory_order_relaxed)}; }

 private:
  std::atomic<const char*> op_{nullptr};
  std::atomic<Location> where_{Location::none()};
};

/// What all groups of one run have in common: who failed or ended.
struct Threads {
  explicit Threads(size_t size) : ended(size), last_calls(size), sent(size), made(size), works(size) {}

  std::mutex mutex;
  /// Of the first rank that failed; `failed` is set last.
  std::atomic<bool> failed{false};
  int failed_rank = -1;
  std::string failure;
  std::vector<std::atomic<bool>> ended;
  std::vector<LastCall> last_calls;
  /// Bytes of tensors, by rank.
  std::vector<std::atomic<int64_t>> sent;
  /// Memory that ranks which failed had sent from.
  std::vector<Tensor> kept;
  /// The hubs by the ranks of the world that they connect: each rank makes groups of the same ranks in one order.
  std::map<std::vector<int>, std::vector<Shared<Hub>>> hubs;
  /// How many of them each rank has made.
  std::vector<std::map<std::vector<int>, size_t>> made;
  /// How many works each rank has under way on threads of their own; changes are told to `worked`.
  std::vector<int> works;
  std::condition_variable worked;

  /// A new hub of these ranks, as rank `rank` counts them.
  Shared<Hub> next_hub(std::span<const int> ranks, int rank);
  void wait_for_works(int rank);
  /// Wakes all ranks with an error that names this one. Later failures are consequences, and change nothing.
  void fail(int rank, const std::string& what);
  void end(int rank);

 private:
  void wake_all();
};

/// Where the ranks of one group meet.
struct Hub {
  struct alignas(64) Slot {
    /// How many meetings the rank has come to.
    std::atomic<uint64_t> arrived{0};
    CallRecord call;
    std::vector<Sent> sends;
  };
  /// A tensor that waits to be received, and a place that waits for one. Whoever comes second copies.
  struct Message {
    int from, to, tag;
    Wire::Header header;
    Sent data;
    std::atomic<bool> done{false};
  };
  struct Place {
    int from, to, tag;
    Wire::Header expected;
    Received data;
    Wire::Header arrived{};
    std::atomic<bool> done{false};
  };

  Hub(Threads& threads_, std::vector<int> ranks_) : threads(threads_), ranks(std::move(ranks_)), slots(ranks.size()) {}

  Threads& threads;
  const std::vector<int> ranks;
  std::vector<Slot> slots;
  /// Who waits for long sleeps here.
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<int> sleepers{0};
  std::list<Message*> messages;
  std::list<Place*> places;

  /// Under the mutex: copies what was sent to where it is wanted, if both are there, and takes them out of the lists.
  void match(int from, int to, int tag);

  void wake();
};

/// The wire of rank `rank` of a hub; `threads` is kept.
Shared<Wire> make_local_wire(Shared<Threads> threads, Shared<Hub> hub, int rank);

}  // namespace weft::distributed::detail
