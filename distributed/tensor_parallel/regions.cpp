// Each function and its conjugate are the backward of each other, so second derivatives follow.
#include <fmt/format.h>

#include "../../autograd/node.hpp"
#include "../../ops/detail/common.hpp"
#include "../detail/gradients.hpp"
#include "../detail/member.hpp"
#include "../tensor_parallel.hpp"

namespace weft::distributed {

namespace {

void check(const Tensor& x, const Group& group) {
  checked(x);
  group.member().check_member();
}

/// Runs `make` unrecorded, and records the result for the running op on x.
template <class Make, class Backward>
Tensor recorded(const Tensor& x, Make make, Backward backward) {
  Tensor out;
  {
    const NoGradGuard unrecorded;
    out = make();
  }
  if (!should_record(x)) return out;
  record(
      out, [backward = std::move(backward), order = detail::InOrder()](Tensor&& g) { return backward(std::move(g)); },
      x);
  detail::order_behind_last(out);
  return out;
}

}  // namespace

Tensor copy_to_tensor_parallel(const Tensor& x, const Group& group, Location where) {
  const CallScope call("copy_to_tensor_parallel", where);
  check(x, group);
  if (group.size() == 1 || !should_record(x)) return x;
  return recorded(
      x, [&] { return x.detach(); }, [group](Tensor&& g) { return reduce_from_tensor_parallel(g, group); });
}

Tensor reduce_from_tensor_parallel(const Tensor& x, const Group& group, Location where) {
  const CallScope call("reduce_from_tensor_parallel", where);
  check(x, group);
  if (group.size() == 1) return x;
  return recorded(
      x, [&] { return all_reduce(x, group); }, [group](Tensor&& g) { return copy_to_tensor_parallel(g, group); });
}

Tensor scatter_to_tensor_parallel(const Tensor& x, const Group& group, int dim, Location where) {
  const CallScope call("scatter_to_tensor_parallel", where);
  check(x, group);
  if (group.size() == 1) return x;
  const int d = wrap_dim(dim, x.dim());
  if (x.size(d) % group.size() != 0) {
    raise<ValueError>(
        {.problem = fmt::format("{} ranks do not divide dimension {} of {}", group.size(), d, x.shape().text())});
  }
  const int64_t n = x.size(d) / group.size();
  return recorded(
      x, [&] { return x.narrow(d, n * group.rank(), n).clone(); },
      [group, d](Tensor&& g) { return gather_from_tensor_parallel(g, group, d); });
}

Tensor gather_from_tensor_parallel(const Tensor& x, const Group& group, int dim, Location where) {
  const CallScope call("gather_from_tensor_parallel", where);
  check(x, group);
  if (group.size() == 1) return x;
  const int d = wrap_dim(dim, x.dim());
  return recorded(
      x, [&] { return all_gather(x, group, d); },
      [group, d](Tensor&& g) { return scatter_to_tensor_parallel(g, group, d); });
}

}  // namespace weft::distributed
