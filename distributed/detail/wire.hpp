// Communication between the ranks of a group: one small interface, implemented for threads of a process and for MPI.
//
// All collectives are built on `exchange` and `collect`. Each rank combines its share in ascending order of ranks with
// CPU kernels. So results do not depend on MPI, message sizes or the implementation, and 16-bit floats are rounded
// once.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../../tensor/call.hpp"
#include "../../tensor/callback.hpp"
#include "../../tensor/dims.hpp"
#include "../../tensor/dtype.hpp"
#include "../../tensor/tensor.hpp"
#include "../reduce_op.hpp"

namespace weft::distributed::detail {

using Clock = std::chrono::steady_clock;

/// Describes one rank's call of a collective. The calls of all ranks must agree, except for their call sites.
struct CallRecord {
  CallPlace place = {};
  /// Number of collectives that this rank called on the group before.
  uint64_t number = 0;
  bool has_tensor = false;
  bool recorded = false;
  /// Tensors are sent from device to device, on every rank.
  bool on_device = false;
  DType dtype = DType::u8;
  /// -1 for a size that may differ between ranks.
  Dims shape = {};
  int reduction = -1, root = -1;

  /// Example: "all_reduce of float32 [2, 3] by sum".
  std::string text() const;
  bool agrees(const CallRecord& other) const;
};

/// Raises DistributedError: this rank's call differs from that of `other_rank` at `other_place`.
[[noreturn]] void raise_disagreement(int rank, const CallRecord& call, int other_rank, const std::string& other_text,
                                     const std::string& other_place);

struct Sent {
  const void* data = nullptr;
  size_t bytes = 0;
};
struct Received {
  void* data = nullptr;
  size_t bytes = 0;
};

/// One rank's end of a group's connections. Raises DistributedError if other ranks fail, exit or are late.
class Wire {
 public:
  /// `sent` counts bytes for all wires of this rank's world, and must outlive them.
  explicit Wire(std::atomic<int64_t>& sent) : sent_(sent) {}
  virtual ~Wire();
  /// Bytes of tensors that this rank has sent to others of its world.
  int64_t sent_bytes() const { return sent_.load(std::memory_order_relaxed); }
  std::atomic<int64_t>& sent_counter() const { return sent_; }
  virtual const char* name() const = 0;

  /// Header of a point-to-point message.
  struct Header {
    DType dtype;
    uint8_t rank;
    int64_t sizes[max_rank];
  };
  /// A pending message; its memory belongs to the caller.
  class Transfer {
   public:
    virtual ~Transfer();
    /// Whether it is complete.
    virtual bool test() = 0;
    virtual void wait(Clock::time_point deadline) = 0;
  };

  /// Collective: sends sends[r] to rank r and receives receives[r] from it; both have an entry per rank. The sent
  /// memory may be overwritten when it returns.
  virtual void exchange(const CallRecord& call, std::span<const Sent> sends, std::span<const Received> receives,
                        Clock::time_point deadline) = 0;
  /// Collective: calls `use` with each rank's data for this rank, in rank order; all have as many bytes as this rank's
  /// own.
  using Parts = Callback<void(std::span<const void* const>)>;
  virtual void collect(const CallRecord& call, std::span<const Sent> sends, const Parts& use,
                       Clock::time_point deadline) = 0;
  virtual void wait_for_all(const CallRecord& call, Clock::time_point deadline) = 0;

  /// Reduction over all ranks, with the result on all ranks, on `root`, or sharded with `count` elements for each rank.
  struct Reducing {
    ReduceOp op;
    DType dtype;
    const void* in;
    void* out;
    int64_t count;
    enum class To : uint8_t { all, root, shares } to = To::all;
    int root = -1;
  };
  /// Native collectives of a wire. Each returns whether it was done, the same on all ranks; otherwise the caller uses
  /// `exchange` and `collect`.
  virtual bool broadcast(const CallRecord&, Received, int, Clock::time_point) { return false; }
  /// Concatenates equally many bytes of each rank, in rank order.
  virtual bool gather(const CallRecord&, Sent, void*, Clock::time_point) { return false; }
  virtual bool reduce(const CallRecord&, const Reducing&, Clock::time_point) { return false; }

  /// Notifies the other ranks of the world that this one failed. All later calls raise.
  virtual void fail(const std::string& what) noexcept = 0;
  /// Raises DistributedError if another rank has failed; for callers that wait for something else.
  virtual void check_others(const CallPlace& place) = 0;
  /// Keeps memory alive that others may read although this rank failed.
  virtual void keep(std::vector<Tensor> memory) = 0;

  virtual std::unique_ptr<Transfer> send(const CallPlace& place, int to, int tag, const Header& header, Sent data) = 0;
  /// The header of the next message; `receive` then takes the message.
  virtual Header peek(const CallPlace& place, int from, int tag, Clock::time_point deadline) = 0;
  /// The transfer's `wait` raises if the message has another header.
  virtual std::unique_ptr<Transfer> receive(const CallPlace& place, int from, int tag, const Header& header,
                                            Received data) = 0;

  /// Creates the wire of a new group; called only by its members. `ranks` are world ranks.
  virtual Shared<Wire> of_subgroup(std::span<const int> ranks, const CallRecord& call, Clock::time_point deadline) = 0;
  /// Counts background work: this rank does not exit while there is any.
  virtual void count_work(int change) noexcept = 0;

 protected:
  void count_sent(size_t bytes) { sent_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed); }
  /// Counts everything but the rank's message to itself.
  void count_sent(std::span<const Sent> sends, int rank);

 private:
  std::atomic<int64_t>& sent_;
};

bool is_same_header(const Wire::Header& a, const Wire::Header& b);
/// Raises DistributedError unless the message from rank `from` has the dtype and shape that the receiver expects.
void check_header(const CallPlace& place, int from, const Wire::Header& sent, const Wire::Header& expected);

}  // namespace weft::distributed::detail
