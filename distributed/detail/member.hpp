// One rank's membership in a group: its wire, and its pending collectives.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "wire.hpp"

namespace weft::distributed::detail {

class Member;

/// Joins the lines of an error message, for the errors of other ranks.
std::string one_line(const char* what);

/// The work of a collective. It owns all memory that other ranks read or write, which thus outlives a failure.
struct Operation {
  CallRecord call;
  /// The wire between the ranks' devices; null: the host's wire.
  Wire* wire = nullptr;
  /// The caller's device streams.
  uint16_t streams = 0;
  std::vector<Tensor> memory;
  Callback<void(Wire&, const CallRecord&, Clock::time_point)> act;
  /// Computes the result, on the waiting thread.
  Callback<Tensor()> finish;
};

struct WorkState {
  virtual ~WorkState() = default;
  virtual bool is_done() = 0;
  virtual Tensor wait() = 0;
};

/// Wire between the devices of a group's ranks.
struct DeviceWire {
  Shared<Wire> wire;
  Device device;  // this rank's device
};

/// Connects the devices of one type of a group's ranks. Called by all of them; returns null on all ranks if it cannot.
using ConnectDevices = Callback<Shared<Wire>(Device device, const Shared<Wire>& host, int rank, int ranks,
                                             const CallRecord& call, Clock::time_point deadline)>;
/// The function for this device type; empty if its tensors are copied through the host.
WEFT_API ConnectDevices& connects_devices(DeviceType type);

class Member {
 public:
  /// Without a wire: for a group that this rank does not belong to.
  Member(Shared<Wire> wire, std::vector<int> ranks, int rank, double timeout);
  /// Waits for pending operations.
  ~Member();
  Member(const Member&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  std::span<const int> ranks() const { return ranks_; }
  Wire& wire() const { return *wire_; }
  double timeout() const { return timeout_.load(std::memory_order_relaxed); }
  void set_timeout(double seconds) { timeout_.store(seconds, std::memory_order_relaxed); }
  Clock::time_point deadline() const;
  bool contains_me() const { return rank_ >= 0; }
  /// The wire for tensors on devices of this type, connected by the first collective on them; nullptr if they are
  /// copied through the host.
  const DeviceWire* device_wire(Device device, const Shared<Member>& self);
  /// Raises ValueError unless this rank belongs to the group.
  void check_member() const;
  /// Raises IndexError unless the group has this rank.
  void check_rank(int rank) const;

  /// Runs a function that waits for other ranks. If it throws, notifies the other ranks, and keeps `memory` alive,
  /// which they may still read.
  template <class Act>
  auto waiting(const std::vector<Tensor>& memory, Act act_until) const {
    try {
      return act_until(deadline());
    } catch (const std::exception& error) {
      wire_->keep(memory);
      wire_->fail(one_line(error.what()));
      throw;
    }
  }

  /// Runs the operation, after pending ones, and returns the result.
  Tensor perform(Operation& operation, const Shared<Member>& self);
  /// Queues the operation on the group's thread, which runs operations in the order of calls.
  Shared<WorkState> start(Operation operation, const Shared<Member>& self);

 private:
  struct Queued;
  void act(Operation& operation);
  void work();

  const Shared<Wire> wire_;
  const std::vector<int> ranks_;
  const int rank_;
  std::atomic<double> timeout_;
  std::atomic<uint64_t> calls_{0};
  std::map<DeviceType, DeviceWire> device_wires_;

  std::mutex mutex_;
  std::condition_variable changed_;
  /// Each with a reference to this member, so that queued work is finished after the last Group is destroyed.
  std::deque<std::pair<Shared<Queued>, Shared<Member>>> queue_;
  std::atomic<int> pending_{0};
  bool stop_ = false;
  std::thread thread_;
  /// On the member's thread: points to a flag that is set if this thread destroys the member.
  bool* gone_ = nullptr;
};

/// Sends to_each[r], or the only element, to every rank r; returns the numbers received by this rank. A collective,
/// under the name of the running op.
std::vector<int64_t> tell_all(const Shared<Member>& member, std::span<const int64_t> to_each);

/// Inside a LocalWorld: the world of this thread's rank.
extern constinit thread_local const Shared<Member>* thread_world;
double default_timeout();
/// The world of the processes that `mpirun` started; empty if this process was started otherwise.
Shared<Member> mpi_world();
/// A world of one rank.
Shared<Member> lone_world();

}  // namespace weft::distributed::detail
