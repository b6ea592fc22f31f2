#include "../sharded_state.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

#include <fmt/format.h>

#include "../../io/files/background-inl.hpp"
#include "../../ops/create.hpp"
#include "../../tensor/error.hpp"
#include "../collectives.hpp"
#include "../detail/together.hpp"
#include "saving-inl.hpp"

namespace weft::distributed {

namespace {

/// Serializes a rank's shard descriptions.
class Writer {
 public:
  void number(int64_t n) { bytes_.append(reinterpret_cast<const char*>(&n), sizeof n); }
  void text(const std::string& s) {
    number(std::ssize(s));
    bytes_ += s;
  }
  void dims(const Dims& d) {
    number(d.size());
    for (const int64_t n : d) number(n);
  }
  Tensor tensor() const { return detail::bytes_of(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(const Tensor& bytes) : bytes_(bytes), at_(static_cast<const char*>(bytes_.data_ptr())) {}
  int64_t number() {
    int64_t n = 0;
    std::memcpy(&n, at_, sizeof n);
    at_ += sizeof n;
    return n;
  }
  std::string text() {
    const auto size = static_cast<size_t>(number());
    std::string out(at_, size);
    at_ += size;
    return out;
  }
  Dims dims() {
    Dims out;
    for (int64_t left = number(); left > 0; --left) out.push_back(number());
    return out;
  }

 private:
  Tensor bytes_;
  const char* at_;
};

Tensor written(const io::RankShards& parts) {
  Writer to;
  to.number(std::ssize(parts));
  for (const auto& [name, info] : parts) {
    to.text(name);
    to.number(static_cast<int64_t>(info.dtype));
    for (const Dims* d : {&info.global_shape, &info.global_offset, &info.local_shape}) to.dims(*d);
    to.number(info.flattened_range ? 1 : 0);
    if (info.flattened_range) to.number(info.flattened_range->begin), to.number(info.flattened_range->end);
    to.number(info.blocks);
  }
  return to.tensor();
}

io::RankShards read(const Tensor& bytes) {
  Reader from(bytes);
  io::RankShards parts;
  for (int64_t left = from.number(); left > 0; --left) {
    const std::string name = from.text();
    io::ShardInfo info;
    info.dtype = static_cast<DType>(from.number());
    for (Dims* d : {&info.global_shape, &info.global_offset, &info.local_shape}) *d = from.dims();
    if (from.number() != 0) {
      const int64_t begin = from.number();
      info.flattened_range = io::FlatRange{begin, from.number()};
    }
    info.blocks = from.number();
    parts.emplace(name, info);
  }
  return parts;
}

/// Shard descriptions of every rank, by rank.
std::vector<io::RankShards> parts_of_all(const io::RankShards& own, const Group& group) {
  const Tensor bytes = written(own);
  const Tensor sizes = all_gather(tensor({bytes.numel()}), group);
  const std::vector<int64_t> counts = sizes.to_vector<int64_t>();
  const Tensor all = all_gather(bytes, counts, group);
  std::vector<io::RankShards> out;
  int64_t begin = 0;
  for (const int64_t count : counts) {
    out.push_back(read(all.narrow(0, begin, count).contiguous()));
    begin += count;
  }
  return out;
}

}  // namespace

io::ShardedTensor shard_of(const DTensor& x, Location where) {
  const CallScope call("shard_of", where);
  const auto is_partial = [](const Placement& p) { return p.is_partial(); };
  if (std::ranges::any_of(x.placements(), is_partial) || !x.local().defined()) {
    raise<ValueError>({.problem = x.local().defined() ? "a partial tensor has no parts: " + text(x.placements())
                                                      : "this rank is outside of the mesh"});
  }
  const Part part = part_of(x.shape(), x.placements(), x.mesh().shape(), x.mesh().coordinate(), where);
  return {x.local().detach(), x.shape(), part.begin};
}

namespace detail {

PlannedState planned(const io::ShardedState& state, const io::Path& folder, const Group& group,
                     const io::SaveStateDictOptions& options, Location where) {
  io::RankShards own;
  together(group, "save", [&] { own = io::parts_of(state, where); });
  io::SaveStateDictOptions known = options;
  if (!known.id) {
    int64_t next = 0;
    together(group, "save", [&] { next = group.rank() == 0 ? io::next_state_id(folder, where) : 0; });
    known.id = broadcast(tensor({next}), 0, group).item<int64_t>();
  }
  return {state, io::plan_state(parts_of_all(own, group), known, where)};
}

void take_copies(PlannedState& state, int rank) {
  io::ShardedState copies;
  for (const auto& [key, stored] : state.plan.tensors) {
    const auto is_own = [&](const io::StoredShard& shard) { return shard.rank == rank; };
    if (std::ranges::none_of(stored.shards, is_own)) continue;
    io::ShardedTensor& part = copies.emplace(key, state.parts.at(key)).first->second;
    part.local = io::host_copy(part.local);
  }
  state.parts = std::move(copies);
}

void write(const PlannedState& state, const io::Path& folder, const Group& group, Location where) {
  const bool is_first = group.rank() == 0;
  together(group, "save", [&] {
    if (is_first) io::begin_state(folder, state.plan.id, where);
  });
  together(group, "save", [&] { io::write_state_rank(folder, state.parts, group.rank(), state.plan, where); });
  together(group, "save", [&] {
    if (is_first) io::finish_state(folder, state.plan, where);
  });
}

}  // namespace detail

int64_t save_state_dict(const io::ShardedState& state, const io::Path& folder, const Group& group,
                        const io::SaveStateDictOptions& options, Location where) {
  const CallScope call("save_state_dict", where);
  const detail::PlannedState planned = detail::planned(state, folder, group, options, where);
  detail::write(planned, folder, group, where);
  return planned.plan.id;
}

}  // namespace weft::distributed
