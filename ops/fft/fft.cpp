#include "../fft.hpp"

#include <algorithm>
#include <cmath>

#include "../complex.hpp"
#include "../create.hpp"
#include "../detail/complex.hpp"
#include "../detail/parts.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../join.hpp"
#include "../pointwise.hpp"
#include "../rearrange.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::fft {

namespace {

// ---- the three kinds, each the gradient of another -----------------------------------------------------------------

void run_fourier(const Tensor& out, const Tensor& x, int dim, bool inverse, double factor) {
  if (const auto kernel = kernels(x.raw_view()).fourier; kernel != nullptr) {
    return kernel(out.raw_view(), x.raw_view(), dim, inverse, factor);
  }
  const NoGradGuard unrecorded;
  const Tensor given = x.to(Device()), result = make(out.sizes(), out.dtype(), Device());
  run_fourier(result, given, dim, inverse, factor);
  out.copy_(result);
}

Tensor new_result(const Tensor& x, int dim, int64_t n, DType dtype) {
  Dims shape = x.shape();
  shape[dim] = n;
  return make(shape, dtype, x.device());
}

// Complex to complex, multiplied by `factor`.
Tensor transform(const Tensor& x, int dim, bool inverse, double factor) {
  Tensor out = new_result(x, dim, x.size(dim), x.dtype());
  run_fourier(out, x, dim, inverse, factor);
  if (should_record(x)) {
    record(
        out, [=](Tensor&& g) { return transform(g, dim, !inverse, factor); }, x);
  }
  return out;
}

// x with n numbers along dim.
Tensor resized(const Tensor& x, int dim, int64_t n) {
  const int64_t size = x.size(dim);
  if (n == size) return x;
  if (n < size) return x.narrow(dim, 0, n);
  Dims rest = x.shape();
  rest[dim] = n - size;
  return cat({x, zeros(rest, {x.dtype(), x.device()})}, dim);
}

Tensor half_of_real(const Tensor& x, int dim, double factor) {
  const int64_t n = x.size(dim);
  Tensor out = new_result(x, dim, n / 2 + 1, complex_type(x.dtype()));
  run_fourier(out, x, dim, false, factor);
  if (should_record(x)) {
    record(
        out, [=](Tensor&& g) { return real(transform(resized(g, dim, n), dim, true, factor)); }, x);
  }
  return out;
}

// x has n / 2 + 1 numbers along dim.
Tensor real_of_half(const Tensor& x, int dim, int64_t n, double factor) {
  Tensor out = new_result(x, dim, n, real_type(x.dtype()));
  run_fourier(out, x, dim, true, factor);
  if (should_record(x)) {
    const auto backward = [=](Tensor&& g) {
      const Tensor half = half_of_real(g, dim, factor);
      const int64_t twice = (n - 1) / 2;  // those that stand for their conjugates, too
      if (twice == 0) return half;
      std::vector<Tensor> parts = {half.narrow(dim, 0, 1), half.narrow(dim, 1, twice) * 2};
      if (n % 2 == 0) parts.push_back(half.narrow(dim, n / 2, 1));
      return cat(parts, dim);
    };
    record(out, backward, x);
  }
  return out;
}

// ---- helpers of the public functions -------------------------------------------------------------------------------

double factor_of(Norm norm, bool inverse, int64_t n) {
  const double length = static_cast<double>(n);
  if (norm == Norm::ortho) return 1 / std::sqrt(length);
  return (norm == Norm::backward) == inverse ? 1 / length : 1;
}

Tensor in_float(const Tensor& given) {
  const Tensor& x = checked(given);
  if (is_complex(x.dtype()) || x.dtype() == DType::f32 || x.dtype() == DType::f64) return x;
  return x.to(is_floating(x.dtype()) ? DType::f32 : default_dtype() == DType::f64 ? DType::f64 : DType::f32);
}
Tensor in_complex(const Tensor& given) {
  const Tensor x = in_float(given);
  return x.to(complex_type(x.dtype()));
}
Tensor in_real(const Tensor& given) {
  refuse_complex(given);
  return in_float(given);
}

int64_t checked_length(int64_t n) {
  if (n >= 1) return n;
  raise<ValueError>({.problem = fmt::format("{} numbers have no transform", n)});
}

// The length that was asked for, or `own`.
int64_t length_of(const Options& options, int64_t own) { return checked_length(options.n.value_or(own)); }

Tensor one(const Tensor& given, const Options& options, bool inverse) {
  const Tensor x = in_complex(given);
  const int dim = wrap_dim(options.dim, x.dim());
  const int64_t n = length_of(options, x.size(dim));
  return transform(resized(x, dim, n), dim, inverse, factor_of(options.norm, inverse, n));
}

Tensor one_half(const Tensor& given, const Options& options, bool inverse) {
  const Tensor x = in_real(given);
  const int dim = wrap_dim(options.dim, x.dim());
  const int64_t n = length_of(options, x.size(dim));
  return half_of_real(resized(x, dim, n), dim, factor_of(options.norm, inverse, n));
}

Tensor one_real(const Tensor& x, const Options& options, bool inverse) {
  const int dim = wrap_dim(options.dim, x.dim());
  const int64_t n = length_of(options, 2 * (x.size(dim) - 1));
  return real_of_half(resized(x, dim, n / 2 + 1), dim, n, factor_of(options.norm, inverse, n));
}

// Dimensions and lengths, in order; a length may be -1.
struct Plan {
  Dims dims, lengths;
  int last() const { return static_cast<int>(dims[dims.size() - 1]); }
};

Plan plan_of(const Tensor& x, const ManyOptions& options, std::optional<int> count) {
  Plan plan;
  std::optional<Dims> dims = options.dims;
  if (!dims && count) dims = *count == 2 ? Dims{-2, -1} : Dims{-1};
  if (!dims) {
    const int wanted = options.s ? options.s->size() : x.dim();
    if (wanted > x.dim()) {
      raise<ShapeError>({.problem = fmt::format("{} lengths for a tensor of {} dimensions", wanted, x.dim())});
    }
    dims.emplace();
    for (int i = x.dim() - wanted; i < x.dim(); ++i) dims->push_back(i);
  }
  if (options.s && options.s->size() != dims->size()) {
    raise<ShapeError>({.problem = fmt::format("{} lengths for {} dimensions", options.s->size(), dims->size())});
  }
  for (int i = 0; i < dims->size(); ++i) {
    const int dim = wrap_dim((*dims)[i], x.dim());
    if (std::ranges::find(plan.dims, dim) != plan.dims.end()) {
      raise<ValueError>({.problem = fmt::format("dimension {} is named twice", dim)});
    }
    plan.dims.push_back(dim);
    plan.lengths.push_back(options.s ? (*options.s)[i] : -1);
  }
  return plan;
}

void check_some(const Plan& plan) {
  if (plan.dims.size() > 0) return;
  raise<ValueError>({.problem = "a transform of real numbers needs a dimension"});
}

// All dimensions of the plan but the last `left`.
Tensor each(Tensor x, const Plan& plan, int left, Norm norm, bool inverse) {
  for (int i = 0; i < plan.dims.size() - left; ++i) {
    const int dim = static_cast<int>(plan.dims[i]);
    const int64_t n = checked_length(plan.lengths[i] == -1 ? x.size(dim) : plan.lengths[i]);
    x = transform(resized(x, dim, n), dim, inverse, factor_of(norm, inverse, n));
  }
  return x;
}

Options last_of(const Plan& plan, Norm norm) {
  const int64_t n = plan.lengths[plan.lengths.size() - 1];
  return {n == -1 ? std::nullopt : std::optional(n), plan.last(), norm};
}

Tensor many(const Tensor& given, const ManyOptions& options, std::optional<int> count, bool inverse) {
  const Tensor x = in_complex(given);
  const Plan plan = plan_of(x, options, count);
  return each(x, plan, 0, options.norm, inverse);
}
Tensor many_half(const Tensor& x, const ManyOptions& options, std::optional<int> count, bool inverse) {
  const Plan plan = plan_of(checked(x), options, count);
  check_some(plan);
  const Tensor half = one_half(x, last_of(plan, options.norm), inverse);
  return each(inverse ? conj(half) : half, plan, 1, options.norm, inverse);
}
Tensor many_real(const Tensor& given, const ManyOptions& options, std::optional<int> count, bool inverse) {
  const Tensor x = in_complex(given);
  const Plan plan = plan_of(x, options, count);
  check_some(plan);
  const Tensor lines = each(x, plan, 1, options.norm, inverse);
  return one_real(inverse ? lines : conj(lines), last_of(plan, options.norm), inverse);
}

}  // namespace

Tensor fft(const Tensor& x, Options options, Location where) {
  const CallScope call("fft", where);
  return one(x, options, false);
}
Tensor ifft(const Tensor& x, Options options, Location where) {
  const CallScope call("ifft", where);
  return one(x, options, true);
}
Tensor rfft(const Tensor& x, Options options, Location where) {
  const CallScope call("rfft", where);
  return one_half(x, options, false);
}
Tensor irfft(const Tensor& x, Options options, Location where) {
  const CallScope call("irfft", where);
  return one_real(in_complex(x), options, true);
}
Tensor hfft(const Tensor& x, Options options, Location where) {
  const CallScope call("hfft", where);
  return one_real(conj(in_complex(x)), options, false);
}
Tensor ihfft(const Tensor& x, Options options, Location where) {
  const CallScope call("ihfft", where);
  return conj(one_half(x, options, true));
}

#define WEFT_MANY(name, two, function, inverse)                              \
  Tensor name(const Tensor& x, const ManyOptions& options, Location where) { \
    const CallScope call(#name, where);                                      \
    return function(x, options, {}, inverse);                                \
  }                                                                          \
  Tensor two(const Tensor& x, const ManyOptions& options, Location where) {  \
    const CallScope call(#two, where);                                       \
    return function(x, options, 2, inverse);                                 \
  }
WEFT_MANY(fftn, fft2, many, false)
WEFT_MANY(ifftn, ifft2, many, true)
WEFT_MANY(rfftn, rfft2, many_half, false)
WEFT_MANY(irfftn, irfft2, many_real, true)
WEFT_MANY(hfftn, hfft2, many_real, false)
WEFT_MANY(ihfftn, ihfft2, many_half, true)
#undef WEFT_MANY

Tensor fftfreq(int64_t n, double d, TensorOptions options, Location where) {
  const CallScope call("fftfreq", where);
  checked_length(n);
  const TensorOptions whole{.dtype = DType::i64, .device = options.device};
  const Tensor numbers = cat({arange(0, (n + 1) / 2, 1, whole), arange(-(n / 2), 0, 1, whole)});
  Tensor out = numbers.to(DType::f64) * (1 / (static_cast<double>(n) * d));
  out = out.to(options.dtype.value_or(default_dtype()));
  return options.requires_grad ? out.requires_grad_(true) : out;
}
Tensor rfftfreq(int64_t n, double d, TensorOptions options, Location where) {
  const CallScope call("rfftfreq", where);
  checked_length(n);
  const Tensor numbers = arange(0, n / 2 + 1, 1, {.dtype = DType::f64, .device = options.device});
  Tensor out = (numbers * (1 / (static_cast<double>(n) * d))).to(options.dtype.value_or(default_dtype()));
  return options.requires_grad ? out.requires_grad_(true) : out;
}

namespace {

Tensor shifted(const Tensor& x, const std::optional<Dims>& given, bool back) {
  Dims dims, shifts;
  const int rank = checked(x).dim();
  if (given) dims = *given;
  else
    for (int i = 0; i < rank; ++i) dims.push_back(i);
  for (const int64_t dim : dims) {
    const int64_t n = x.size(wrap_dim(dim, rank));
    shifts.push_back(back ? (n + 1) / 2 : n / 2);
  }
  return dims.size() == 0 ? x.clone() : roll(x, shifts, dims);
}

}  // namespace

Tensor fftshift(const Tensor& x, const std::optional<Dims>& dims, Location where) {
  const CallScope call("fftshift", where);
  return shifted(x, dims, false);
}
Tensor ifftshift(const Tensor& x, const std::optional<Dims>& dims, Location where) {
  const CallScope call("ifftshift", where);
  return shifted(x, dims, true);
}

// ---- records -------------------------------------------------------------------------------------------------------

namespace {

Norm norm_named(const std::string& name) {
  constexpr const char* names[] = {"backward", "ortho", "forward"};
  for (int i = 0; i < 3; ++i) {
    if (name == names[i]) return static_cast<Norm>(i);
  }
  raise_value("norm", "'backward', 'ortho' or 'forward'", in_quotes(name));
}

template <Tensor (*function)(const Tensor&, Options, Location)>
Tensor call_one(const Tensor& x, std::optional<int64_t> n, int dim, const std::string& norm) {
  return function(x, {n, dim, norm_named(norm)}, {});
}
template <Tensor (*function)(const Tensor&, const ManyOptions&, Location)>
Tensor call_many(const Tensor& x, std::optional<Dims> s, std::optional<Dims> dim, const std::string& norm) {
  return function(x, {std::move(s), std::move(dim), norm_named(norm)}, {});
}

std::vector<Values> one_samples(SampleMaker& make) {
  return {{make.tensor({3, 6})},
          {make.tensor({5}), int64_t{8}},
          {make.tensor({4, 3}), int64_t{3}, int64_t{0}, "ortho"},
          {make.tensor({2, 7}), {}, int64_t{-1}, "forward"}};
}
std::vector<Values> many_samples(SampleMaker& make) {
  return {{make.tensor({3, 4})},
          {make.tensor({2, 3, 5}), Dims{4, 4}, Dims{0, 2}, "ortho"},
          {make.tensor({2, 4, 3}), {}, Dims{-2, -1}, "forward"}};
}
std::vector<Values> shift_samples(SampleMaker& make) {
  return {{make.tensor({3, 4})}, {make.tensor({2, 5}), Dims{1}}, {make.tensor({3}), Dims{-1}}};
}

constexpr auto floating = OpRecord::Domain::floating;
#define WEFT_ONE(name, document)                                                                                    \
  {                                                                                                                 \
    "fft_" #name, "fft_" #name "(x|input, n=None, dim=-1, norm='backward')", document, true, floating, one_samples, \
        parts::along, detail::boxed<&call_one<&name>>                                                               \
  }
#define WEFT_MANY(name, document)                                                                                      \
  {                                                                                                                    \
    "fft_" #name, "fft_" #name "(x|input, s=None, dim=None, norm='backward')", document, true, floating, many_samples, \
        parts::whole, detail::boxed<&call_many<&name>>                                                                 \
  }
const OpRecord all_fft_records[] = {
    WEFT_ONE(fft, "The discrete Fourier transform along dim."),
    WEFT_ONE(ifft, "Its inverse."),
    WEFT_ONE(rfft, "The first half of the transform of real numbers."),
    WEFT_ONE(irfft, "The inverse of rfft: real, of length n or 2 (size - 1)."),
    WEFT_ONE(hfft, "The real transform of a signal that is its own mirrored conjugate, of its first half."),
    WEFT_ONE(ihfft, "The inverse of hfft."),
    WEFT_MANY(fftn, "The transform along several dimensions."),
    WEFT_MANY(ifftn, "Its inverse."),
    WEFT_MANY(rfftn, "fftn of real numbers, the last dimension halved."),
    WEFT_MANY(irfftn, "The inverse of rfftn."),
    WEFT_MANY(hfftn, "hfft along the last dimension, fft along the others."),
    WEFT_MANY(ihfftn, "The inverse of hfftn."),
    WEFT_MANY(fft2, "fftn along the last two dimensions."),
    WEFT_MANY(ifft2, "Its inverse."),
    WEFT_MANY(rfft2, "rfftn along the last two dimensions."),
    WEFT_MANY(irfft2, "The inverse of rfft2."),
    WEFT_MANY(hfft2, "hfftn along the last two dimensions."),
    WEFT_MANY(ihfft2, "The inverse of hfft2."),
    {"fft_fftshift", "fft_fftshift(x|input, dim=None)", "The number of frequency 0 brought into the middle.", true,
     OpRecord::Domain::any, shift_samples, parts::whole, detail::boxed<&fftshift>},
    {"fft_ifftshift", "fft_ifftshift(x|input, dim=None)", "The inverse of fftshift.", true, OpRecord::Domain::any,
     shift_samples, parts::whole, detail::boxed<&ifftshift>},
};
#undef WEFT_ONE
#undef WEFT_MANY

}  // namespace
}  // namespace weft::fft

namespace weft {
std::span<const OpRecord> fft_records() { return fft::all_fft_records; }
}  // namespace weft
