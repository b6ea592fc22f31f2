// Norms of vectors: sum(|x|^ord)^(1/ord) and its limits.
#include <cmath>

#include <weft/ops/detail/records.hpp>
#include <weft/ops/detail/reducing.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>

namespace weft {

namespace {

// d|x|/dx (|x| / norm)^(order - 1) g, where 0 wherever x or the norm is; also when differentiated again.
struct NormFormula {
  Saved input;
  SavedOutput output;
  Dims kept;
  double order;

  Tensor operator()(Node& self, Tensor&& g) {
    const Location w = self.where;
    const auto in = [&](const Tensor& t) { return Operand(t, w); };
    const Tensor &x = input.get(self), y = put_back(output.get(self), kept, w);
    const Tensor none = eq(in(y), Operand(0, w));
    const Tensor safe = masked_fill(in(y), in(none), Operand(1, w));
    const Tensor share = masked_fill(in(put_back(g, kept, w)), in(none), Operand(0, w));
    if (order == 2) return mul(in(x), in(div(in(share), in(safe))));
    const Tensor zero = eq(in(x), Operand(0, w));
    const Tensor ratio = div(in(masked_fill(in(abs(in(x))), in(zero), Operand(1, w))), in(safe));
    const Tensor slope = mul(in(sign(in(x))), in(pow(in(ratio), Operand(order - 1, w))));
    return masked_fill(in(mul(in(slope), in(share))), in(zero), Operand(0, w));
  }
};

// |x|^order, to be summed.
Tensor powers(const Tensor& x, double order, Location where) {
  if (order == 2) return square(Operand(x, where));
  return pow(Operand(abs(Operand(x, where)), where), Operand(order, where));
}

Tensor root_of_powers(const Tensor& x, double order, const Dims& dims, bool keepdim, const char* op, Location where) {
  const Reduced to = reduced(x, dims, keepdim, op, where);
  Tensor total;
  {
    NoGradGuard unrecorded;
    total = run_reduce(Reduction::sum, powers(x, order, where), to, x.dtype(), op, where);
    total = order == 2 ? sqrt(Operand(std::move(total), where)) : pow(Operand(total, where), Operand(1 / order, where));
  }
  if (should_record(x)) record(total, op, where, NormFormula{Saved(x), SavedOutput(total), to.kept, order}, x);
  return total;
}

// How many elements are not 0; differentiable as every other norm is, its gradient is 0.
Tensor count_norm(const Tensor& x, const Dims& dims, bool keepdim, Location where) {
  const Tensor held = ne(Operand(x, where), Operand(0, where));
  const Tensor ones = masked_fill(Operand(sign(Operand(x, where)), where), Operand(held, where), Operand(1, where));
  return sum(ones, dims, keepdim, {}, where);
}

Tensor norm_of(const Tensor& operand, double order, const Dims& dims, bool keepdim, std::optional<DType> dtype,
               const char* op, Location where) {
  const Tensor given = dtype ? checked(operand, op, where).to(*dtype, where) : checked(operand, op, where);
  check_floating(op, given, where);
  if (std::isnan(order)) raise<ValueError>({.op = op, .problem = "the order of a norm cannot be NaN"}, where);
  const Tensor x = widened(given, where);
  Tensor out;
  if (std::isinf(order)) {
    const Tensor sizes = abs(Operand(x, where));
    out = order > 0 ? amax(sizes, dims, keepdim, where) : amin(sizes, dims, keepdim, where);
  } else if (order == 0) {
    out = count_norm(x, dims, keepdim, where);
  } else if (order == 1) {
    out = sum(abs(Operand(x, where)), dims, keepdim, {}, where);
  } else {
    out = root_of_powers(x, order, dims, keepdim, op, where);
  }
  return out.to(given.dtype(), where);
}

}  // namespace

Tensor norm(const Tensor& x, Location where) { return norm_of(x, 2, {}, false, {}, "norm", where); }
Tensor norm(const Tensor& x, const Dims& dims, Location where) { return norm_of(x, 2, dims, false, {}, "norm", where); }
Tensor vector_norm(const Tensor& x, double order, const Dims& dims, bool keepdim, std::optional<DType> dtype,
                   Location where) {
  return norm_of(x, order, dims, keepdim, dtype, "vector_norm", where);
}

namespace {

double order_of(const Value& p, const char* op) {
  if (std::holds_alternative<std::monostate>(p)) return 2;
  const auto* name = std::get_if<std::string>(&p);
  if (name == nullptr) return detail::unboxed<double>(p, 1);
  if (*name == "fro") return 2;
  raise<NotImplementedError>(
      {.op = op, .problem = fmt::format("there is no norm '{}' of vectors", *name), .remedy = "use 'fro' or a number"},
      boxed_place());
}

std::vector<Values> norm_samples(SampleMaker& make) {
  const double most = HUGE_VAL;
  return {{make.tensor({2, 3})},
          {make.tensor({2, 3, 2}), 2.0, Dims{0, -1}},
          {make.tensor({2, 3}), int64_t{1}, Dims(1), true},
          {make.tensor({2, 3}), 3.5, Dims(0)},
          {make.tensor({2, 3}), 1.5},
          {make.tensor({2, 3}), 0.5, Dims(1)},
          {make.tensor({2, 3}), -1.0, Dims(1)},
          {make.tensor({2, 3}), most},
          {make.tensor({2, 3}), -most, Dims(-1)},
          {make.tensor({2, 3}), int64_t{0}, Dims(1)},
          {make.tensor({})},
          {make.tensor({0, 2}), 3.0, Dims(0)}};
}

Tensor call_norm(const Tensor& x, const Value& p, std::optional<Dims> dim, std::optional<bool> keepdim,
                 std::optional<DType> dtype) {
  return norm_of(x, order_of(p, "norm"), dim.value_or(Dims()), keepdim.value_or(false), dtype, "norm", boxed_place());
}
Tensor call_vector_norm(const Tensor& x, std::optional<double> order, std::optional<Dims> dim,
                        std::optional<bool> keepdim, std::optional<DType> dtype) {
  return vector_norm(x, order.value_or(2), dim.value_or(Dims()), keepdim.value_or(false), dtype, boxed_place());
}

constexpr OpRecord records[] = {
    {"norm", "norm(x, p='fro', dim=None, keepdim=False, *, dtype=None)",
     "The p-norm over dim, as vector_norm: 'fro' is the Euclidean one.", true, OpRecord::Domain::floating, norm_samples,
     detail::boxed<call_norm>},
    {"vector_norm", "vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None)",
     "sum(|x|^ord)^(1/ord) over dim; the largest or smallest magnitude for an infinite ord, the number of elements "
     "that are not 0 for 0. 16-bit floats are computed in float32. The gradient at 0 is 0.",
     true, OpRecord::Domain::floating, norm_samples, detail::boxed<call_vector_norm>},
};

}  // namespace

std::span<const OpRecord> vector_norm_records() { return records; }

}  // namespace weft
