// State shared by the threads of a LocalWorld.
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

/// The last call of a rank, for the error messages of ranks that wait for it.
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

/// State shared by all groups of one run: failed and finished ranks.
struct Threads {
  explicit Threads(size_t size) : ended(size), last_calls(size), sent(size), made(size), works(size) {}

  std::mutex mutex;
  /// The first rank that failed; `failed` is set last.
  std::atomic<bool> failed{false};
  int failed_rank = -1;
  std::string failure;
  std::vector<std::atomic<bool>> ended;
  std::vector<LastCall> last_calls;
  /// Bytes of tensors sent, by rank.
  std::vector<std::atomic<int64_t>> sent;
  /// Memory of failed ranks that other ranks may still read.
  std::vector<Tensor> kept;
  /// Hubs by the world ranks that they connect: all ranks create groups of the same ranks in one order.
  std::map<std::vector<int>, std::vector<Shared<Hub>>> hubs;
  /// Number of hubs that each rank has created.
  std::vector<std::map<std::vector<int>, size_t>> made;
  /// Number of background works of each rank; `worked` is notified of changes.
  std::vector<int> works;
  std::condition_variable worked;

  /// Next hub of these ranks, in the order of rank `rank`'s calls.
  Shared<Hub> next_hub(std::span<const int> ranks, int rank);
  void wait_for_works(int rank);
  /// Wakes all ranks with an error that names this one. Later failures are consequences, and are ignored.
  void fail(int rank, const std::string& what);
  void end(int rank);

 private:
  void wake_all();
};

/// Meeting point of the ranks of one group.
struct Hub {
  struct alignas(64) Slot {
    /// Number of meetings at which the rank has arrived.
    std::atomic<uint64_t> arrived{0};
    CallRecord call;
    std::vector<Sent> sends;
  };
  /// A tensor to be received, and a receiver that waits for one. The second of the two to arrive copies.
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
  /// For ranks that wait long.
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<int> sleepers{0};
  std::list<Message*> messages;
  std::list<Place*> places;

  /// Requires the mutex. If both sender and receiver are present, copies the data and removes both from the lists.
  void match(int from, int to, int tag);

  void wake();
};

/// The wire of rank `rank` of a hub. Keeps `threads` alive.
Shared<Wire> make_local_wire(Shared<Threads> threads, Shared<Hub> hub, int rank);

}  // namespace weft::distributed::detail
