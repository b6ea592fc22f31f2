#include <algorithm>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../autograd/node.hpp"
#include "../../ops/create.hpp"
#include "../../ops/pointwise.hpp"
#include "../../tensor/error.hpp"
#include "../collectives.hpp"
#include "../detail/gradients.hpp"
#include "reshard-inl.hpp"

namespace weft::distributed {

namespace {

int common_prefix(const Dims& a, const Dims& b) {
  int n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return n;
}

/// One dimension of the mesh after the other; what lies here between two steps is as `now` says.
class Move {
 public:
  Move(const Tensor& local, const Dims& shape, const Placements& from, const Placements& to, const Mesh& mesh)
      : t_(local), shape_(shape), now_(from), to_(to), mesh_(mesh) {}

  Tensor run() {
    for (size_t d = 0; d < now_.size(); ++d) {
      if (now_[d].is_partial() && now_[d] != to_[d]) resolve(d);
    }
    for (size_t d = 0; d < now_.size(); ++d) {
      if (now_[d].is_shard() && to_[d].is_shard() && now_[d] != to_[d] && is_cut_once(now_[d].axis, d) &&
          is_cut_once(to_[d].axis, d)) {
        exchange(d);
      }
    }
    for (size_t d = now_.size(); d-- > 0;) {
      if (now_[d].is_shard() && !keeps(d)) gather(d);
    }
    for (size_t d = 0; d < now_.size(); ++d) {
      if (to_[d].is_shard() && !now_[d].is_shard()) slice(d);
      if (to_[d].is_partial() && now_[d].is_replicate()) split(d);
    }
    return t_;
  }

 private:
  const Group& group(size_t d) const { return mesh_.group(static_cast<int>(d)); }
  int ranks(size_t d) const { return static_cast<int>(mesh_.shape()[static_cast<int>(d)]); }
  int rank(size_t d) const { return static_cast<int>(mesh_.coordinate()[static_cast<int>(d)]); }
  std::vector<Dims> mapping(const Placements& p) const { return dims_mapping(p, shape_.size()); }

  /// No other dimension of the mesh cuts the axis, now or in the end.
  bool is_cut_once(int axis, size_t d) const {
    for (size_t e = 0; e < now_.size(); ++e) {
      if (e != d && (now_[e].is_shard(axis) || to_[e].is_shard(axis))) return false;
    }
    return true;
  }
  /// The cut and those outside of it are those of the end.
  bool keeps(size_t d) const {
    const auto axis = static_cast<size_t>(now_[d].axis);
    const Dims here = mapping(now_)[axis], there = mapping(to_)[axis];
    const int same = common_prefix(here, there);
    return std::find(here.begin(), here.begin() + same, static_cast<int64_t>(d)) != here.begin() + same;
  }
  /// How long the axis is before dimension d of the mesh cuts it.
  int64_t size_before(size_t d) const {
    const int axis = now_[d].axis;
    Placements outer(now_.size());
    for (size_t e = 0; e < d; ++e) outer[e] = now_[e].is_shard(axis) ? now_[e] : Replicate();
    return part_of(shape_, outer, mesh_.shape(), mesh_.coordinate()).sizes[axis];
  }

  void resolve(size_t d) {
    const ReduceOp op = now_[d].op;
    if (to_[d].is_shard() && is_cut_once(to_[d].axis, d)) {
      t_ = reduce_scatter(t_, group(d), op, to_[d].axis);
      now_[d] = to_[d];
    } else {
      t_ = all_reduce(t_, group(d), op);
      now_[d] = Replicate();
    }
  }
  void exchange(size_t d) {
    const int join = now_[d].axis, split = to_[d].axis;
    t_ = all_to_all(t_, group(d),
                    {.split_dim = split,
                     .join_dim = join,
                     .send_sizes = shard_sizes(t_.size(split), ranks(d)),
                     .receive_sizes = shard_sizes(shape_[join], ranks(d))});
    now_[d] = to_[d];
  }
  void gather(size_t d) {
    t_ = all_gather(t_, shard_sizes(size_before(d), ranks(d)), group(d), now_[d].axis);
    now_[d] = Replicate();
  }
  void slice(size_t d) {
    const int axis = to_[d].axis;
    const int64_t n = t_.size(axis), begin = shard_begin(n, ranks(d), rank(d));
    t_ = t_.narrow(axis, begin, shard_size(n, ranks(d), rank(d))).contiguous();
    now_[d] = to_[d];
  }
  void split(size_t d) {
    const ReduceOp op = to_[d].op;
    if (rank(d) != 0 && op == ReduceOp::sum) t_ = zeros_like(t_);
    if (rank(d) != 0 && op == ReduceOp::prod) t_ = ones_like(t_);
    now_[d] = to_[d];
  }

  Tensor t_;
  const Dims& shape_;
  Placements now_;
  const Placements& to_;
  const Mesh& mesh_;
};

void check(const Tensor& local, const Dims& shape, const Placements& from, const Placements& to, const Mesh& mesh,
           Location where) {
  const auto ranks = static_cast<size_t>(mesh.shape().size());
  if (from.size() != ranks || to.size() != ranks) {
    raise<ValueError>({.op = "reshard",
                       .problem = fmt::format("from {} to {} on a mesh {}", text(from), text(to), mesh.shape().text()),
                       .remedy = "there is a placement for each dimension of the mesh"},
                      where);
  }
  detail::check_part("reshard", local, shape, from, mesh, where);
  part_of(shape, to, mesh.shape(), mesh.coordinate(), where);
}

/// A rank's part of an average counts one k-th of it.
double share_of_parts(const Placements& placements, const Dims& mesh) {
  double share = 1;
  for (int d = 0; d < mesh.size(); ++d) {
    const Placement& p = placements[static_cast<size_t>(d)];
    if (p.is_partial() && p.op == ReduceOp::avg) share /= static_cast<double>(mesh[d]);
  }
  return share;
}

struct ReshardBackward {
  Dims shape;
  /// What the gradient comes as and goes back as, but where that is partial.
  Placements gradient, operand;
  double share;
  Mesh mesh;

  Tensor operator()(Tensor&& g) {
    const Tensor back = reshard(g, shape, gradient, detail::without_partial(operand), mesh);
    return share == 1 ? back : back * share;
  }
};

}  // namespace

Placements detail::without_partial(Placements placements) {
  for (Placement& p : placements) p = p.is_partial() ? Replicate() : p;
  return placements;
}

void detail::check_part(const char* op, const Tensor& local, const Dims& shape, const Placements& placements,
                        const Mesh& mesh, Location where) {
  const Dims expected = part_of(shape, placements, mesh.shape(), mesh.coordinate(), where).sizes;
  if (local.defined() && local.shape() == expected) return;
  raise<ShapeError>({.op = op,
                     .problem = fmt::format("the part is {}, where {} of {} is {} here",
                                            local.defined() ? local.shape().text() : "undefined", text(placements),
                                            shape.text(), expected.text())},
                    where);
}

Tensor detail::reshard(const Tensor& local, const Dims& shape, const Placements& from, const Placements& to,
                       const Placements& gradient, const Mesh& mesh, Location where) {
  if (mesh.coordinate().empty() && mesh.shape().size() > 0) return {};
  check(local, shape, from, to, mesh, where);
  const bool recorded = should_record(local);
  if (recorded) {
    for (const Placement& p : from) {
      if (!p.is_partial() || p.op == ReduceOp::sum || p.op == ReduceOp::avg) continue;
      raise<ValueError>({.op = "reshard", .problem = fmt::format("no gradient goes through {}", text(from))}, where);
    }
  } else if (from == to) {
    return local;
  }
  const CallScope call("reshard", where);
  Tensor out;
  {
    const NoGradGuard unrecorded;
    out = Move(local, shape, from, to, mesh).run();
    if (out.shares_storage(local)) out = out.detach();
  }
  if (recorded) {
    const double share = share_of_parts(from, mesh.shape()) / share_of_parts(to, mesh.shape());
    record(out, ReshardBackward{shape, gradient, from, share, mesh}, local);
    detail::order_behind_last(out);
  }
  return out;
}

Tensor reshard(const Tensor& local, const Dims& shape, const Placements& from, const Placements& to, const Mesh& mesh,
               Location where) {
  return detail::reshard(local, shape, from, to, detail::without_partial(to), mesh, where);
}

}  // namespace weft::distributed
