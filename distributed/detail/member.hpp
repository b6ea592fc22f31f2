// One rank's part in a group: its wire, and the collectives that wait for it.
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

/// An error's lines as one, for the errors of other ranks.
std::string one_line(const char* what);

/// What a collective does. It owns all memory that other ranks read or write, so that this outlives a failure.
struct Operation {
  CallRecord call;
  /// Between the ranks' devices; null: on the host.
  Wire* wire = nullptr;
  /// The caller's, on which devices work.
  uint16_t streams = 0;
  std::vector<Tensor> memory;
  Callback<void(Wire&, const CallRecord&, Clock::time_point)> act;
  /// On the thread that waits: the result.
  Callback<Tensor()> finish;
};

struct WorkState {
  virtual ~WorkState() = default;
  virtual bool is_done() = 0;
  virtual Tensor wait() = 0;
};

/// Between the devices of a group's ranks.
struct DeviceWire {
  Shared<Wire> wire;
  Device device;  ///< this rank's
};

/// Connects the devices of one type that the ranks of a group have. Called by all of them; null for all where it
/// cannot.
using ConnectDevices = Callback<Shared<Wire>(Device device, const Shared<Wire>& host, int rank, int ranks,
                                             const CallRecord& call, Clock::time_point deadline)>;
/// Empty where tensors on such devices pass through the host.
WEFT_API ConnectDevices& connects_devices(DeviceType type);

class Member {
 public:
  /// Without a wire: of a group that this rank does not belong to.
  Member(Shared<Wire> wire, std::vector<int> ranks, int rank, double timeout);
  /// Waits for what is under way.
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
  /// The wire for tensors on devices of this type, connected by the first collective of one, and this rank's device on
  /// it; nullptr where they pass through the host.
  const DeviceWire* device_wire(Device device, const Shared<Member>& self);
  /// ValueError unless this rank belongs to the group.
  void check_member() const;
  /// IndexError unless the group has this rank.
  void check_rank(int rank) const;

  /// What waits for other ranks. Where it fails they learn of it, and memory that they may still read is kept.
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

  /// Now, or behind what is under way; the result.
  Tensor perform(Operation& operation, const Shared<Member>& self);
  /// On the group's own thread, in the order of calls.
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
  /// Each with an owner of this member, so that work is done though nobody holds the group any more.
  std::deque<std::pair<Shared<Queued>, Shared<Member>>> queue_;
  std::atomic<int> pending_{0};
  bool stop_ = false;
  std::thread thread_;
  /// The thread's: set where it destroyed the member itself.
  bool* gone_ = nullptr;
};

/// to_each[r], or the only one, of every rank r: what each tells this rank. A collective, of the op that is running.
std::vector<int64_t> tell_all(const Shared<Member>& member, std::span<const int64_t> to_each);

/// The world that this thread is a rank of, inside a LocalWorld.
extern constinit thread_local const Shared<Member>* thread_world;
/// The default of Group::timeout.
double default_timeout();
/// The world of the processes that `mpirun` started; empty where this one was not.
Shared<Member> mpi_world();
/// A world of one.
Shared<Member> lone_world();

}  // namespace weft::distributed::detail
