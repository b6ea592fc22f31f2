#include <fmt/format.h>

#include "../../autograd/node.hpp"
#include "../../ops/create.hpp"
#include "../../ops/join.hpp"
#include "../../ops/pointwise.hpp"
#include "../../ops/reduce.hpp"
#include "../../ops/scatter.hpp"
#include "../detail/gradients.hpp"
#include "../detail/member.hpp"
#include "../tensor_parallel.hpp"
#include "checks-inl.hpp"

namespace weft::distributed {

namespace {

Tensor over_ranks(const Tensor& x, const Group& group, ReduceOp op) {
  return group.size() == 1 ? x : all_reduce(x, group, op);
}

void check(const Tensor& logits, const Tensor& targets, const ParallelCrossEntropyOptions& options) {
  check_floating(checked(logits));
  detail::check_integers(targets);
  check_same_device({&logits, &targets});
  options.group.member().check_member();
  Dims rows = logits.shape();
  if (!rows.empty()) rows.erase(rows.size() - 1);
  if (logits.dim() == 0 || !(targets.shape() == rows)) {
    raise<ShapeError>({.problem = "targets have the shape of the logits without their last dimension",
                       .details = fmt::format("logits {}, targets {}", logits.shape().text(), targets.shape().text())});
  }
}

/// Gradient: softmax, minus 1 at the target, for this rank's classes.
struct LossBackward {
  Saved logits;
  /// The maximum over all classes, the sum of exp(logits - maximum), and each target's index within this rank's
  /// classes.
  Tensor maximum, total, place, ignored;
  Group group;
  detail::InOrder order = {};

  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor x = logits.get(self);
    const Tensor powers = exp(x.to(maximum.dtype()) - maximum);
    // For second derivatives, the sum must depend on the logits.
    const Tensor all = recording() ? over_ranks(powers.sum(Dims{-1}, true), group, ReduceOp::sum) : total;
    const Tensor is_target = arange(x.size(-1), {.dtype = i64, .device = x.device()}) == place;
    const Tensor factor = copy_to_tensor_parallel(g.unsqueeze(-1), group);
    return masked_fill(factor * (powers / all - is_target.to(powers.dtype())), ignored, 0).to(x.dtype());
  }
};

/// The loss of each target; 0 for ignored ones.
Tensor losses_of(const Tensor& logits, const Tensor& targets, const Tensor& ignored, const Group& group) {
  Tensor out;
  LossBackward backward{{}, {}, {}, {}, ignored.unsqueeze(-1), group};
  {
    const NoGradGuard unrecorded;
    const Tensor x = logits.to(compute_type(logits.dtype()));
    const int64_t classes = x.size(-1);
    backward.maximum = over_ranks(amax(x, Dims{-1}, true), group, ReduceOp::max);
    const Tensor shifted = x - backward.maximum;
    backward.place = (targets - classes * group.rank()).unsqueeze(-1);
    const Tensor elsewhere = logical_or(backward.place < 0, backward.place >= classes);
    const Tensor picked = gather(shifted, -1, masked_fill(backward.place, elsewhere, 0));
    const Tensor terms = stack({exp(shifted).sum(Dims{-1}, true), masked_fill(picked, elsewhere, 0)});
    const Tensor sums = over_ranks(terms, group, ReduceOp::sum);
    backward.total = sums[0];
    out = masked_fill((log(sums[0]) - sums[1]).squeeze(-1), ignored, 0);
  }
  if (should_record(logits)) {
    backward.logits = Saved(logits);
    record(out, std::move(backward), logits);
    detail::order_behind_last(out);
  }
  return out;
}

}  // namespace

Tensor parallel_cross_entropy(const Tensor& logits, const Tensor& targets, ParallelCrossEntropyOptions options,
                              Location where) {
  const CallScope call("parallel_cross_entropy", where);
  check(logits, targets, options);
  const Tensor wanted = targets.to(i64), ignored = wanted == options.ignore_index;
  const int64_t classes = logits.size(-1) * options.group.size();
  const Tensor outside = logical_or(wanted < 0, wanted >= classes);
  detail::check_none(logical_and(outside, logical_not(ignored)),
                     fmt::format("a target is none of the {} classes", classes));
  Tensor out = losses_of(logits, wanted, ignored, options.group);
  if (options.reduction != LossReduction::none) out = out.sum();
  if (options.reduction == LossReduction::mean) out = out / logical_not(ignored).sum().to(out.dtype());
  return out.to(logits.dtype());
}

}  // namespace weft::distributed
