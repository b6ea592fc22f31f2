#include <weft/ops/softmax.hpp>

#include <weft/ops/detail/reuse.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/detail/records.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/detail/reducing.hpp>

namespace weft {

namespace {

const char* name_of(bool logarithm) { return logarithm ? "log_softmax" : "softmax"; }

Tensor gradient_by_ops(const Tensor& g, const Tensor& y, int dim, bool logarithm, Location where) {
  if (logarithm) {
    const Tensor total = sum(g, Dims(dim), true, {}, where);
    const Tensor share = mul(Operand(exp(Operand(y, where)), where), Operand(total, where));
    return sub(Operand(g, where), Operand(share, where));
  }
  const Tensor dot = sum(mul(Operand(g, where), Operand(y, where)), Dims(dim), true, {}, where);
  return mul(Operand(sub(Operand(g, where), Operand(dot, where)), where), Operand(y, where));
}

struct SoftmaxFormula {
  SavedOutput output;
  int dim;
  bool logarithm;
  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor y = output.get(self);
    const auto kernel = kernels(g.raw_view()).softmax_gradient;
    if (recording() || kernel == nullptr) return gradient_by_ops(g, y, dim, logarithm, self.where);
    detail::current_op = {self.op, self.where};
    const View& from = g.raw_view();  // lives on in dx
    Tensor dx = may_become_result(g) ? as_result(std::move(g)) : fresh_like(g, self.op, self.where);
    kernel(dx.raw_view(), from, y.raw_view(), dim, logarithm);
    return dx;
  }
};

Tensor softmax_by_ops(const Tensor& operand, int dim, bool logarithm, Location where) {
  if (operand.numel() == 0) return operand.clone(where);
  const Tensor x = widened(operand, where);
  const Tensor peak = amax(x.detach(), Dims(dim), true, where);
  const Tensor shifted = sub(Operand(x, where), Operand(peak, where));
  const Tensor scaled = exp(Operand(shifted, where));
  const Tensor total = sum(scaled, Dims(dim), true, {}, where);
  const Tensor y = logarithm ? sub(Operand(shifted, where), Operand(log(Operand(total, where)), where))
                             : div(Operand(scaled, where), Operand(total, where));
  return y.to(operand.dtype(), where);
}

Tensor softmax_like(const Tensor& x, int wanted_dim, std::optional<DType> dtype, bool logarithm, Location where) {
  const char* op = name_of(logarithm);
  checked(x, op, where);
  if (dtype) return softmax_like(x.to(*dtype, where), wanted_dim, {}, logarithm, where);
  check_floating(op, x, where);
  const int dim = wrap_dim(wanted_dim, x.dim(), op, where);
  const auto kernel = kernels(x.raw_view()).softmax;
  if (kernel == nullptr) return softmax_by_ops(x, dim, logarithm, where);
  Tensor out = make_like(x, op, where);
  kernel(out.raw_view(), x.raw_view(), dim, logarithm);
  if (should_record(x)) record(out, op, where, SoftmaxFormula{SavedOutput(out), dim, logarithm}, x);
  return out;
}

}  // namespace

Tensor softmax(const Tensor& x, int dim, std::optional<DType> dtype, Location where) {
  return softmax_like(x, dim, dtype, false, where);
}
Tensor log_softmax(const Tensor& x, int dim, std::optional<DType> dtype, Location where) {
  return softmax_like(x, dim, dtype, true, where);
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
     true, OpRecord::Domain::floating, softmax_samples, detail::boxed<softmax>},
    {"log_softmax", "log_softmax(x, dim, *, dtype=None)",
     "x - log(sum(exp(x))) along dim, without overflow. dtypes as softmax.", true, OpRecord::Domain::floating,
     softmax_samples, detail::boxed<log_softmax>},
};

}  // namespace

std::span<const OpRecord> softmax_records() { return records; }

}  // namespace weft
