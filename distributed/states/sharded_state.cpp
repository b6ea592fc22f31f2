#include "../sharded_state.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

#include <fmt/format.h>

#include "../../io/files/background-inl.hpp"
#include "../../ops/create.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/threads.hpp"
#include "../../tensor/warning.hpp"
#include "../collectives.hpp"
#include "../detail/member.hpp"
#include "../detail/together.hpp"

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

namespace {

/// Who writes what; the same on all ranks.
io::StateMetadata plan_of(const io::ShardedState& state, const io::Path& folder, const Group& group,
                          const io::SaveStateDictOptions& options, Location where) {
  io::RankParts own;
  detail::together(group, "save", [&] { own = io::parts_of(state, where); });
  io::SaveStateDictOptions known = options;
  if (!known.id) {
    int64_t next = 0;
    detail::together(group, "save", [&] { next = group.rank() == 0 ? io::next_state_id(folder, where) : 0; });
    known.id = broadcast(tensor({next}), 0, group).item<int64_t>();
  }
  return io::plan_state(parts_of_all(own, group), known, where);
}

void write_state(const io::Path& folder, const io::ShardedState& state, const io::StateMetadata& plan,
                 const Group& group, Location where) {
  const bool is_first = group.rank() == 0;
  detail::together(group, "save", [&] {
    if (is_first) io::begin_state(folder, plan.id, where);
  });
  detail::together(group, "save", [&] { io::write_state_rank(folder, state, group.rank(), plan, where); });
  detail::together(group, "save", [&] {
    if (is_first) io::finish_state(folder, plan, where);
  });
}

/// Copies of what this rank writes.
io::ShardedState snapshot_of(const io::ShardedState& state, const io::StateMetadata& plan, int rank) {
  io::ShardedState out;
  for (const auto& [key, stored] : plan.tensors) {
    const auto is_own = [&](const io::StoredShard& shard) { return shard.rank == rank; };
    if (std::ranges::none_of(stored.shards, is_own)) continue;
    io::ShardedTensor& part = out.emplace(key, state.at(key)).first->second;
    part.local = io::host_copy(part.local);
  }
  return out;
}

}  // namespace

int64_t save_state_dict(const io::ShardedState& state, const io::Path& folder, const Group& group,
                        const io::SaveStateDictOptions& options, Location where) {
  const CallScope call("save_state_dict", where);
  const io::StateMetadata plan = plan_of(state, folder, group, options, where);
  write_state(folder, state, plan, group, where);
  return plan.id;
}

namespace {

/// While it lives, the rank does not end.
struct UnderWay {
  explicit UnderWay(detail::Wire& wire) : wire_(wire) { wire_.count_work(1); }
  ~UnderWay() { wire_.count_work(-1); }
  UnderWay(const UnderWay&) = delete;

 private:
  detail::Wire& wire_;
};

}  // namespace

struct BackgroundSaver::Impl {
  Group group;
  io::BackgroundCall writing;
};

BackgroundSaver::BackgroundSaver(const Group& group, Location where) : impl_(new Impl{group.split(0, where), {}}) {}

BackgroundSaver::~BackgroundSaver() {
  try {
    impl_->writing.wait();
  } catch (const std::exception& error) {
    warn({.op = "BackgroundSaver", .problem = fmt::format("the last state was not saved: {}", error.what())});
  }
}

int64_t BackgroundSaver::save(const io::ShardedState& state, const io::Path& folder,
                              const io::SaveStateDictOptions& options, Location where) {
  impl_->writing.wait();
  const CallScope call("BackgroundSaver::save", where);
  const io::StateMetadata plan = plan_of(state, folder, impl_->group, options, where);
  io::ShardedState copies;
  detail::together(impl_->group, "save", [&] { copies = snapshot_of(state, plan, impl_->group.rank()); });
  const auto under_way = Shared<UnderWay>::make(impl_->group.member().wire());
  impl_->writing.start([impl = impl_.get(), under_way, copies = std::move(copies), folder, plan, where] {
    const CallScope background("BackgroundSaver::save", where);
    const OneThreadGuard alone;
    write_state(folder, copies, plan, impl->group, where);
  });
  return plan.id;
}

void BackgroundSaver::wait() { impl_->writing.wait(); }

}  // namespace weft::distributed
