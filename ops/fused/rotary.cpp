#include "../rotary.hpp"

#include <fmt/format.h>

#include "../detail/common.hpp"
#include "../detail/parts.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../join.hpp"
#include "../pointwise.hpp"
#include "rotate-inl.hpp"

namespace weft {

void check_rope(const Tensor& x, const Tensor& rope) {
  check_floating(checked(x));
  check_floating(checked(rope));
  check_same_device({&x, &rope});
  const bool ranks_fit = x.dim() >= 1 && rope.dim() >= 2 && rope.dim() <= x.dim() + 1 && rope.size(0) == 2;
  bool fits = ranks_fit && rope.size(-1) % 2 == 0 && rope.size(-1) <= x.size(-1);
  for (int d = 2; fits && d < rope.dim(); ++d) fits = rope.size(-d) == 1 || rope.size(-d) == x.size(-d);
  if (fits) return;
  raise<ShapeError>(
      {.problem = fmt::format("a rope of shape {} does not fit x {}", rope.shape().text(), x.shape().text()),
       .remedy = "it is [2, ..., n] with n even, at most x's last size, and broadcasts to x"});
}

namespace {

/// (a, b) of each pair as (-b, a).
Tensor turned(const Tensor& x, bool interleaved) {
  const int64_t half = x.size(-1) / 2;
  if (!interleaved) return cat({-x.narrow(-1, half, half), x.narrow(-1, 0, half)}, -1);
  Dims pairs = x.shape();
  pairs[pairs.size() - 1] = half;
  pairs.push_back(2);
  const Tensor p = x.reshape(pairs);
  return stack({-p.select(-1, 1), p.select(-1, 0)}, -1).reshape(x.shape());
}

/// The same by ops that are recorded for each operand.
Tensor rotate_by_ops(const Tensor& x, const Tensor& rope, bool interleaved, bool inverse) {
  const int64_t n = rope.size(-1), rest = x.size(-1) - n;
  const DType wide = compute_type(x.dtype());
  const Tensor part = x.narrow(-1, 0, n).to(wide), cos = rope.select(0, 0).to(wide), sin = rope.select(0, 1).to(wide);
  const Tensor across = inverse ? -turned(part * sin, interleaved) : turned(part, interleaved) * sin;
  const Tensor rotated = (part * cos + across).to(x.dtype());
  return rest == 0 ? rotated : cat({rotated, x.narrow(-1, n, rest)}, -1);
}

/// View number i of rope with the sizes of x's first elements.
View wave(const Tensor& rope, int64_t i, const View& part) {
  return broadcast_view(rope.select(0, i).raw_view(), sizes_of(part.layout));
}

}  // namespace

Tensor rotate(const Tensor& x, const Tensor& rope, bool interleaved, bool inverse) {
  const auto kernel = kernels(x.raw_view()).rotary;
  if (should_record(rope) || kernel == nullptr) return rotate_by_ops(x, rope, interleaved, inverse);
  const Tensor out = make(x.sizes(), x.dtype(), x.device());
  {
    const NoGradGuard unrecorded;
    const bool mixed = (rope.dtype() == DType::f64) != (x.dtype() == DType::f64);
    const Tensor waves = mixed ? rope.to(compute_type(x.dtype())) : rope;
    const int64_t n = rope.size(-1), rest = x.size(-1) - n;
    const View part = out.narrow(-1, 0, n).raw_view();
    kernel(part, x.narrow(-1, 0, n).raw_view(), wave(waves, 0, part), wave(waves, 1, part), interleaved, inverse);
    if (rest > 0) WEFT_KERNEL(copy, x)(out.narrow(-1, n, rest).raw_view(), x.narrow(-1, n, rest).raw_view());
  }
  if (should_record(x)) {
    record(
        out,
        [rope = Saved(rope), interleaved, inverse](Node& self, Tensor&& g) {
          return rotate(g, rope.get(self), interleaved, !inverse);
        },
        x);
  }
  return out;
}

Tensor rotary_embedding(const Tensor& x, const Tensor& rope, bool interleaved, Location where) {
  const CallScope call("rotary_embedding", where);
  check_rope(x, rope);
  return rotate(x, rope, interleaved, false);
}

}  // namespace weft
