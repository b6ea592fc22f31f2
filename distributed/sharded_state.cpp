#include "sharded_state.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>

#include <fmt/format.h>

#include "../ops/create.hpp"
#include "../tensor/error.hpp"
#include "collectives.hpp"

namespace weft::distributed {

namespace {

/// What a rank has, as bytes.
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
  Tensor tensor() const {
    const Tensor out = empty({static_cast<int64_t>(bytes_.size())}, {.dtype = DType::u8});
    if (!bytes_.empty()) std::memcpy(out.data_ptr(), bytes_.data(), bytes_.size());
    return out;
  }

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

Tensor written(const io::RankParts& parts) {
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

io::RankParts read(const Tensor& bytes) {
  Reader from(bytes);
  io::RankParts parts;
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

/// What every rank has, by rank.
std::vector<io::RankParts> parts_of_all(const io::RankParts& own, const Group& group) {
  const Tensor bytes = written(own);
  const Tensor sizes = all_gather(tensor({bytes.numel()}), group);
  const std::vector<int64_t> counts = sizes.to_vector<int64_t>();
  const Tensor all = all_gather(bytes, counts, group);
  std::vector<io::RankParts> out;
  int64_t begin = 0;
  for (const int64_t count : counts) {
    out.push_back(read(all.narrow(0, begin, count).contiguous()));
    begin += count;
  }
  return out;
}

/// Runs a step on this rank, and lets no rank go on where one failed.
void together(const Group& group, const std::function<void()>& step) {
  std::exception_ptr own;
  try {
    step();
  } catch (...) {
    own = std::current_exception();
  }
  const int64_t failed = own != nullptr ? group.rank() : group.size();
  const auto first = all_reduce(tensor({failed}), group, ReduceOp::min).item<int64_t>();
  if (own != nullptr) std::rethrow_exception(own);
  if (first == group.size()) return;
  raise<IoError>({.problem = fmt::format("rank {} could not save its part", first)});
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

int64_t save_state_dict(const io::ShardedState& state, const io::Path& folder, const Group& group,
                        const io::SaveStateDictOptions& options, Location where) {
  const CallScope call("save_state_dict", where);
  io::RankParts own;
  together(group, [&] { own = io::parts_of(state, where); });
  io::SaveStateDictOptions known = options;
  if (!known.id) {
    int64_t next = 0;
    together(group, [&] { next = group.rank() == 0 ? io::next_state_id(folder, where) : 0; });
    known.id = broadcast(tensor({next}), 0, group).item<int64_t>();
  }
  const io::StateMetadata plan = io::plan_state(parts_of_all(own, group), known, where);
  together(group, [&] {
    if (group.rank() == 0) io::begin_state(folder, plan.id, where);
  });
  together(group, [&] { io::write_state_rank(folder, state, group.rank(), plan, where); });
  together(group, [&] {
    if (group.rank() == 0) io::finish_state(folder, plan, where);
  });
  return plan.id;
}

}  // namespace weft::distributed
