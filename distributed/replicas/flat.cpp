#include "../detail/flat.hpp"

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../tensor/error.hpp"
#include "../collectives.hpp"

namespace weft::distributed::detail {

Tensor flattened(std::span<const Tensor> tensors) {
  int64_t count = 0;
  for (const Tensor& t : tensors) count += t.numel();
  const Tensor flat = empty({count}, {tensors[0].dtype(), tensors[0].device()});
  const std::vector<Tensor> parts = split_like(flat, tensors);
  for (size_t i = 0; i < parts.size(); ++i) parts[i].copy_(tensors[i]);
  return flat;
}

std::vector<Tensor> split_like(const Tensor& flat, std::span<const Tensor> tensors) {
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (const Tensor& t : tensors) {
    parts.push_back(flat.narrow(0, begin, t.numel()).view(t.shape()));
    begin += t.numel();
  }
  return parts;
}

void check_alike(std::span<const Tensor> tensors, const Group& group) {
  if (group.size() == 1) return;
  // FNV-1a (Fowler, Noll and Vo), in 62 bits.
  uint64_t hash = 14695981039346656037u;
  const auto add = [&](int64_t word) { hash = (hash ^ static_cast<uint64_t>(word)) * 1099511628211u; };
  for (const Tensor& t : tensors) {
    add(static_cast<int64_t>(t.dtype()));
    add(t.dim());
    for (const int64_t size : t.shape()) add(size);
  }
  const auto own = static_cast<int64_t>(hash >> 2);
  const Tensor ends = all_reduce(tensor({own, -own}), group, ReduceOp::max);
  if (ends[0].item<int64_t>() == own && ends[1].item<int64_t>() == -own) return;
  raise<ValueError>(
      {.problem = "ranks have tensors of other shapes or dtypes",
       .details = fmt::format("rank {} of {} has {} tensors", group.rank(), group.size(), tensors.size())});
}

void make_alike(std::span<const Tensor> tensors, const Group& group) {
  if (group.size() == 1) return;
  const NoGradGuard unrecorded;
  for (const Tensor& t : tensors) broadcast_(t.detach(), 0, group);
}

}  // namespace weft::distributed::detail
