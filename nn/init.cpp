#include "init.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/subscript.hpp"
#include "../ops/matmul.hpp"
#include "../ops/pointwise.hpp"
#include "../ops/random.hpp"
#include "../ops/reduce.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::nn::init {

namespace {

void check_rank(const char* op, const Tensor& x, int least, int most, Location where) {
  if (checked(x, op, where).dim() >= least && x.dim() <= most) return;
  const std::string wanted = most == max_rank ? fmt::format("at least {}", least)
                             : most == least  ? fmt::format("{}", least)
                                              : fmt::format("{} to {}", least, most);
  raise<ShapeError>({.op = op, .problem = mismatch_text("x", wanted + " dimensions", "shape " + x.shape().text())},
                    where);
}

struct Fans {
  double in, out;
};

Fans fans_of(const char* op, const Tensor& x, Location where) {
  check_rank(op, x, 2, max_rank, where);
  double field = 1;
  for (const int64_t size : x.sizes().subspan(2)) field *= static_cast<double>(size);
  return {static_cast<double>(x.sizes()[1]) * field, static_cast<double>(x.sizes()[0]) * field};
}

double kaiming_deviation(const char* op, const Tensor& x, const KaimingOptions& options, Location where) {
  const Fans fans = fans_of(op, x, where);
  return calculate_gain(options.nonlinearity, options.a) / std::sqrt(options.mode == Fan::in ? fans.in : fans.out);
}

}  // namespace

const Tensor& uniform_(const Tensor& x, double low, double high, Generator* generator, Location where) {
  const NoGradGuard unrecorded;
  return weft::uniform_(x, low, high, generator, where);
}

const Tensor& normal_(const Tensor& x, double mean, double deviation, Generator* generator, Location where) {
  const NoGradGuard unrecorded;
  return weft::normal_(x, mean, deviation, generator, where);
}

const Tensor& constant_(const Tensor& x, Scalar value, Location where) {
  const NoGradGuard unrecorded;
  return checked(x, "nn::init::constant_", where).fill_(value, where);
}

const Tensor& ones_(const Tensor& x, Location where) { return constant_(x, 1, where); }
const Tensor& zeros_(const Tensor& x, Location where) { return constant_(x, 0, where); }

const Tensor& eye_(const Tensor& x, Location where) {
  check_rank("nn::init::eye_", x, 2, 2, where);
  zeros_(x, where);
  const NoGradGuard unrecorded;
  x.diagonal(0, 0, 1, where).fill_(1, where);
  return x;
}

const Tensor& dirac_(const Tensor& x, int64_t groups, Location where) {
  constexpr const char* op = "nn::init::dirac_";
  check_rank(op, x, 3, 5, where);
  if (groups < 1 || x.sizes()[0] % groups != 0) {
    raise<ValueError>({.op = op, .problem = fmt::format("{} groups do not divide {} channels", groups, x.sizes()[0])},
                      where);
  }
  zeros_(x, where);
  if (x.numel() == 0) return x;
  const NoGradGuard unrecorded;
  Tensor center = x;
  while (center.dim() > 2) center = center.select(2, center.sizes()[2] / 2, where);
  const int64_t each = x.sizes()[0] / groups;
  for (int64_t g = 0; g < groups; ++g) center.narrow(0, g * each, each, where).diagonal(0, 0, 1, where).fill_(1, where);
  return x;
}

double calculate_gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::tanh:
      return 5.0 / 3;
    case Nonlinearity::relu:
      return std::numbers::sqrt2;
    case Nonlinearity::leaky_relu:
      return std::sqrt(2 / (1 + slope * slope));
    case Nonlinearity::selu:
      return 0.75;
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid:
      break;
  }
  return 1;
}

const Tensor& xavier_uniform_(const Tensor& x, double gain, Generator* generator, Location where) {
  const Fans fans = fans_of("nn::init::xavier_uniform_", x, where);
  if (x.numel() == 0) return x;
  const double bound = gain * std::sqrt(6 / (fans.in + fans.out));
  return init::uniform_(x, -bound, bound, generator, where);
}

const Tensor& xavier_normal_(const Tensor& x, double gain, Generator* generator, Location where) {
  const Fans fans = fans_of("nn::init::xavier_normal_", x, where);
  if (x.numel() == 0) return x;
  return init::normal_(x, 0, gain * std::sqrt(2 / (fans.in + fans.out)), generator, where);
}

const Tensor& kaiming_uniform_(const Tensor& x, KaimingOptions options, Location where) {
  const double deviation = kaiming_deviation("nn::init::kaiming_uniform_", x, options, where);
  if (x.numel() == 0) return x;
  const double bound = std::numbers::sqrt3 * deviation;
  return init::uniform_(x, -bound, bound, options.generator, where);
}

const Tensor& kaiming_normal_(const Tensor& x, KaimingOptions options, Location where) {
  const double deviation = kaiming_deviation("nn::init::kaiming_normal_", x, options, where);
  if (x.numel() == 0) return x;
  return init::normal_(x, 0, deviation, options.generator, where);
}

namespace {

double normal_below(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

// The p-quantile of the standard normal distribution, for p up to 1/2: Abramowitz and Stegun 26.2.23, then Newton
// steps, which keep the relative precision of small p.
double normal_quantile(double p) {
  const double t = std::sqrt(-2 * std::log(std::max(p, 1e-300)));
  double z = (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
  for (int i = 0; i < 3; ++i) {
    const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
    if (density > 0) z -= (normal_below(z) - p) / density;
  }
  return z;
}

// Draws on x's device in the generator's order, returned as f64 on the CPU.
Tensor draws_like(const Tensor& x, bool normal, Generator* generator) {
  const DType dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor drawn = empty(x.shape(), {dtype, x.device()});
  if (normal) weft::normal_(drawn, 0, 1, generator);
  else weft::uniform_(drawn, 0, 1, generator);
  return drawn.to(Device()).to(DType::f64);
}

}  // namespace

const Tensor& trunc_normal_(const Tensor& x, TruncatedOptions o, Location where) {
  const CallScope call("nn::init::trunc_normal_", where);
  check_floating(checked(x));
  if (!(o.deviation > 0) || !(o.low < o.high)) {
    raise<ValueError>(
        {.problem = fmt::format("the deviation is {}, the bounds are {} and {}", o.deviation, o.low, o.high)});
  }
  double low = (o.low - o.mean) / o.deviation, high = (o.high - o.mean) / o.deviation;
  // Mirrors the interval to the side where small probabilities keep their precision.
  const bool mirrored = low > 0;
  if (mirrored) low = -std::exchange(high, -low);
  const double from = normal_below(low), to = normal_below(high);
  if (!(to - from > 1e-300)) {
    raise<ValueError>(
        {.problem = fmt::format("a normal distribution around {} has nothing from {} to {}", o.mean, o.low, o.high)});
  }
  if (x.numel() == 0 || x.device().type == DeviceType::meta) return x;
  const NoGradGuard unrecorded;
  const Tensor values = draws_like(x, false, o.generator);
  double* const v = values.data<double>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    const double p = from + v[i] * (to - from);
    double z = p <= 0.5 ? normal_quantile(p) : -normal_quantile(1 - p);
    z = std::clamp(z, low, high);
    v[i] = std::clamp(o.mean + o.deviation * (mirrored ? -z : z), o.low, o.high);
  }
  return x.copy_(values);
}

const Tensor& orthogonal_(const Tensor& x, double gain, Generator* generator, Location where) {
  constexpr const char* op = "nn::init::orthogonal_";
  check_rank(op, x, 2, max_rank, where);
  const CallScope call(op, where);
  check_floating(x);
  if (x.numel() == 0 || x.device().type == DeviceType::meta) return x;
  const NoGradGuard unrecorded;
  const int64_t rows = x.sizes()[0], columns = x.numel() / rows;
  const Tensor drawn = draws_like(x, true, generator).reshape({rows, columns});
  const bool tall = rows > columns;
  const Tensor q = tall ? drawn.t().contiguous() : drawn;
  // Gram-Schmidt with each vector orthogonalised twice, which suffices for full precision. The divisor is positive, as
  // a uniform distribution over these matrices requires.
  for (int64_t i = 0; i < q.sizes()[0]; ++i) {
    const Tensor v = q.select(0, i);
    const Tensor before = q.narrow(0, 0, i);
    for (int turn = 0; turn < 2 && i > 0; ++turn) v -= matmul(matmul(before, v), before);
    v /= norm(v);
  }
  const Tensor matrix = tall ? q.t() : q;
  return x.copy_((matrix * gain).reshape(x.shape()));
}

const Tensor& sparse_(const Tensor& x, double sparsity, double deviation, Generator* generator, Location where) {
  constexpr const char* op = "nn::init::sparse_";
  check_rank(op, x, 2, 2, where);
  if (!(sparsity >= 0 && sparsity <= 1)) {
    raise<ValueError>({.op = op, .problem = mismatch_text("sparsity", "a number in [0, 1]", sparsity)}, where);
  }
  init::normal_(x, 0, deviation, generator, where);
  if (x.numel() == 0) return x;
  const NoGradGuard unrecorded;
  const int64_t rows = x.sizes()[0];
  const auto zeroed = static_cast<int64_t>(std::ceil(sparsity * static_cast<double>(rows)));
  for (int64_t c = 0; c < x.sizes()[1]; ++c) {
    const Tensor order = randperm(rows, {DType::i64, x.device()}, generator, where);
    x.index_put_(IndexList({order.narrow(0, 0, zeroed, where), c}, where), Operand(0, where));
  }
  return x;
}

}  // namespace weft::nn::init
