// Norms of vectors: sum(|x|^ord)^(1/ord) and its limits. Powers beyond the range of the dtype are scaled.
#include <algorithm>
#include <cmath>
#include <limits>

#include "../detail/autocast.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

// d|x|/dx (|x| / norm)^(order - 1) g, where 0 wherever x or the norm is; also when differentiated again.
struct NormBackward {
  Saved input;
  SavedOutput output;
  Dims kept;
  double order;

  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor &x = input.get(self), y = restore_dims(output.get(self), kept);
    const Tensor none = y == 0;
    const Tensor safe = masked_fill(y, none, 1);
    const Tensor share = masked_fill(restore_dims(g, kept), none, 0);
    if (order == 2) return x * (share / safe);
    const Tensor zero = x == 0;
    const Tensor ratio = masked_fill(abs(x), zero, 1) / safe;
    return masked_fill(sign(x) * pow(ratio, order - 1) * share, zero, 0);
  }
};

template <class T>
bool all_have_digits(const Tensor& sums) {
  constexpr T least = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();
  const auto* const values = static_cast<const T*>(sums.raw_view().data);
  return std::all_of(values, values + sums.numel(),
                     [](T v) { return v >= least && v <= std::numeric_limits<T>::max(); });
}

// The norm from elements that are divided by the largest, or for a negative order the smallest.
Tensor scaled_norm(const Tensor& x, double order, const Reduced& to) {
  const Reduced kept{to.kept, to.kept, to.count};
  const Tensor sizes = abs(x);
  const Tensor extreme = run_reduce(order > 0 ? Reduction::max : Reduction::min, sizes, kept, x.dtype());
  if (order == 2) {
    const Tensor scale = power_of_two_near(extreme);
    return sqrt(run_reduce(Reduction::sum, square(sizes / scale), kept, x.dtype())) * scale;
  }
  const Tensor ordinary = logical_and(extreme > 0, extreme < std::numeric_limits<double>::infinity());
  const Tensor scale = masked_fill(extreme, logical_not(ordinary), 1);
  return pow(run_reduce(Reduction::sum, pow(sizes / scale, order), kept, x.dtype()), 1 / order) * scale;
}

Tensor root_of_powers(const Tensor& x, double order, const Dims& dims, bool keepdim) {
  const Reduced to = reduced(x, dims, keepdim);
  Tensor total;
  {
    NoGradGuard unrecorded;
    // A device is not waited for, and a recorded step must not depend on values.
    const bool looks = x.device().is_cpu() && detail::capture_recorder == nullptr;
    if (to.count == 0 || is_meta(x)) {
      total = pow(run_reduce(Reduction::sum, abs(x), to, x.dtype()), 1 / order);
    } else {
      if (order == 2 && looks) total = run_reduce(Reduction::sum, square(x), to, x.dtype());
      const bool is_done = total.defined() && has_digits(total);
      total = is_done ? sqrt(std::move(total)) : with_shape(scaled_norm(x, order, to), to.shape);
    }
  }
  if (should_record(x)) record(total, NormBackward{Saved(x), SavedOutput(total), to.kept, order}, x);
  return total;
}

// How many elements are not 0; differentiable as every other norm is, its gradient is 0.
Tensor count_norm(const Tensor& x, const Dims& dims, bool keepdim) {
  return sum(masked_fill(sign(x), x != 0, 1), dims, keepdim);
}

Tensor norm_of(const Tensor& operand, double order, const Dims& dims, bool keepdim, std::optional<DType> dtype) {
  const Tensor numbers = dtype ? checked(operand).to(*dtype) : checked(operand);
  const Tensor given = is_complex(numbers.dtype()) ? abs(numbers) : numbers;
  check_floating(given);
  if (std::isnan(order)) raise<ValueError>({.problem = "the order of a norm cannot be NaN"});
  const Tensor x = to_compute_type(given);
  Tensor out;
  if (std::isinf(order)) {
    const Tensor sizes = abs(x);
    out = order > 0 ? amax(sizes, dims, keepdim) : amin(sizes, dims, keepdim);
  } else if (order == 0) {
    out = count_norm(x, dims, keepdim);
  } else if (order == 1) {
    out = sum(abs(x), dims, keepdim);
  } else {
    out = root_of_powers(x, order, dims, keepdim);
  }
  return out.to(given.dtype());
}

}  // namespace

Tensor power_of_two_near(const Tensor& x) {
  const bool wide = x.dtype() == DType::f64;
  const double highest = wide ? 0x1p1023 : 0x1p127, least = wide ? 0x1p-1022 : 0x1p-126;
  return exp2(floor(log2(clip(x, least, highest))));
}

bool has_digits(const Tensor& sums) {
  if (!sums.device().is_cpu() || detail::capture_recorder != nullptr) return false;
  return sums.dtype() == DType::f64 ? all_have_digits<double>(sums) : all_have_digits<float>(sums);
}

Tensor norm(const Tensor& x, Location where) {
  const CallScope call("norm", where);
  WEFT_IN_FULL(norm, x, where);
  return norm_of(x, 2, {}, false, {});
}
Tensor norm(const Tensor& x, const Dims& dims, Location where) {
  const CallScope call("norm", where);
  WEFT_IN_FULL(norm, x, dims, where);
  return norm_of(x, 2, dims, false, {});
}
Tensor vector_norm(const Tensor& x, double order, const Dims& dims, bool keepdim, std::optional<DType> dtype,
                   Location where) {
  const CallScope call("vector_norm", where);
  WEFT_IN_FULL(vector_norm, x, order, dims, keepdim, dtype, where);
  return norm_of(x, order, dims, keepdim, dtype);
}

namespace {

double order_of(const Value& p) {
  if (std::holds_alternative<std::monostate>(p)) return 2;
  const auto* name = std::get_if<std::string>(&p);
  if (name == nullptr) return detail::unboxed<double>(p, 1);
  if (*name == "fro") return 2;
  raise<NotImplementedError>({.problem = mismatch_text("ord", "'fro' or a number", in_quotes(*name))});
}

std::vector<Values> norm_samples(SampleMaker& make) {
  const double infinite = HUGE_VAL;
  return {{make.tensor({2, 3})},
          {make.tensor({2, 3, 2}), 2.0, Dims{0, -1}},
          {make.tensor({2, 3}), int64_t{1}, Dims(1), true},
          {make.tensor({2, 3}), 3.5, Dims(0)},
          {make.tensor({2, 3}), 1.5},
          {make.tensor({2, 3}), 0.5, Dims(1)},
          {make.tensor({2, 3}), -1.0, Dims(1)},
          {make.tensor({2, 3}), infinite},
          {make.tensor({2, 3}), -infinite, Dims(-1)},
          {make.tensor({2, 3}), int64_t{0}, Dims(1)},
          {make.tensor({})},
          {make.tensor({0, 2}), 3.0, Dims(0)}};
}

Tensor call_norm(const Tensor& x, const Value& p, const Dims& dims, bool keepdim, std::optional<DType> dtype) {
  const CallScope call("norm");
  return norm_of(x, order_of(p), dims, keepdim, dtype);
}

constexpr OpRecord records[] = {
    {"norm", "norm(x, p='fro', dim=None, keepdim=False, *, dtype=None)",
     "The p-norm over dim, as vector_norm: 'fro' is the Euclidean one.", true, OpRecord::Domain::floating, norm_samples,
     parts::along, detail::boxed<call_norm>},
    {"vector_norm", "vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None)",
     "sum(|x|^ord)^(1/ord) over dim; the largest or smallest magnitude for an infinite ord, the number of elements "
     "that are not 0 for 0. 16-bit floats are computed in float32. The gradient at 0 is 0.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, norm_samples, parts::along,
     detail::boxed<weft::vector_norm>},
};

}  // namespace

std::span<const OpRecord> vector_norm_records() { return records; }

}  // namespace weft
