// How the ranks of a group reach each other: one small interface, which threads of a process and MPI implement.
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

/// What one rank's call of a collective is; those of all ranks agree, their places aside.
struct CallRecord {
  CallPlace place = {};
  /// How many collectives this rank called on the group before.
  uint64_t number = 0;
  bool has_tensor = false;
  bool recorded = false;
  /// Its tensor travels from device to device, as that of every rank.
  bool on_device = false;
  DType dtype = DType::u8;
  /// -1 stands for a size that ranks may have in their own way.
  Dims shape = {};
  int reduction = -1, root = -1;

  /// "all_reduce of float32 [2, 3] by sum"
  std::string text() const;
  bool agrees(const CallRecord& other) const;
};

/// Raises DistributedError: this rank's call is not that of `other_rank`, which is at `other_place`.
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

/// One rank's end of the wires of a group. Raises DistributedError where others fail, end or are late.
class Wire {
 public:
  /// `sent` counts for all wires of this rank's world, and outlives them.
  explicit Wire(std::atomic<int64_t>& sent) : sent_(sent) {}
  virtual ~Wire();
  /// Bytes of tensors that this rank has sent to others of its world.
  int64_t sent_bytes() const { return sent_.load(std::memory_order_relaxed); }
  std::atomic<int64_t>& sent_counter() const { return sent_; }
  virtual const char* name() const = 0;

  /// What a message from one rank to another says of itself.
  struct Header {
    DType dtype;
    uint8_t rank;
    int64_t sizes[max_rank];
  };
  /// A message under way; its memory belongs to the caller.
  class Transfer {
   public:
    virtual ~Transfer();
    /// Whether it is complete.
    virtual bool test() = 0;
    virtual void wait(Clock::time_point deadline) = 0;
  };

  /// Every rank calls it: sends[r] goes to rank r, receives[r] comes from it. Both have an entry per rank. The memory
  /// sent may be written when it returns.
  virtual void exchange(const CallRecord& call, std::span<const Sent> sends, std::span<const Received> receives,
                        Clock::time_point deadline) = 0;
  /// Every rank calls it: `use` sees what each rank sends to this one, in the order of ranks; all have as many bytes as
  /// this rank's own.
  using Parts = Callback<void(std::span<const void* const>)>;
  virtual void collect(const CallRecord& call, std::span<const Sent> sends, const Parts& use,
                       Clock::time_point deadline) = 0;
  virtual void wait_for_all(const CallRecord& call, Clock::time_point deadline) = 0;

  /// Elements of all ranks combined, on all of them or on `root`; or this rank's share of `count` of them.
  struct Reducing {
    ReduceOp op;
    DType dtype;
    const void* in;
    void* out;
    int64_t count;
    enum class To : uint8_t { all, root, shares } to = To::all;
    int root = -1;
  };
  /// What a wire with collectives of its own does at once. It answers, on all ranks alike, whether it did; the others
  /// are made of `exchange` and `collect`.
  virtual bool broadcast(const CallRecord&, Received, int, Clock::time_point) { return false; }
  /// As many bytes of each rank, in their order.
  virtual bool gather(const CallRecord&, Sent, void*, Clock::time_point) { return false; }
  virtual bool reduce(const CallRecord&, const Reducing&, Clock::time_point) { return false; }

  /// Tells the other ranks of the world that this one failed. All that is called later raises.
  virtual void fail(const std::string& what) noexcept = 0;
  /// DistributedError where another rank has failed: for who waits for something else.
  virtual void check_others(const CallPlace& place) = 0;
  /// Memory that others may read although this rank failed.
  virtual void keep(std::vector<Tensor> memory) = 0;

  virtual std::unique_ptr<Transfer> send(const CallPlace& place, int to, int tag, const Header& header, Sent data) = 0;
  /// The header of the next message, which `receive` then takes.
  virtual Header peek(const CallPlace& place, int from, int tag, Clock::time_point deadline) = 0;
  /// Raises from `wait` where the message's header is another.
  virtual std::unique_ptr<Transfer> receive(const CallPlace& place, int from, int tag, const Header& header,
                                            Received data) = 0;

  /// The wire of a new group, called by its members alone. `ranks` are numbers of the world.
  virtual Shared<Wire> of_subgroup(std::span<const int> ranks, const CallRecord& call, Clock::time_point deadline) = 0;
  /// Of works on threads of their own: this rank does not end before them.
  virtual void count_work(int change) noexcept = 0;

 protected:
  void count_sent(size_t bytes) { sent_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed); }
  /// All but what a rank has for itself.
  void count_sent(std::span<const Sent> sends, int rank);

 private:
  std::atomic<int64_t>& sent_;
};

bool is_same_header(const Wire::Header& a, const Wire::Header& b);
/// DistributedError unless the message from rank `from` is of the dtype and shape that the receiver has.
void check_header(const CallPlace& place, int from, const Wire::Header& sent, const Wire::Header& expected);

}  // namespace weft::distributed::detail
