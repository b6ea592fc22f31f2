#include "gradient.hpp"

#include "../autograd/gradient_rows.hpp"
#include "../ops/detail/common.hpp"

namespace weft::sparse {

std::optional<Coo> sparse_grad(const Tensor& x, Location where) {
  const CallScope call("sparse_grad", where);
  AccumulationNode* const node = accumulation_node(checked(x).impl());
  if (WEFT_UNLIKELY(node == nullptr)) {
    raise<ValueError>({.problem = "only a leaf that requires a gradient has one", .details = describe(x)});
  }
  const auto rows = detail::gradient_rows(*node);
  if (!rows) return {};
  return Coo{rows->ids.unsqueeze(0), rows->values, x.shape(), true};
}

}  // namespace weft::sparse
