#include "../detail/begin.hpp"

#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "../../ops/detail/common.hpp"
#include "../../ops/join.hpp"
#include "../../ops/pointwise.hpp"
#include "../../tensor/step_recorder.hpp"
#include "../detail/gradients.hpp"
#include "../detail/reduce.hpp"

namespace weft::distributed::detail {

namespace {

/// Up to here every rank gets everything and reduces it itself: one round instead of two.
constexpr size_t one_round_bytes = 1 << 14;
/// From here on a root sends each rank a part, which then goes around, instead of everything to everyone.
constexpr size_t scattered_bytes = 1 << 16;

using Sizes = std::vector<int64_t>;

char* bytes_of(const Tensor& t) { return static_cast<char*>(t.data_ptr()); }
size_t size_of(const Tensor& t) { return static_cast<size_t>(t.nbytes()); }

Begun begin(const Group& group, const Tensor& x = {}) {
  weft::detail::refuse_recording("ranks exchange elements");
  group.member().check_member();
  Begun begun{group.shared_member(), {}};
  begun.operation.call.place = weft::detail::current_call;
  if (!x.defined()) return begun;
  begun.operation.call.has_tensor = true;
  begun.operation.call.recorded = should_record(x);
  begun.operation.call.dtype = x.dtype();
  begun.operation.call.shape = x.shape();
  return begun;
}

/// The result: on x's device and, where the call was recorded, with its history, which `record` writes.
template <class Record>
void finish_with(Begun& begun, const Tensor& x, Callback<Tensor()> host_result, Record record) {
  begun.operation.finish = [x, host_result, record, call = begun.operation.call] {
    const CallScope scope(call.place);
    Tensor out;
    {
      const NoGradGuard unrecorded;
      out = host_result();
      if (out.device() != x.device()) out = out.to(x.device());
    }
    if (call.recorded && is_floating(out.dtype())) record(out, x);
    return out;
  };
}

/// For functions that write to x: the memory that ranks exchange, and what brings it back to x.
Tensor host_target(Begun& begun, const Tensor& x) {
  check_writable(x);
  if (begun.operation.call.recorded) {
    raise<AutogradError>({.problem = "a tensor that requires a gradient cannot be written by other ranks",
                          .remedy = "use the function without the trailing _, or x.detach()"});
  }
  note_write(x);
  const bool direct = x.device().is_cpu() && x.is_contiguous();
  const Tensor host = on_host(x);
  begun.operation.finish = [x, host, direct, place = begun.operation.call.place] {
    const CallScope scope(place);
    const NoGradGuard unrecorded;
    if (!direct) x.copy_(host);
    return x;
  };
  return host;
}

/// A share of `count` elements in memory, for each rank.
struct Chunks {
  Chunks(int64_t count_, int ranks_, DType dtype) : count(count_), ranks(ranks_), item(weft::itemsize(dtype)) {}
  int64_t size(int r) const { return shard_size(count, ranks, r); }
  size_t bytes(int r) const { return static_cast<size_t>(size(r) * item); }
  size_t offset(int r) const { return static_cast<size_t>(shard_begin(count, ranks, r) * item); }
  int64_t count;
  int ranks;
  int64_t item;
};

/// Each rank's chunk of `out` to every rank.
void share_chunks(Wire& wire, const CallRecord& call, const Tensor& out, const Chunks& chunks, int rank,
                  Clock::time_point deadline) {
  std::vector<Sent> sends(static_cast<size_t>(chunks.ranks), {bytes_of(out) + chunks.offset(rank), chunks.bytes(rank)});
  std::vector<Received> receives;
  for (int r = 0; r < chunks.ranks; ++r) receives.push_back({bytes_of(out) + chunks.offset(r), chunks.bytes(r)});
  wire.exchange(call, sends, receives, deadline);
}

/// This rank's chunk of all ranks' x, reduced, to its place in `out`, which may be x.
void reduce_chunk(Wire& wire, const CallRecord& call, const Tensor& out, const Tensor& x, ReduceOp op,
                  const Chunks& chunks, int rank, Clock::time_point deadline) {
  std::vector<Sent> sends;
  for (int r = 0; r < chunks.ranks; ++r) sends.push_back({bytes_of(x) + chunks.offset(r), chunks.bytes(r)});
  wire.collect(
      call, sends,
      [&](std::span<const void* const> parts) {
        reduce_in_order(op, x.dtype(), bytes_of(out) + chunks.offset(rank), parts, chunks.size(rank));
      },
      deadline);
}

void run_all_reduce(Wire& wire, const CallRecord& call, const Tensor& out, const Tensor& x, ReduceOp op, int rank,
                    int ranks, Clock::time_point deadline) {
  const size_t bytes = size_of(x);
  if (bytes > one_round_bytes) {
    const Chunks chunks(x.numel(), ranks, x.dtype());
    reduce_chunk(wire, call, out, x, op, chunks, rank, deadline);
    return share_chunks(wire, call, out, chunks, rank, deadline);
  }
  // Others read x until the round is over.
  const bool in_place = out.data_ptr() == x.data_ptr();
  std::vector<char> room(in_place ? bytes : 0);
  char* const target = in_place ? room.data() : bytes_of(out);
  const std::vector<Sent> sends(static_cast<size_t>(ranks), {x.data_ptr(), bytes});
  wire.collect(
      call, sends,
      [&](std::span<const void* const> parts) { reduce_in_order(op, x.dtype(), target, parts, x.numel()); }, deadline);
  if (in_place && bytes != 0) std::memcpy(out.data_ptr(), target, bytes);
}

void run_reduce(Wire& wire, const CallRecord& call, const Tensor& out, const Tensor& x, ReduceOp op, int root, int rank,
                int ranks, Clock::time_point deadline) {
  const Chunks chunks(x.numel(), ranks, x.dtype());
  reduce_chunk(wire, call, out, x, op, chunks, rank, deadline);
  std::vector<Sent> sends(static_cast<size_t>(ranks));
  std::vector<Received> receives(sends.size());
  sends[static_cast<size_t>(root)] = {bytes_of(out) + chunks.offset(rank), chunks.bytes(rank)};
  if (rank == root) {
    for (int r = 0; r < ranks; ++r) {
      receives[static_cast<size_t>(r)] = {bytes_of(out) + chunks.offset(r), chunks.bytes(r)};
    }
  }
  wire.exchange(call, sends, receives, deadline);
  if (rank != root && size_of(out) != 0) std::memset(out.data_ptr(), 0, size_of(out));
}

void run_broadcast(Wire& wire, const CallRecord& call, const Tensor& x, int root, int rank, int ranks,
                   Clock::time_point deadline) {
  std::vector<Sent> sends(static_cast<size_t>(ranks));
  std::vector<Received> receives(sends.size());
  const Chunks chunks(x.numel(), ranks, x.dtype());
  const bool scattered = ranks > 2 && size_of(x) > scattered_bytes;
  const auto offset = [&](int r) { return scattered ? chunks.offset(r) : 0; };
  const auto bytes = [&](int r) { return scattered ? chunks.bytes(r) : size_of(x); };
  if (rank == root) {
    for (int r = 0; r < ranks; ++r) sends[static_cast<size_t>(r)] = {bytes_of(x) + offset(r), bytes(r)};
  }
  receives[static_cast<size_t>(root)] = {bytes_of(x) + offset(rank), bytes(rank)};
  wire.exchange(call, sends, receives, deadline);
  if (scattered) share_chunks(wire, call, x, chunks, rank, deadline);
}

/// One piece for each rank along a dimension, contiguous, and kept by the operation.
std::vector<Tensor> pieces_of(const Tensor& x, std::span<const int64_t> sizes, int dim) {
  std::vector<Tensor> pieces;
  int64_t first = 0;
  for (const int64_t size : sizes) {
    pieces.push_back(x.narrow(dim, first, size).contiguous());
    first += size;
  }
  return pieces;
}

/// What is received in pieces along a dimension. Those along the first lie one after the other in the result.
struct Joined {
  Joined(const Dims& shape, std::span<const int64_t> sizes, int dim_, DType dtype) : dim(dim_) {
    Dims whole = shape;
    whole[dim] = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    if (dim == 0) {
      out = make(whole, dtype, Device());
      pieces = pieces_of(out, sizes, 0);
      return;
    }
    check_room(whole, dtype, Device());
    for (const int64_t size : sizes) {
      whole[dim] = size;
      pieces.push_back(make(whole, dtype, Device()));
    }
  }
  Tensor join() const { return dim == 0 ? out : cat(pieces, dim); }

  int dim;
  Tensor out;
  std::vector<Tensor> pieces;
};

std::vector<Sent> sent_by(const std::vector<Tensor>& pieces) {
  std::vector<Sent> sends;
  for (const Tensor& piece : pieces) sends.push_back({piece.data_ptr(), size_of(piece)});
  return sends;
}
std::vector<Received> received_by(const std::vector<Tensor>& pieces) {
  std::vector<Received> receives;
  for (const Tensor& piece : pieces) receives.push_back({piece.data_ptr(), size_of(piece)});
  return receives;
}

void add_memory(Operation& operation, const std::vector<Tensor>& tensors) {
  operation.memory.insert(operation.memory.end(), tensors.begin(), tensors.end());
}

/// One size for each rank; ShapeError unless they are as many and, where `total` is given, add up to it.
void check_sizes(std::span<const int64_t> sizes, const Group& group, std::optional<int64_t> total, const char* what) {
  if (static_cast<int>(sizes.size()) != group.size()) {
    raise<ShapeError>({.problem = fmt::format("{} {} for a group of {} ranks", sizes.size(), what, group.size())});
  }
  int64_t sum = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || __builtin_add_overflow(sum, size, &sum)) {
      raise<ShapeError>({.problem = fmt::format("{} is no size; {} are given", size, what)});
    }
  }
  if (total && sum != *total) {
    raise<ShapeError>({.problem = fmt::format("the {} add up to {}, not to {}", what, sum, *total)});
  }
}

}  // namespace

Tensor on_host(const Tensor& x) {
  if (is_meta(x)) {
    raise<NotImplementedError>({.problem = "ranks exchange elements, which tensors on meta do not have"});
  }
  const NoGradGuard unrecorded;
  const Tensor host = x.device().is_cpu() ? x.detach() : x.detach().to("cpu");
  return host.contiguous();
}

namespace {

bool is_logical(ReduceOp op) { return op == ReduceOp::any || op == ReduceOp::all; }

/// What ranks combine: bools for any and all.
Tensor operand_of(ReduceOp op, const Tensor& x) {
  return on_host(is_logical(op) && x.dtype() != DType::boolean ? Tensor(x.detach() != 0) : x);
}

}  // namespace

Begun begin_all_reduce(const Tensor& x, const Group& group, ReduceOp op) {
  check_reduction(op, checked(x).dtype());
  Begun begun = begin(group, x);
  begun.operation.call.reduction = static_cast<int>(op);
  const Tensor host = operand_of(op, x);
  const Tensor out = make(host.sizes(), host.dtype(), Device());
  begun.operation.memory = {host, out};
  begun.operation.act = [out, host, op, rank = group.rank(), ranks = group.size()](Wire& wire, const CallRecord& call,
                                                                                   Clock::time_point deadline) {
    run_all_reduce(wire, call, out, host, op, rank, ranks, deadline);
  };
  finish_with(
      begun, x, [out] { return out; },
      [group, op](const Tensor& result, const Tensor& from) { record_all_reduce(result, from, group, op); });
  return begun;
}

Begun begin_all_reduce_into(const Tensor& x, const Group& group, ReduceOp op) {
  check_reduction(op, checked(x).dtype());
  if (is_logical(op) && x.dtype() != DType::boolean) {
    raise<DTypeError>({.problem = fmt::format("{} gives bool, which cannot be written to {}", name(op), describe(x))});
  }
  Begun begun = begin(group, x);
  begun.operation.call.reduction = static_cast<int>(op);
  const Tensor host = host_target(begun, x);
  begun.operation.memory = {host};
  begun.operation.act = [host, op, rank = group.rank(), ranks = group.size()](Wire& wire, const CallRecord& call,
                                                                              Clock::time_point deadline) {
    run_all_reduce(wire, call, host, host, op, rank, ranks, deadline);
  };
  return begun;
}

Begun begin_reduce(const Tensor& x, int root, const Group& group, ReduceOp op) {
  check_reduction(op, checked(x).dtype());
  Begun begun = begin(group, x);
  group.member().check_rank(root);
  begun.operation.call.reduction = static_cast<int>(op);
  begun.operation.call.root = root;
  const Tensor host = operand_of(op, x);
  const Tensor out = make(host.sizes(), host.dtype(), Device());
  begun.operation.memory = {host, out};
  begun.operation.act = [out, host, op, root, rank = group.rank(), ranks = group.size()](
                            Wire& wire, const CallRecord& call, Clock::time_point deadline) {
    run_reduce(wire, call, out, host, op, root, rank, ranks, deadline);
  };
  finish_with(
      begun, x, [out] { return out; },
      [group, root, op](const Tensor& result, const Tensor& from) { record_reduce(result, from, root, group, op); });
  return begun;
}

Begun begin_broadcast(const Tensor& x, int root, const Group& group) {
  Begun begun = begin(group, checked(x));
  group.member().check_rank(root);
  begun.operation.call.root = root;
  const Tensor host = on_host(x), out = make(host.sizes(), host.dtype(), Device());
  if (group.rank() == root) host_kernels().copy(out.raw_view(), host.raw_view());
  begun.operation.memory = {out};
  begun.operation.act = [out, root, rank = group.rank(), ranks = group.size()](Wire& wire, const CallRecord& call,
                                                                               Clock::time_point deadline) {
    run_broadcast(wire, call, out, root, rank, ranks, deadline);
  };
  finish_with(
      begun, x, [out] { return out; },
      [group, root](const Tensor& result, const Tensor& from) { record_broadcast(result, from, root, group); });
  return begun;
}

Begun begin_broadcast_into(const Tensor& x, int root, const Group& group) {
  Begun begun = begin(group, checked(x));
  group.member().check_rank(root);
  begun.operation.call.root = root;
  const Tensor host = host_target(begun, x);
  begun.operation.memory = {host};
  begun.operation.act = [host, root, rank = group.rank(), ranks = group.size()](Wire& wire, const CallRecord& call,
                                                                                Clock::time_point deadline) {
    run_broadcast(wire, call, host, root, rank, ranks, deadline);
  };
  return begun;
}

Begun begin_all_gather(const Tensor& x, std::span<const int64_t> sizes, const Group& group, int dim) {
  Begun begun = begin(group, x);
  check_sizes(sizes, group, {}, "sizes");
  const size_t me = static_cast<size_t>(group.rank());
  if (x.size(dim) != sizes[me]) {
    raise<ShapeError>(
        {.problem = fmt::format("this rank's size along dimension {} is {}, not {}", dim, x.size(dim), sizes[me])});
  }
  begun.operation.call.shape[dim] = -1;
  const Tensor host = on_host(x);
  const Joined joined(x.shape(), sizes, dim, x.dtype());
  begun.operation.memory = {host};
  add_memory(begun.operation, joined.pieces);
  begun.operation.act = [host, joined, ranks = sizes.size()](Wire& wire, const CallRecord& call,
                                                             Clock::time_point deadline) {
    const std::vector<Sent> sends(ranks, {host.data_ptr(), size_of(host)});
    wire.exchange(call, sends, received_by(joined.pieces), deadline);
  };
  finish_with(
      begun, x, [joined] { return joined.join(); },
      [group, dim, kept = Sizes(sizes.begin(), sizes.end())](const Tensor& result, const Tensor& from) {
        record_all_gather(result, from, kept, group, dim);
      });
  return begun;
}

Begun begin_reduce_scatter(const Tensor& x, std::span<const int64_t> sizes, const Group& group, ReduceOp op, int dim) {
  check_reduction(op, x.dtype());
  Begun begun = begin(group, x);
  check_sizes(sizes, group, x.size(dim), "sizes");
  begun.operation.call.reduction = static_cast<int>(op);
  const Tensor host = operand_of(op, x);
  const std::vector<Tensor> pieces = pieces_of(host, sizes, dim);
  const Tensor out = make_like(pieces[static_cast<size_t>(group.rank())]);
  begun.operation.memory = {out};
  add_memory(begun.operation, pieces);
  begun.operation.act = [out, pieces, op](Wire& wire, const CallRecord& call, Clock::time_point deadline) {
    wire.collect(
        call, sent_by(pieces),
        [&](std::span<const void* const> parts) {
          reduce_in_order(op, out.dtype(), out.data_ptr(), parts, out.numel());
        },
        deadline);
  };
  finish_with(
      begun, x, [out] { return out; },
      [group, op, dim, kept = Sizes(sizes.begin(), sizes.end())](const Tensor& result, const Tensor& from) {
        record_reduce_scatter(result, from, kept, group, op, dim);
      });
  return begun;
}

Begun begin_all_to_all(const Tensor& x, const Group& group, const AllToAllOptions& given) {
  Begun begun = begin(group, x);
  AllToAllOptions options = given;
  options.split_dim = wrap_dim(given.split_dim, x.dim());
  options.join_dim = wrap_dim(given.join_dim, x.dim());
  const int64_t n = x.size(options.split_dim);
  if (options.send_sizes.empty()) options.send_sizes = shard_sizes(n, group.size());
  check_sizes(options.send_sizes, group, n, "send_sizes");
  const int64_t own = options.send_sizes[static_cast<size_t>(group.rank())];
  const bool same_dim = options.split_dim == options.join_dim;
  if (options.receive_sizes.empty()) {
    options.receive_sizes.assign(options.send_sizes.size(), same_dim ? own : x.size(options.join_dim));
  }
  check_sizes(options.receive_sizes, group, {}, "receive_sizes");
  begun.operation.call.shape[options.split_dim] = begun.operation.call.shape[options.join_dim] = -1;
  Dims shape = x.shape();
  if (!same_dim) shape[options.split_dim] = own;
  const std::vector<Tensor> pieces = pieces_of(on_host(x), options.send_sizes, options.split_dim);
  const Joined joined(shape, options.receive_sizes, options.join_dim, x.dtype());
  begun.operation.memory = pieces;
  add_memory(begun.operation, joined.pieces);
  begun.operation.act = [pieces, joined](Wire& wire, const CallRecord& call, Clock::time_point deadline) {
    wire.exchange(call, sent_by(pieces), received_by(joined.pieces), deadline);
  };
  finish_with(
      begun, x, [joined] { return joined.join(); },
      [group, options](const Tensor& result, const Tensor& from) { record_all_to_all(result, from, group, options); });
  return begun;
}

Begun begin_barrier(const Group& group) {
  Begun begun = begin(group);
  begun.operation.act = [](Wire& wire, const CallRecord& call, Clock::time_point deadline) {
    wire.wait_for_all(call, deadline);
  };
  return begun;
}

}  // namespace weft::distributed::detail
