#include "../detail/begin.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "../../backends/stream.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/join.hpp"
#include "../../ops/pointwise.hpp"
#include "../../tensor/capture_recorder.hpp"
#include "../detail/gradients.hpp"
#include "../detail/reduce.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributed::detail {

namespace {

/// Up to this size every rank gets all operands and reduces them itself: one round instead of two.
constexpr size_t one_round_bytes = 1 << 14;
/// From this size on, broadcast scatters shards from the root, which are then gathered, instead of sending everything
/// to every rank.
constexpr size_t scattered_bytes = 1 << 16;

using Sizes = std::vector<int64_t>;

char* bytes_of(const Tensor& t) { return static_cast<char*>(t.data_ptr()); }
size_t size_of(const Tensor& t) { return static_cast<size_t>(t.nbytes()); }

const KernelTable& quiet_kernels(Device device) { return device.is_cpu() ? host_kernels() : kernels(device.type); }

Begun begin(const Group& group, const Tensor& x = {}) {
  weft::detail::refuse_recording("ranks exchange elements");
  group.member().check_member();
  Begun begun{group.shared_member(), {}, {}};
  begun.operation.call.place = weft::detail::current_call;
  begun.operation.streams = weft::detail::current_streams;
  if (!x.defined()) return begun;
  if (const DeviceWire* between = begun.member->device_wire(x.device(), begun.member)) {
    begun.operation.wire = between->wire.get();
    begun.operation.call.on_device = true;
    begun.device = between->device;
  }
  begun.operation.call.has_tensor = true;
  begun.operation.call.recorded = should_record(x);
  begun.operation.call.dtype = x.dtype();
  begun.operation.call.shape = x.shape();
  return begun;
}

/// Sets `finish`: moves the result to x's device and, if the call was recorded, records it by `record`.
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

/// x in contiguous memory of the device, without its history. Shares x's memory if possible.
Tensor contiguous_on(Device device, const Tensor& x) {
  const NoGradGuard unrecorded;
  const Tensor buffer = x.device() == device ? x.detach() : x.detach().to(device);
  return buffer.contiguous();
}

/// x in the memory that the ranks exchange.
Tensor on_wire(const Begun& begun, const Tensor& x) {
  return begun.device.is_cpu() ? on_host(x) : contiguous_on(begun.device, x);
}

/// For functions that write to x: the memory that ranks exchange, and the copy back to x.
Tensor target_on_wire(Begun& begun, const Tensor& x) {
  check_writable(x);
  if (begun.operation.call.recorded) {
    raise<AutogradError>({.problem = "a tensor that requires a gradient cannot be written by other ranks",
                          .remedy = "use the function without the trailing _, or x.detach()"});
  }
  note_write(x);
  const bool direct = x.device() == begun.device && x.is_contiguous();
  const Tensor buffer = on_wire(begun, x);
  begun.operation.finish = [x, buffer, direct, place = begun.operation.call.place] {
    const CallScope scope(place);
    const NoGradGuard unrecorded;
    if (!direct) x.copy_(buffer);
    return x;
  };
  return buffer;
}

/// Shards of `count` elements in memory, one for each rank.
struct Chunks {
  Chunks(int64_t count_, int ranks_, DType dtype) : count(count_), ranks(ranks_), item(weft::itemsize(dtype)) {}
  int64_t size(int r) const { return shard_size(count, ranks, r); }
  size_t bytes(int r) const { return static_cast<size_t>(size(r) * item); }
  size_t offset(int r) const { return static_cast<size_t>(shard_begin(count, ranks, r) * item); }
  int64_t count;
  int ranks;
  int64_t item;
};

/// Sends each rank's chunk of `out` to every rank.
void share_chunks(Wire& wire, const CallRecord& call, const Tensor& out, const Chunks& chunks, int rank,
                  Clock::time_point deadline) {
  std::vector<Sent> sends(static_cast<size_t>(chunks.ranks), {bytes_of(out) + chunks.offset(rank), chunks.bytes(rank)});
  std::vector<Received> receives;
  for (int r = 0; r < chunks.ranks; ++r) receives.push_back({bytes_of(out) + chunks.offset(r), chunks.bytes(r)});
  wire.exchange(call, sends, receives, deadline);
}

/// Reduces this rank's chunk of all ranks' x into its range of `out`, which may be x.
void reduce_chunk(Wire& wire, const CallRecord& call, const Tensor& out, const Tensor& x, ReduceOp op,
                  const Chunks& chunks, int rank, Clock::time_point deadline) {
  std::vector<Sent> sends;
  for (int r = 0; r < chunks.ranks; ++r) sends.push_back({bytes_of(x) + chunks.offset(r), chunks.bytes(r)});
  wire.collect(
      call, sends,
      [&](std::span<const void* const> parts) {
        reduce_in_order(op, x.dtype(), bytes_of(out) + chunks.offset(rank), parts, chunks.size(rank), x.device());
      },
      deadline);
}

void run_all_reduce(Wire& wire, const CallRecord& call, const Tensor& out, const Tensor& x, ReduceOp op, int rank,
                    int ranks, Clock::time_point deadline) {
  const size_t bytes = size_of(x);
  if (wire.reduce(call, {op, x.dtype(), x.data_ptr(), out.data_ptr(), x.numel()}, deadline)) return;
  if (bytes > one_round_bytes) {
    const Chunks chunks(x.numel(), ranks, x.dtype());
    reduce_chunk(wire, call, out, x, op, chunks, rank, deadline);
    return share_chunks(wire, call, out, chunks, rank, deadline);
  }
  // Other ranks read x until the round is over.
  const bool in_place = out.data_ptr() == x.data_ptr();
  const Tensor target = in_place ? make_like(out) : out;
  const std::vector<Sent> sends(static_cast<size_t>(ranks), {x.data_ptr(), bytes});
  wire.collect(
      call, sends,
      [&](std::span<const void* const> parts) {
        reduce_in_order(op, x.dtype(), target.data_ptr(), parts, x.numel(), x.device());
      },
      deadline);
  if (in_place) quiet_kernels(out.device()).copy(out.raw_view(), target.raw_view());
}

void run_reduce(Wire& wire, const CallRecord& call, const Tensor& out, const Tensor& x, ReduceOp op, int root, int rank,
                int ranks, Clock::time_point deadline) {
  const auto clear = [&] { quiet_kernels(out.device()).fill(out.raw_view(), 0); };
  const Wire::Reducing whole{op, x.dtype(), x.data_ptr(), out.data_ptr(), x.numel(), Wire::Reducing::To::root, root};
  if (wire.reduce(call, whole, deadline)) return rank == root ? void() : clear();
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
  if (rank != root) clear();
}

void run_broadcast(Wire& wire, const CallRecord& call, const Tensor& x, int root, int rank, int ranks,
                   Clock::time_point deadline) {
  if (wire.broadcast(call, {x.data_ptr(), size_of(x)}, root, deadline)) return;
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

/// One contiguous piece for each rank along a dimension; the operation keeps them alive.
std::vector<Tensor> pieces_of(const Tensor& x, std::span<const int64_t> sizes, int dim) {
  std::vector<Tensor> pieces;
  int64_t first = 0;
  for (const int64_t size : sizes) {
    pieces.push_back(x.narrow(dim, first, size).contiguous());
    first += size;
  }
  return pieces;
}

/// Receives pieces along a dimension. Along dimension 0, they are views of the result.
struct Joined {
  Joined(const Dims& shape, std::span<const int64_t> sizes, int dim_, DType dtype, Device device) : dim(dim_) {
    Dims whole = shape;
    whole[dim] = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    if (dim == 0) {
      out = make(whole, dtype, device);
      pieces = pieces_of(out, sizes, 0);
      return;
    }
    check_room(whole, dtype, device);
    for (const int64_t size : sizes) {
      whole[dim] = size;
      pieces.push_back(make(whole, dtype, device));
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

/// Raises ShapeError unless there is one size for each rank and, if `total` is set, they add up to it.
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
    raise_mismatch<ShapeError>(fmt::format("sum of {}", what), *total, sum);
  }
}

}  // namespace

Tensor on_host(const Tensor& x) {
  if (is_meta(x)) {
    raise<NotImplementedError>({.problem = "ranks exchange elements, which tensors on meta do not have"});
  }
  return contiguous_on(Device(), x);
}

namespace {

bool is_logical(ReduceOp op) { return op == ReduceOp::any || op == ReduceOp::all; }

/// The operand of the reduction: converted to bool for any and all.
Tensor operand_of(const Begun& begun, ReduceOp op, const Tensor& x) {
  return on_wire(begun, is_logical(op) && x.dtype() != DType::boolean ? Tensor(x.detach() != 0) : x);
}

}  // namespace

Begun begin_all_reduce(const Tensor& x, const Group& group, ReduceOp op) {
  check_reduction(op, checked(x).dtype());
  Begun begun = begin(group, x);
  begun.operation.call.reduction = static_cast<int>(op);
  const Tensor own = operand_of(begun, op, x);
  const Tensor out = make(own.sizes(), own.dtype(), begun.device);
  begun.operation.memory = {own, out};
  begun.operation.act = [out, own, op, rank = group.rank(), ranks = group.size()](Wire& wire, const CallRecord& call,
                                                                                  Clock::time_point deadline) {
    run_all_reduce(wire, call, out, own, op, rank, ranks, deadline);
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
  const Tensor own = target_on_wire(begun, x);
  begun.operation.memory = {own};
  begun.operation.act = [own, op, rank = group.rank(), ranks = group.size()](Wire& wire, const CallRecord& call,
                                                                             Clock::time_point deadline) {
    run_all_reduce(wire, call, own, own, op, rank, ranks, deadline);
  };
  return begun;
}

Begun begin_reduce(const Tensor& x, int root, const Group& group, ReduceOp op) {
  check_reduction(op, checked(x).dtype());
  Begun begun = begin(group, x);
  group.member().check_rank(root);
  begun.operation.call.reduction = static_cast<int>(op);
  begun.operation.call.root = root;
  const Tensor own = operand_of(begun, op, x);
  const Tensor out = make(own.sizes(), own.dtype(), begun.device);
  begun.operation.memory = {own, out};
  begun.operation.act = [out, own, op, root, rank = group.rank(), ranks = group.size()](
                            Wire& wire, const CallRecord& call, Clock::time_point deadline) {
    run_reduce(wire, call, out, own, op, root, rank, ranks, deadline);
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
  const Tensor own = on_wire(begun, x), out = make(own.sizes(), own.dtype(), begun.device);
  if (group.rank() == root) quiet_kernels(begun.device).copy(out.raw_view(), own.raw_view());
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
  const Tensor own = target_on_wire(begun, x);
  begun.operation.memory = {own};
  begun.operation.act = [own, root, rank = group.rank(), ranks = group.size()](Wire& wire, const CallRecord& call,
                                                                               Clock::time_point deadline) {
    run_broadcast(wire, call, own, root, rank, ranks, deadline);
  };
  return begun;
}

Begun begin_all_gather(const Tensor& x, std::span<const int64_t> sizes, const Group& group, int dim) {
  Begun begun = begin(group, x);
  check_sizes(sizes, group, {}, "sizes");
  const size_t me = static_cast<size_t>(group.rank());
  if (x.size(dim) != sizes[me]) {
    raise_mismatch<ShapeError>(fmt::format("this rank's size along dimension {}", dim), sizes[me], x.size(dim));
  }
  begun.operation.call.shape[dim] = -1;
  const Tensor own = on_wire(begun, x);
  const Joined joined(x.shape(), sizes, dim, x.dtype(), begun.device);
  begun.operation.memory = {own};
  add_memory(begun.operation, joined.pieces);
  const bool alike = dim == 0 && std::ranges::count(sizes, sizes[0]) == std::ssize(sizes);
  begun.operation.act = [own, joined, alike, ranks = sizes.size()](Wire& wire, const CallRecord& call,
                                                                   Clock::time_point deadline) {
    const Sent mine{own.data_ptr(), size_of(own)};
    if (alike && wire.gather(call, mine, joined.out.data_ptr(), deadline)) return;
    const std::vector<Sent> sends(ranks, mine);
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
  const Tensor own = operand_of(begun, op, x);
  const std::vector<Tensor> pieces = pieces_of(own, sizes, dim);
  const Tensor out = make_like(pieces[static_cast<size_t>(group.rank())]);
  begun.operation.memory = {out};
  add_memory(begun.operation, pieces);
  const bool alike = dim == 0 && std::ranges::count(sizes, sizes[0]) == std::ssize(sizes);
  begun.operation.act = [own, out, pieces, op, alike](Wire& wire, const CallRecord& call, Clock::time_point deadline) {
    const Wire::Reducing whole{
        op, out.dtype(), own.data_ptr(), out.data_ptr(), out.numel(), Wire::Reducing::To::shares};
    if (alike && wire.reduce(call, whole, deadline)) return;
    wire.collect(
        call, sent_by(pieces),
        [&](std::span<const void* const> parts) {
          reduce_in_order(op, out.dtype(), out.data_ptr(), parts, out.numel(), out.device());
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
  const std::vector<Tensor> pieces = pieces_of(on_wire(begun, x), options.send_sizes, options.split_dim);
  const Joined joined(shape, options.receive_sizes, options.join_dim, x.dtype(), begun.device);
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
