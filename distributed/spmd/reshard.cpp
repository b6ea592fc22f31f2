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

/// Reshards along one mesh dimension after the other; `now_` holds the current placements.
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

  /// Whether no other mesh dimension shards the axis, in the current or the final placements.
  bool is_cut_once(int axis, size_t d) const {
    for (size_t e = 0; e < now_.size(); ++e) {
      if (e != d && (now_[e].is_shard(axis) || to_[e].is_shard(axis))) return false;
    }
    return true;
  }
  /// Whether this cut and the outer ones equal the final ones.
  bool keeps(size_t d) const {
    const auto axis = static_cast<size_t>(now_[d].axis);
    const Dims current = mapping(now_)[axis], target = mapping(to_)[axis];
    const int same = common_prefix(current, target);
    return std::find(current.begin(), current.begin() + same, static_cast<int64_t>(d)) != current.begin() + same;
  }
  /// Size of the axis before mesh dimension d cuts it.
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

/// Scale of a rank's value: 1 / ranks for each average.
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
  /// Placements of the incoming gradient and of the operand; its gradient is replicated where the operand is partial.
  Placements gradient, operand;
  double share;
  Mesh mesh;

  Tensor operator()(Tensor&& g) const {
    const Tensor back = reshard(g, shape, gradient, detail::without_partial(operand), mesh);
    return share == 1 ? back : back * share;
  }
};

/// Raises ValueError if the gradient is not defined.
ReshardBackward way_back(const Dims& shape, const Placements& from, const Placements& to, const Placements& gradient,
                         const Mesh& mesh, Location where) {
  for (const Placement& p : from) {
    if (!p.is_partial() || p.op == ReduceOp::sum || p.op == ReduceOp::avg) continue;
    raise<ValueError>({.op = "reshard", .problem = fmt::format("no gradient goes through {}", text(from))}, where);
  }
  const double share = share_of_parts(from, mesh.shape()) / share_of_parts(to, mesh.shape());
  return {shape, gradient, from, share, mesh};
}

/// Not recorded.
Tensor moved(const Tensor& local, const Dims& shape, const Placements& from, const Placements& to, const Mesh& mesh) {
  const NoGradGuard unrecorded;
  const Tensor out = Move(local, shape, from, to, mesh).run();
  return out.shares_storage(local) ? out.detach() : out;
}

/// Makes `results` the outputs of the node; takes ownership of it.
void set_histories(std::span<Tensor> results, GeneralNode* node) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (i > 0) node->refs.increment();
    set_history(results[i].impl(), node, static_cast<uint16_t>(i));
  }
}

/// Shape, dtype and device of a zero tensor.
struct Like {
  Dims shape;
  DType dtype;
  Device device;
  explicit Like(const Tensor& t) : shape(t.shape()), dtype(t.dtype()), device(t.device()) {}
  Tensor zero() const { return zeros(shape, {dtype, device}); }
};

/// A zero whose backward reaches all `operands`, with zero gradients.
Tensor leading_to(const std::vector<Tensor>& operands) {
  std::vector<Like> like(operands.begin(), operands.end());
  Tensor token = zeros({});
  set_histories({&token, 1}, make_general_node(operands, 1, [like = std::move(like)](Node&, Tensor*, Tensor* out) {
                  for (size_t i = 0; i < like.size(); ++i) out[i] = like[i].zero();
                }));
  return token;
}

/// Gives the floating `results` a history that also reaches `token`, which depends on the ranks' inputs.
std::vector<Tensor> joined_with(const Tensor& token, std::vector<Tensor> results) {
  std::vector<Tensor> operands, outputs;
  for (Tensor& y : results) {
    if (!y.defined() || !is_floating(y.dtype())) continue;
    operands.push_back(y);
    y = y.detach();
    outputs.push_back(y);
  }
  if (outputs.empty()) return results;
  const size_t count = outputs.size();
  operands.push_back(token);
  GeneralNode* const node =
      make_general_node(operands, static_cast<int>(count), [count, token](Node&, Tensor* in, Tensor* out) {
        // For second derivatives, it must reach the tensors from which the gradients were computed.
        std::vector<Tensor> before{token};
        std::copy_if(in, in + count, std::back_inserter(before), [](const Tensor& g) { return g.defined(); });
        out[count] = recording() ? leading_to(before) : zeros({});
        std::move(in, in + count, out);
      });
  set_histories(outputs, node);
  return results;
}

/// Reshards all inputs' gradients back. The last entry of `in` is the token's gradient.
void move_back(std::span<const ReshardBackward> back, std::span<const Like> like, Tensor* in, Tensor* out) {
  const Tensor& token = in[back.size()];
  for (size_t i = 0; i < back.size(); ++i) {
    Tensor g = in[i].defined() ? std::move(in[i]) : like[i].zero();
    if (recording() && token.defined() && token.requires_grad()) g = joined_with(token, {g})[0];
    out[i] = back[i](std::move(g));
  }
}

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
  if (!recorded && from == to) return local;
  const CallScope call("reshard", where);
  if (!recorded) return moved(local, shape, from, to, mesh);
  ReshardBackward back = way_back(shape, from, to, gradient, mesh, where);
  const Tensor out = moved(local, shape, from, to, mesh);
  record(
      out, [back = std::move(back), order = InOrder()](Tensor&& g) { return back(std::move(g)); }, local);
  order_behind_last(out);
  return out;
}

detail::MovedInputs::MovedInputs(std::span<const DTensor> inputs, const SpmdInfo& info,
                                 std::span<const Placements> gradients, Location where) {
  const CallScope call("reshard", where);
  std::vector<Tensor> operands, results;
  std::vector<ReshardBackward> back;
  std::vector<Like> like;
  std::vector<size_t> places;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const DTensor& x = inputs[i];
    check(x.local(), x.shape(), x.placements(), info.inputs[i], x.mesh(), where);
    if (!should_record(x.local())) continue;
    back.push_back(way_back(x.shape(), x.placements(), info.inputs[i], gradients[i], x.mesh(), where));
    operands.push_back(x.local());
    places.push_back(i);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const DTensor& x = inputs[i];
    const bool stays = !should_record(x.local()) && x.placements() == info.inputs[i];
    parts_.push_back(stays ? x.local() : moved(x.local(), x.shape(), x.placements(), info.inputs[i], x.mesh()));
  }
  if (operands.empty()) return;
  for (const size_t i : places) {
    results.push_back(parts_[i]);
    like.emplace_back(parts_[i]);
  }
  token_ = zeros({});
  results.push_back(token_);
  set_histories(results, make_general_node(operands, static_cast<int>(results.size()),
                                           [back = std::move(back), like = std::move(like), order = InOrder()](
                                               Node&, Tensor* in, Tensor* out) { move_back(back, like, in, out); }));
  order_behind_last(token_);
}

std::vector<Tensor> detail::MovedInputs::joined(std::vector<Tensor> results, std::span<const Tensor> sums) const {
  if (!token_.defined() || !recording()) return results;
  if (sums.empty()) return joined_with(token_, std::move(results));
  std::vector<Tensor> reached{token_};
  reached.insert(reached.end(), sums.begin(), sums.end());
  return joined_with(leading_to(reached), std::move(results));
}

Tensor detail::MovedInputs::recorded(const Tensor& x) const {
  return is_floating(x.dtype()) && !x.requires_grad() ? joined({x})[0] : x;
}

Tensor reshard(const Tensor& local, const Dims& shape, const Placements& from, const Placements& to, const Mesh& mesh,
               Location where) {
  return detail::reshard(local, shape, from, to, detail::without_partial(to), mesh, where);
}

}  // namespace weft::distributed
