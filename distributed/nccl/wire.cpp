// Ranks first announce each transfer on the host's wire. This costs a round of small messages, and no device waits
// for a rank that never sends. Floats are combined in the order of ranks unless NCCL's own sums are requested.
#include "wire.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "../../tensor/warning.hpp"
#include "../error.hpp"

namespace weft::distributed::nccl {

namespace {

using detail::CallRecord;
using detail::Clock;
using detail::Received;
using detail::Sent;
using detail::Wire;

/// NCCL's type for reductions of a dtype; empty if there is none. bool is u8, for which max and min are `any` and
/// `all`.
std::optional<DataType> type_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8:
      return DataType::u8;
    case DType::i8:
      return DataType::i8;
    case DType::i32:
      return DataType::i32;
    case DType::u32:
      return DataType::u32;
    case DType::i64:
      return DataType::i64;
    case DType::u64:
      return DataType::u64;
    case DType::f16:
      return DataType::f16;
    case DType::bf16:
      return DataType::bf16;
    case DType::f32:
      return DataType::f32;
    case DType::f64:
      return DataType::f64;
    default:
      return {};
  }
}

Reduction reduction_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return Reduction::sum;
    case ReduceOp::avg:
      return Reduction::avg;
    case ReduceOp::prod:
      return Reduction::prod;
    case ReduceOp::min:
    case ReduceOp::all:
      return Reduction::min;
    default:
      return Reduction::max;
  }
}

/// A message from each rank to each other one, on the host. Its memory must outlive a failure, since others may still
/// use it.
template <class T>
class Round {
 public:
  explicit Round(int ranks) : out_(room(ranks)), in_(room(ranks)) {}
  std::span<T> told() const { return {static_cast<T*>(out_.data_ptr()), count()}; }
  std::span<T> heard() const { return {static_cast<T*>(in_.data_ptr()), count()}; }

  void exchange(Wire& host, const CallRecord& call, Clock::time_point deadline) const {
    std::vector<Sent> sends;
    std::vector<Received> receives;
    for (T& one : told()) sends.push_back({&one, sizeof(T)});
    for (T& one : heard()) receives.push_back({&one, sizeof(T)});
    try {
      host.exchange(call, sends, receives, deadline);
    } catch (...) {
      host.keep({out_, in_});
      throw;
    }
  }

 private:
  static Tensor room(int ranks) {
    return Tensor::adopt(weft::detail::new_tensor(Dims{static_cast<int64_t>(sizeof(T)) * ranks}, DType::u8, Device()));
  }
  size_t count() const { return static_cast<size_t>(out_.nbytes()) / sizeof(T); }

  Tensor out_, in_;
};

class NcclWire final : public Wire {
 public:
  NcclWire(const Site& site, const Shared<Wire>& host, int rank, int ranks, bool own_sums)
      : Wire(host->sent_counter()), site_(site), host_(host), rank_(rank), ranks_(ranks), own_sums_(own_sums) {}
  ~NcclWire() override { give_up(); }

  const char* name() const override { return "NCCL"; }

  void begin(const UniqueId& id, const CallPlace& place, Clock::time_point deadline) {
    guarded([&] {
      Config config;
      Result result = Result::internal_error;
      site_.enter([&] { result = library().CommInitRankConfig(&comm_, ranks_, id, rank_, &config); });
      settle(result, "ncclCommInitRankConfig", place, deadline);
    });
  }

  void exchange(const CallRecord& call, std::span<const Sent> sends, std::span<const Received> receives,
                Clock::time_point deadline) override {
    agree(call, sends, receives, deadline);
    count_sent(sends, rank_);
    run(call.place, deadline, [&](void* stream) {
      for (int r = 0; r < ranks_; ++r) {
        const Sent& sent = sends[static_cast<size_t>(r)];
        const Received& received = receives[static_cast<size_t>(r)];
        if (r == rank_ && sent.data == received.data) continue;
        if (sent.bytes != 0) {
          check(library().Send(sent.data, sent.bytes, DataType::u8, r, comm_, stream), "ncclSend", call.place);
        }
        if (received.bytes != 0) {
          check(library().Recv(received.data, received.bytes, DataType::u8, r, comm_, stream), "ncclRecv", call.place);
        }
      }
    });
  }

  void collect(const CallRecord& call, std::span<const Sent> sends, const Parts& use,
               Clock::time_point deadline) override {
    const Sent& own = sends[static_cast<size_t>(rank_)];
    const Tensor room = Tensor::adopt(
        weft::detail::new_tensor(Dims{static_cast<int64_t>(own.bytes) * (ranks_ - 1)}, DType::u8, site_.device));
    char* next = static_cast<char*>(room.data_ptr());
    std::vector<Received> receives(sends.size(), {const_cast<void*>(own.data), own.bytes});
    std::vector<const void*> parts(sends.size(), own.data);
    for (size_t r = 0; r < sends.size(); ++r) {
      if (static_cast<int>(r) == rank_) continue;
      receives[r].data = next;
      parts[r] = next;
      next += own.bytes;
    }
    try {
      exchange(call, sends, receives, deadline);
    } catch (...) {
      host_->keep({room});
      throw;
    }
    use(parts);
  }

  bool broadcast(const CallRecord& call, Received data, int root, Clock::time_point deadline) override {
    agree_on(call, data.bytes, deadline);
    if (rank_ == root) count_sent(data.bytes * static_cast<size_t>(ranks_ - 1));
    if (data.bytes == 0) return true;
    run(call.place, deadline, [&](void* stream) {
      check(library().Broadcast(data.data, data.data, data.bytes, DataType::u8, root, comm_, stream), "ncclBroadcast",
            call.place);
    });
    return true;
  }

  bool gather(const CallRecord& call, Sent own, void* all, Clock::time_point deadline) override {
    agree_on(call, own.bytes, deadline);
    count_sent(own.bytes * static_cast<size_t>(ranks_ - 1));
    if (own.bytes == 0) return true;
    run(call.place, deadline, [&](void* stream) {
      check(library().AllGather(own.data, all, own.bytes, DataType::u8, comm_, stream), "ncclAllGather", call.place);
    });
    return true;
  }

  bool reduce(const CallRecord& call, const Reducing& r, Clock::time_point deadline) override {
    const std::optional<DataType> type = type_of(r.dtype);
    // NCCL sums floats in another order, and its extremes may drop NaN.
    const bool is_sum = r.op == ReduceOp::sum || r.op == ReduceOp::avg || r.op == ReduceOp::prod;
    if (!type || (is_floating(r.dtype) && !(own_sums_ && is_sum))) return false;
    const size_t bytes = static_cast<size_t>(r.count * itemsize(r.dtype)), count = static_cast<size_t>(r.count);
    agree_on(call, bytes, deadline);
    count_sent(bytes * static_cast<size_t>(ranks_ - 1));
    if (bytes == 0) return true;
    const Reduction op = reduction_of(r.op);
    run(call.place, deadline, [&](void* stream) {
      switch (r.to) {
        case Reducing::To::all:
          return check(library().AllReduce(r.in, r.out, count, *type, op, comm_, stream), "ncclAllReduce", call.place);
        case Reducing::To::root:
          return check(library().Reduce(r.in, r.out, count, *type, op, r.root, comm_, stream), "ncclReduce",
                       call.place);
        case Reducing::To::shares:
          return check(library().ReduceScatter(r.in, r.out, count, *type, op, comm_, stream), "ncclReduceScatter",
                       call.place);
      }
    });
    return true;
  }

  // Operations without elements on devices use the host's wire.
  void wait_for_all(const CallRecord& call, Clock::time_point deadline) override {
    host_->wait_for_all(call, deadline);
  }
  void fail(const std::string& what) noexcept override { host_->fail(what); }
  void check_others(const CallPlace& place) override { host_->check_others(place); }
  void keep(std::vector<Tensor> memory) override { host_->keep(std::move(memory)); }
  std::unique_ptr<Transfer> send(const CallPlace& place, int to, int tag, const Header& header, Sent data) override {
    return host_->send(place, to, tag, header, data);
  }
  Header peek(const CallPlace& place, int from, int tag, Clock::time_point deadline) override {
    return host_->peek(place, from, tag, deadline);
  }
  std::unique_ptr<Transfer> receive(const CallPlace& place, int from, int tag, const Header& header,
                                    Received data) override {
    return host_->receive(place, from, tag, header, data);
  }
  Shared<Wire> of_subgroup(std::span<const int> ranks, const CallRecord& call, Clock::time_point deadline) override {
    return host_->of_subgroup(ranks, call, deadline);
  }
  void count_work(int change) noexcept override { host_->count_work(change); }

 private:
  const Library& library() const { return *site_.library; }

  [[noreturn]] void raise_failure(const char* function, Result result, const CallPlace& place) const {
    const char* const last = library().GetLastError(comm_);
    throw DistributedError(
        format_error({.op = place.op,
                      .problem = fmt::format("rank {}: {} failed with code {} ({})", rank_, function,
                                             static_cast<int>(result), library().GetErrorString(result)),
                      .details = last != nullptr ? std::string(last) : std::string(),
                      .remedy = "WEFT_NCCL=0 has tensors pass through the host"},
                     place.where));
  }
  void check(Result result, const char* function, const CallPlace& place) const {
    if (result != Result::success && result != Result::in_progress) raise_failure(function, result, place);
  }

  /// Exchanges message sizes before anything is queued. So the host's wire detects missing ranks, other calls and other
  /// sizes, and the devices never wait for them.
  void agree(const CallRecord& call, std::span<const Sent> sends, std::span<const Received> receives,
             Clock::time_point deadline) {
    const Round<uint64_t> sizes(ranks_);
    for (size_t r = 0; r < sends.size(); ++r) sizes.told()[r] = sends[r].bytes;
    sizes.exchange(*host_, call, deadline);
    const std::span<const uint64_t> heard = sizes.heard();
    for (size_t r = 0; r < sends.size(); ++r) {
      if (heard[r] == receives[r].bytes) continue;
      throw DistributedError(format_error({.op = call.place.op,
                                           .problem = fmt::format("rank {} sends {} bytes where rank {} expects {}", r,
                                                                  heard[r], rank_, receives[r].bytes),
                                           .details = "sizes that are given must agree between ranks"},
                                          call.place.where));
    }
  }
  void agree_on(const CallRecord& call, size_t bytes, Clock::time_point deadline) {
    const std::vector<Sent> sends(static_cast<size_t>(ranks_), {nullptr, bytes});
    const std::vector<Received> receives(static_cast<size_t>(ranks_), {nullptr, bytes});
    agree(call, sends, receives, deadline);
  }

  /// Queues the NCCL calls of `calls` as one group, and waits for them.
  template <class Calls>
  void run(const CallPlace& place, Clock::time_point deadline, Calls calls) {
    if (comm_ == nullptr) {
      throw DistributedError(
          format_error({.op = place.op, .problem = "the communicator was given up after a failure"}, place.where));
    }
    guarded([&] {
      const std::unique_ptr<Queue> queue = site_.queue();
      check(library().GroupStart(), "ncclGroupStart", place);
      try {
        calls(queue->handle());
      } catch (...) {
        library().GroupEnd();
        throw;
      }
      settle(library().GroupEnd(), "ncclGroupEnd", place, deadline);
      queue->mark();
      wait_until(
          [&] {
            if (queue->reached()) return true;
            check(state("the collective", place), "the collective", place);
            return false;
          },
          place, deadline);
      check(state("the collective", place), "the collective", place);
    });
  }

  Result state(const char*, const CallPlace& place) const {
    Result result = Result::success;
    check(library().CommGetAsyncError(comm_, &result), "ncclCommGetAsyncError", place);
    return result;
  }

  /// Waits until the library has accepted a call; functions of a non-blocking communicator return earlier.
  void settle(Result result, const char* function, const CallPlace& place, Clock::time_point deadline) {
    check(result, function, place);
    if (result == Result::success) return;
    wait_until(
        [&] {
          result = state(function, place);
          check(result, function, place);
          return result == Result::success;
        },
        place, deadline);
  }

  template <class Done>
  void wait_until(Done done, const CallPlace& place, Clock::time_point deadline) {
    constexpr auto busy = std::chrono::microseconds(50);
    constexpr Clock::duration longest = std::chrono::milliseconds(1);
    for (const auto begun = Clock::now(); !done();) {
      const auto now = Clock::now();
      if (now >= deadline) {
        throw DistributedError(format_error(
            {.op = place.op, .problem = fmt::format("rank {}: the devices of other ranks did not come in time", rank_)},
            place.where));
      }
      if (now - begun < busy) continue;
      host_->check_others(place);
      std::this_thread::sleep_for(std::min(longest, (now - begun) / 8));
    }
  }

  /// Aborts pending device work on any error.
  template <class Act>
  void guarded(Act act) {
    try {
      act();
    } catch (...) {
      give_up();
      throw;
    }
  }
  void give_up() noexcept {
    if (comm_ == nullptr) return;
    site_.enter([&] { library().CommAbort(comm_); });
    comm_ = nullptr;
  }

  const Site site_;
  const Shared<Wire> host_;
  const int rank_, ranks_;
  const bool own_sums_;
  Communicator* comm_ = nullptr;
};

/// Facts that ranks exchange before they connect.
struct Told {
  int version = 0;  ///< 0: no library
  int unwanted = 0;
  int own_sums = 0;
  char identity[112] = {};
  UniqueId id = {};
};

/// Reason why these ranks cannot be connected; empty if they can.
std::string obstacle(std::span<const Told> all) {
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].version == 0) return fmt::format("rank {} has no NCCL", r);
    if (all[r].version != all[0].version) {
      return fmt::format("ranks 0 and {} have NCCL {} and {}", r, all[0].version, all[r].version);
    }
    for (size_t before = 0; before < r; ++before) {
      if (std::strcmp(all[before].identity, all[r].identity) == 0) {
        return fmt::format("ranks {} and {} are on one device", before, r);
      }
    }
  }
  return {};
}

}  // namespace

Queue::~Queue() = default;

Shared<Wire> connect(const Site& site, const Shared<Wire>& host, int rank, int ranks, const CallRecord& call,
                     Clock::time_point deadline) {
  Told own;
  own.unwanted = site.wanted ? 0 : 1;
  if (site.wanted && site.library != nullptr) {
    own.version = site.library->version;
    own.own_sums = site.own_sums ? 1 : 0;
    site.identity.copy(own.identity, sizeof(own.identity) - 1);
    if (rank == 0 && site.library->GetUniqueId(&own.id) != Result::success) own.version = 0;
  }
  const Round<Told> round(ranks);
  std::ranges::fill(round.told(), own);
  round.exchange(*host, call, deadline);
  const std::span<const Told> all = round.heard();
  if (std::ranges::any_of(all, [](const Told& each) { return each.unwanted != 0; })) return {};
  if (const std::string why = obstacle(all); !why.empty()) {
    if (rank == 0) {
      warn({.op = call.place.op,
            .problem = fmt::format("{}: tensors of the group pass through the host", why),
            .remedy = "give each rank a GPU of its own and the same NCCL, or set WEFT_NCCL=0"},
           call.place.where);
    }
    return {};
  }
  const bool own_sums = std::ranges::all_of(all, [](const Told& each) { return each.own_sums != 0; });
  Shared<NcclWire> wire = Shared<NcclWire>::make(site, host, rank, ranks, own_sums);
  wire->begin(all[0].id, call.place, deadline);
  return wire;
}

}  // namespace weft::distributed::nccl
