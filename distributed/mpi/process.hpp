// This process among those that mpirun started: messages, and detection of failed processes.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "library.hpp"
#include "world.hpp"

namespace weft::distributed::mpi {

using detail::Clock;

/// Message channels. Each has its own communicator, so that their messages are never mixed up.
enum class Channel { collectives, headers, payloads, notices };
inline constexpr int channel_count = 4;

/// A pending message.
struct Request {
  MPI_Request handle;
  /// World rank of the peer.
  int other;
  bool receives;
  size_t bytes;
};

/// One per process, created by start_world and never destroyed.
class Process {
 public:
  explicit Process(const Library& library);

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Splits large buffers into several messages; appends one request for each.
  void send(std::vector<Request>& requests, Channel channel, int to, int tag, const void* data, size_t bytes);
  void receive(std::vector<Request>& requests, Channel channel, int from, int tag, void* data, size_t bytes);
  /// Whether all requests are complete; removes them if so. Raises DistributedError if one failed or has another
  /// length.
  bool test(std::vector<Request>& requests, const CallPlace& place);
  /// Waits until all are complete. Raises DistributedError if another rank failed, exited or died, or after the
  /// deadline; the requests are then abandoned.
  void wait(std::vector<Request>& requests, const CallPlace& place, Clock::time_point deadline);
  void give_up(std::vector<Request>& requests) noexcept;
  /// Waits for a message without receiving it.
  void wait_for_message(Channel channel, int from, int tag, const CallPlace& place, Clock::time_point deadline);

  /// Raises DistributedError if a rank has failed.
  void check_failed(const CallPlace& place);
  /// Raises for failures, and for processes among `ranks` that died.
  void check_others(std::span<const int> ranks, const CallPlace& place);
  /// Notifies all other ranks of the first failure, which ends their waits.
  void fail(const std::string& what) noexcept;
  void keep(std::vector<Tensor> memory);

  void count_work(int change) { works_.fetch_add(change, std::memory_order_acq_rel); }

  /// Smallest group number that this rank has not used yet.
  int next_group() const { return next_group_; }
  void set_next_group(int number) { next_group_ = number; }

  /// Bytes of tensors sent by this rank.
  std::atomic<int64_t> sent{0};

 private:
  struct Other {
    int64_t host = 0;
    int64_t process = 0;
    Clock::time_point ended_at;
    std::atomic<bool> ended{false};
  };

  std::optional<std::unique_lock<std::mutex>> lock();
  void check(int code, const char* function, const CallPlace& place);
  MPI_Comm comm(Channel channel) const { return comms_[static_cast<size_t>(channel)]; }
  void learn_where_others_run();
  /// Only for processes on this machine.
  bool is_dead(const Other& other) const;
  /// Checks of a long wait, done occasionally.
  void look_around(const std::vector<Request>& requests, const CallPlace& place);
  void take_notices();
  void tell_others(char kind, const std::string& what) noexcept;
  [[noreturn]] void raise_absent(int other, const char* what, const CallPlace& place);
  /// Polls `done` until it holds, with growing pauses.
  template <class Done, class Late>
  void poll(Done done, Late late, const std::vector<Request>& requests, const CallPlace& place,
            Clock::time_point deadline);
  void finish();
  static void at_exit();
  static void at_terminate();

  const Library& mpi_;
  MPI_Comm comms_[channel_count];
  int rank_ = 0, size_ = 0;
  bool finalizes_ = false;
  bool crowded_ = false;
  /// Set if MPI supports calls from one thread at a time only.
  std::optional<std::mutex> one_at_a_time_;
  std::atomic<int> next_group_{2};
  std::atomic<int> works_{0};

  std::vector<Other> others_;
  std::mutex mutex_;
  std::atomic<bool> failed_{false};
  std::string failure_;
  std::vector<Tensor> kept_;
  std::string told_;
};

/// The wire of a group. `ranks` are world ranks; group number 0 is reserved for creating groups.
Shared<detail::Wire> make_wire(Process& process, std::vector<int> ranks, int rank, int number);

}  // namespace weft::distributed::mpi
