#include "../softmax.hpp"

#include "../detail/autocast.hpp"
#include "../detail/reuse.hpp"
#include "../pointwise.hpp"
#include "../detail/records.hpp"
#include "../reduce.hpp"
#include "../detail/reducing.hpp"
#include "../detail/parts.hpp"

namespace weft {

namespace {

Tensor gradient_by_ops(const Tensor& g, const Tensor& y, int dim, bool logarithm) {
  if (logarithm) return g - exp(y) * sum(g, dim, true);
  return (g - sum(g * y, dim, true)) * y;
}

struct SoftmaxBackward {
  SavedOutput output;
  int dim;
  bool logarithm;
  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor y = output.get(self);
    const auto kernel = kernels(g.raw_view()).softmax_gradient;
    if (recording() || kernel == nullptr) return gradient_by_ops(g, y, dim, logarithm);
    const View& from = g.raw_view();  // lives on in dx
    Tensor dx = can_reuse_as_result(g) ? as_result(std::move(g)) : make_like(g);
    kernel(dx.raw_view(), from, y.raw_view(), dim, logarithm);
    return dx;
  }
};

Tensor softmax_by_ops(const Tensor& operand, int dim, bool logarithm) {
  if (operand.numel() == 0) return operand.clone();
  const Tensor x = to_compute_type(operand);
  const Tensor shifted = x - amax(x.detach(), dim, true);
  const Tensor scaled = exp(shifted);
  const Tensor total = sum(scaled, dim, true);
  const Tensor y = logarithm ? shifted - log(total) : scaled / total;
  return y.to(operand.dtype());
}

Tensor softmax_like(const Tensor& x, int wanted_dim, std::optional<DType> dtype, bool logarithm) {
  checked(x);
  if (dtype) return softmax_like(x.to(*dtype), wanted_dim, {}, logarithm);
  check_floating(x);
  const int dim = wrap_dim(wanted_dim, x.dim());
  const auto kernel = kernels(x.raw_view()).softmax;
  if (kernel == nullptr) return softmax_by_ops(x, dim, logarithm);
  Tensor out = make_like(x);
  kernel(out.raw_view(), x.raw_view(), dim, logarithm);
  if (should_record(x)) record(out, SoftmaxBackward{SavedOutput(out), dim, logarithm}, x);
  return out;
}

}  // namespace

Tensor softmax(const Tensor& x, int dim, std::optional<DType> dtype, Location where) {
  const CallScope call("softmax", where);
  WEFT_IN_FULL(softmax, x, dim, dtype, where);
  return softmax_like(x, dim, dtype, false);
}
Tensor log_softmax(const Tensor& x, int dim, std::optional<DType> dtype, Location where) {
  const CallScope call("log_softmax", where);
  WEFT_IN_FULL(log_softmax, x, dim, dtype, where);
  return softmax_like(x, dim, dtype, true);
}
Tensor softmin(const Tensor& x, int dim, std::optional<DType> dtype, Location where) {
  const CallScope call("softmin", where);
  WEFT_IN_FULL(softmin, x, dim, dtype, where);
  const Tensor given = dtype ? checked(x).to(*dtype) : checked(x);
  check_floating(given);
  return softmax_like(-given, dim, {}, false);
}

namespace {

std::vector<Values> softmax_samples(SampleMaker& make) {
  return {{make.tensor({2, 5}), int64_t{1}},
          {make.tensor({3, 2, 4}), int64_t{0}},
          {make.tensor({2, 3, 2}), int64_t{-2}},
          {make.tensor({}), int64_t{0}},
          {make.tensor({2, 0}), int64_t{1}}};
}

constexpr OpRecord records[] = {
    {"softmax", "softmax(x, dim, *, dtype=None)",
     "exp(x) / sum(exp(x)) along dim, without overflow. With dtype x is converted first; 16-bit floats are computed in "
     "float32.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, softmax_samples, parts::along, detail::boxed<softmax>},
    {"log_softmax", "log_softmax(x, dim, *, dtype=None)",
     "x - log(sum(exp(x))) along dim, without overflow. dtypes as softmax.", OpFacts(true, Autocast::full),
     OpRecord::Domain::floating, softmax_samples, parts::along, detail::boxed<log_softmax>},
    {"softmin", "softmin(x, dim, *, dtype=None)", "softmax(-x) along dim. dtypes as softmax.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, softmax_samples, parts::along, detail::boxed<softmin>},
};

}  // namespace

std::span<const OpRecord> softmax_records() { return records; }

}  // namespace weft
