// Running products, extremes and sums of exponentials: by kernels, or composed of ops on slices.
#include "../complex.hpp"
#include "../create.hpp"
#include "../detail/autocast.hpp"
#include "../detail/complex.hpp"
#include "../detail/indices.hpp"
#include "../detail/records.hpp"
#include "../join.hpp"
#include "../pointwise.hpp"
#include "../scan.hpp"
#include "../scatter.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

// Contiguous, with dim in front, and back.
Tensor front(const Tensor& x, int dim) { return x.transpose(0, dim).contiguous(); }

// t[j] = g[j] + a[j + 1] t[j + 1] from the end; dimension 0 is first.
Tensor backwards(const Tensor& g, const Tensor& a) {
  const int64_t n = g.sizes()[0];
  if (n <= 1) return g;
  if (!recording()) {
    const Tensor out = g.clone();
    for (int64_t j = n - 2; j >= 0; --j) add_(out.select(0, j), a.select(0, j + 1) * out.select(0, j + 1));
    return out;
  }
  std::vector<Tensor> terms(static_cast<size_t>(n));
  terms.back() = g.select(0, n - 1);
  for (int64_t j = n - 2; j >= 0; --j) {
    const auto at = static_cast<size_t>(j);
    terms[at] = addcmul(g.select(0, j), a.select(0, j + 1), terms[at + 1]);
  }
  return stack(terms);
}

// Of the prefix products before it, dx[j] gets those of x after j, weighted by g: no division, so zeros are no matter.
struct CumprodBackward {
  Saved input;
  SavedOutput output;
  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor x = conjugate(input.get(self)), y = conjugate(output.get(self));
    const int64_t n = x.sizes()[0];
    const Tensor after = backwards(g, x);
    const Tensor first = ones_like(y.narrow(0, 0, 1));
    return cat({first, y.narrow(0, 0, n - 1)}) * after;
  }
};

struct LogCumsumExpBackward {
  Saved input;
  SavedOutput output;
  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor &x = input.get(self), y = output.get(self);
    const int64_t n = x.sizes()[0];
    // exp of how much the logarithm grows, at most 1; -inf does not grow.
    const Tensor from = y.narrow(0, 0, n - 1), to = y.narrow(0, 1, n - 1), still = from == to;
    const Tensor ratio = exp(masked_fill(from - to, still, 0));
    const Tensor after = backwards(g, cat({ones_like(y.narrow(0, 0, 1)), ratio}));
    const Tensor none = y == -__builtin_inf();
    return masked_fill(exp(x - masked_fill(y, none, 0)), none, 0) * after;
  }
};

// The running combination of slices, with dimension 0 first.
template <class Combine>
Tensor combined_slices(const Tensor& lines, Combine&& combine) {
  const Tensor out = lines.clone();
  for (int64_t i = 1; i < out.sizes()[0]; ++i) combine(out.select(0, i), out.select(0, i - 1));
  return out;
}

// `compute(x, dim)` of a contiguous x, with dim in front where its gradient is wanted.
template <class Backward, class Compute>
Tensor run_along(const Tensor& x, int dim, Compute&& compute) {
  if (x.numel() == 0 || x.dim() == 0 || is_meta(x)) return x.clone();
  if (!should_record(x)) return compute(x.contiguous(), dim);
  const Tensor lines = front(x, dim);
  Tensor out;
  {
    const NoGradGuard unrecorded;
    out = compute(lines, 0);
  }
  record(out, Backward{Saved(lines), SavedOutput(out)}, lines);
  return front(out, dim);
}

Tensor products_along(const Tensor& x, int dim) {
  if (const auto kernel = kernels(x.raw_view()).running_product; kernel != nullptr && !is_complex(x.dtype())) {
    const Tensor out = make_like(x);
    kernel(out.raw_view(), x.raw_view(), dim);
    return out;
  }
  const auto times = [](const Tensor& to, const Tensor& before) { to.copy_(to * before); };
  return front(combined_slices(front(x, dim), times), dim);
}

Tensor log_sums_along(const Tensor& x, int dim) {
  constexpr int64_t long_slice = 64;  // from here on a slice's op is faster than the CPU's loop
  const auto kernel = kernels(x.raw_view()).running_log_sum_exp;
  if (kernel != nullptr && (x.numel() / x.size(dim) < long_slice || !x.device().is_cpu())) {
    const Tensor out = make_like(x);
    kernel(out.raw_view(), x.raw_view(), dim);
    return out;
  }
  const auto add = [](const Tensor& to, const Tensor& before) { logaddexp_(to, before); };
  return front(combined_slices(front(x, dim), add), dim);
}

// Each slice of x (dimension 0 first) becomes the extreme of the slices up to it: sequentially if slices are long, else
// in rounds that cover 1, 2, 4, … slices. MinMax are exact in any order.
template <class Combine>
void become_running(const Tensor& x, Combine&& combine) {
  const int64_t n = x.sizes()[0];
  if (is_meta(x)) return;
  if (n <= x.numel() / n) {
    for (int64_t i = 1; i < n; ++i) x.select(0, i).copy_(combine(x.select(0, i), x.select(0, i - 1)));
    return;
  }
  for (int64_t step = 1; step < n; step *= 2) {
    const Tensor later = x.narrow(0, step, n - step);
    later.copy_(combine(later, x.narrow(0, 0, n - step)));
  }
}

Tensor larger(const Tensor& a, const Tensor& b) { return maximum(a, b); }
Tensor smaller(const Tensor& a, const Tensor& b) { return minimum(a, b); }

Tensor composed_places(const Tensor& x, int dim, bool largest) {
  const Tensor given = front(x, dim), values = given.clone();
  become_running(values, largest ? larger : smaller);
  // The index of the running extreme; the last one of equal elements.
  const Tensor is_new = logical_or(given == values, isnan(given));
  Dims line = Dims::filled(x.dim(), 1);
  line[0] = given.sizes()[0];
  const Tensor places = arange(0, line[0], 1, {DType::i64, x.device()}).reshape(line);
  const Tensor index = weft::where(is_new, places, 0);
  become_running(index, larger);
  return front(index, dim);
}

Tensor complex_log_add_exp(const Tensor& a, const Tensor& b) {
  const Tensor larger = maximum(real(a), real(b)).detach(), shift = masked_fill(larger, isinf(larger), 0);
  return log(exp(a - shift) + exp(b - shift)) + shift;
}

// Sums over the last 1, 2, 4, … elements, each made of two of half the length.
Tensor complex_log_sums_along(const Tensor& x, int along) {
  const int64_t n = x.dim() == 0 ? 1 : x.size(along);
  Tensor sums = x.clone();
  for (int64_t length = 1; length < n; length *= 2) {
    const Tensor later = sums.narrow(along, length, n - length), earlier = sums.narrow(along, 0, n - length);
    sums = cat({sums.narrow(along, 0, length), complex_log_add_exp(later, earlier)}, along);
  }
  return sums;
}

ValuesAndIndices extremes_along(const Tensor& x, int dim, bool largest) {
  const int along = wrap_dim(dim, checked(x).dim());
  refuse_complex(x);
  if (x.dim() == 0 || x.numel() == 0) return {x.clone(), zeros(x.shape(), {DType::i64, x.device()})};
  Tensor index, values;
  {
    const NoGradGuard unrecorded;
    const Tensor given = x.dtype() == DType::boolean ? x.to(DType::u8) : x;
    if (const auto kernel = kernels(x.raw_view()).running_extreme; kernel != nullptr) {
      const Tensor dense = (is_floating(x.dtype()) ? to_compute_type(given) : given).contiguous();
      values = make_like(dense);
      index = make(x.sizes(), DType::i64, x.device());
      kernel(values.raw_view(), index.raw_view(), dense.raw_view(), along, largest);
    } else {
      index = composed_places(given, along, largest);
    }
  }
  if (!values.defined() || should_record(x)) return {gather(x, along, index), index};
  return {values.to(x.dtype()), index};
}

}  // namespace

Tensor cumprod(const Tensor& given, int dim, std::optional<DType> dtype, Location where) {
  const CallScope call("cumprod", where);
  WEFT_IN_FULL(cumprod, given, dim, dtype, where);
  const int along = wrap_dim(dim, checked(given).dim());
  const DType wanted = sum_type(given, dtype);
  if (wanted == DType::boolean) raise_dtype("dtype", "a dtype of numbers", wanted);
  const DType wide = is_inexact(wanted)     ? product_type(compute_type(wanted), given.device())
                     : wanted == DType::u64 ? wanted
                                            : DType::i64;
  return run_along<CumprodBackward>(given.to(wanted).to(wide), along, products_along).to(wanted);
}

Tensor logcumsumexp(const Tensor& x, int dim, Location where) {
  const CallScope call("logcumsumexp", where);
  WEFT_IN_FULL(logcumsumexp, x, dim, where);
  const int along = wrap_dim(dim, checked(x).dim());
  if (is_complex(x.dtype())) return complex_log_sums_along(x, along);
  check_floating(x);
  return run_along<LogCumsumExpBackward>(to_compute_type(x), along, log_sums_along).to(x.dtype());
}

ValuesAndIndices cummax(const Tensor& x, int dim, Location where) {
  const CallScope call("cummax", where);
  return extremes_along(x, dim, true);
}
ValuesAndIndices cummin(const Tensor& x, int dim, Location where) {
  const CallScope call("cummin", where);
  return extremes_along(x, dim, false);
}

namespace {

template <ValuesAndIndices (*function)(const Tensor&, int, Location)>
std::vector<Tensor> call_extreme(const Tensor& x, int dim) {
  auto [values, indices] = function(x, dim, {});
  return {std::move(values), std::move(indices)};
}

std::vector<Values> running_samples(SampleMaker& make) {
  return {{make.tensor({2, 5}), int64_t{1}},     {make.tensor({3, 2, 2}), int64_t{0}},
          {make.tensor({2, 3, 2}), int64_t{-2}}, {make.tensor({}), int64_t{0}},
          {make.tensor({1, 2}), int64_t{0}},     {make.tensor({0, 3}), int64_t{0}},
          {make.tensor({0, 3}), int64_t{1}}};
}

constexpr auto any_type = OpRecord::Domain::any;
constexpr OpRecord records[] = {
    {"cumprod", "cumprod(x, dim, *, dtype=None)",
     "Prefix products along dim. Integers give int64; 16-bit floats multiply in float32, complex64 in complex128. The "
     "gradient is exact at zeros.",
     OpFacts(true, Autocast::full), any_type, running_samples, parts::along, detail::boxed<&weft::cumprod>},
    {"logcumsumexp", "logcumsumexp(x, dim)", "log of the prefix sums of exp(x) along dim, without overflow.",
     OpFacts(true, Autocast::full), OpRecord::Domain::floating, running_samples, parts::along,
     detail::boxed<&weft::logcumsumexp>},
    {"cummax", "cummax(x, dim) -> (values, indices)",
     "The largest element up to each along dim and the last index of it; from a NaN on NaN.", true, any_type,
     running_samples, parts::along, detail::boxed<call_extreme<weft::cummax>>},
    {"cummin", "cummin(x, dim) -> (values, indices)",
     "The smallest element up to each along dim and the last index of it; from a NaN on NaN.", true, any_type,
     running_samples, parts::along, detail::boxed<call_extreme<weft::cummin>>},
};

}  // namespace

std::span<const OpRecord> running_records() { return records; }

}  // namespace weft
