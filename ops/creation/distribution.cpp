#include "../distribution.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "../create.hpp"
#include "../detail/promote.hpp"
#include "../detail/gamma_draws.hpp"
#include "../detail/records.hpp"
#include "../detail/write.hpp"
#include "../pointwise.hpp"
#include "../random.hpp"
#include "../reduce.hpp"
#include "../../tensor/layout.hpp"
#include "../../tensor/philox.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

// ---- numbers on the host --------------------------------------------------------------------------------------------

// The words of one result: its own counter, and as many subsequences as it needs.
class Draws {
 public:
  Draws(const GeneratorState& start, int64_t result)
      : seed_(start.seed), subsequence_(start.subsequence), offset_(start.offset + static_cast<uint64_t>(result)) {}

  double uniform() { return unit_f64(words()); }
  /// Above 0.
  double positive() { return 1 - uniform(); }
  double normal() {
    const uint64_t first = words();
    return normal_pair(first, words()).first;
  }

 private:
  uint64_t words() {
    if (next_ == 4) {
      block_ = philox4x32_10(seed_, subsequence_, offset_);
      subsequence_ += uint64_t{1} << 32;
      next_ = 0;
    }
    const uint64_t low = block_.word[next_], high = block_.word[next_ + 1];
    next_ += 2;
    return low | high << 32;
  }

  uint64_t seed_, subsequence_, offset_;
  PhiloxWords block_{};
  int next_ = 4;
};

GeneratorState reserve_results(Generator* generator, Device device, int64_t count) {
  Generator& source = generator != nullptr ? *generator : default_generator(device);
  return source.reserve(static_cast<uint64_t>(count));
}

// In row-major order; for too many of them a typed error.
std::vector<double> numbers_of(const Tensor& t) {
  check_room(t.sizes(), DType::f64, {});
  return t.detach().to_vector<double>();
}

// A distribution of each element by itself; value(stream, i).
template <class F>
Tensor drawn_on_host(const Tensor& like, Generator* generator, F&& value) {
  const int64_t count = like.numel();
  const Tensor out = make(like.sizes(), DType::f64, {});
  const GeneratorState start = reserve_results(generator, like.device(), count);
  for (int64_t i = 0; i < count; ++i) {
    Draws stream(start, i);
    static_cast<double*>(out.data_ptr())[i] = value(stream, static_cast<size_t>(i));
  }
  return out.to(like.dtype()).to(like.device());
}

constexpr double most_finite = std::numeric_limits<double>::max();

void check_numbers(const std::vector<double>& numbers, double least, double highest, const char* what) {
  for (const double v : numbers) {
    if (v >= least && v <= highest) continue;
    raise_value(what,
                highest == most_finite ? Shown("finite numbers of at least 0")
                                       : fmt::format("numbers in [{}, {}]", least, highest),
                v);
  }
}

double poisson_number(Draws& stream, double rate) {
  if (rate < 10) {  // by inversion
    double rest = stream.uniform(), probability = std::exp(-rate);
    int k = 0;
    for (; rest >= probability && k < 1000; ++k) {
      rest -= probability;
      probability *= rate / (k + 1);
    }
    return k;
  }
  const double logarithm = std::log(rate), b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = stream.uniform() - 0.5, v = stream.positive(), s = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / s + b) * u + rate + 0.43);
    if (s >= 0.07 && v <= v_r) return k;
    if (!(k >= 0) || (s < 0.013 && v > s)) continue;
    const double height = std::log(v * inverse_alpha / (a / (s * s) + b));
    if (height <= k * logarithm - rate - std::lgamma(k + 1)) return k;
  }
}

double gamma_number(Draws& stream, double shape) {
  if (shape < 1) {
    const double power = std::pow(stream.positive(), 1 / shape);
    return shape == 0 ? 0 : gamma_number(stream, shape + 1) * power;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = stream.normal(), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root, u = stream.positive();
    if (u < 1 - 0.0331 * (x * x) * (x * x) || std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v))) return d * v;
  }
}

double log_gamma_number(Draws& stream, double shape) {
  if (shape >= 1) return std::log(gamma_number(stream, shape));
  const double power = std::log(stream.positive()) / shape;
  return shape == 0 ? -HUGE_VAL : std::log(gamma_number(stream, shape + 1)) + power;
}

// log k! without the main terms of Stirling's formula.
double factorial_tail(double k) {
  const double n = k + 1;
  if (k < 10) return std::lgamma(n) - ((k + 0.5) * std::log(n) - n + 0.5 * std::log(2 * M_PI));
  const double square = n * n;
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / n;
}

double binomial_number(Draws& stream, double n, double p) {
  if (n == 0 || p == 0) return 0;
  if (p > 0.5) return n - binomial_number(stream, n, 1 - p);
  if (n * p < 10) {  // by the trials that each success takes
    const double failure = std::log1p(-p);
    double trials = 0, successes = 0;
    for (;; ++successes) {
      trials += std::fmax(1, std::ceil(std::log(stream.positive()) / failure));
      if (trials > n) return successes;
    }
  }
  const double deviation = std::sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p, c = n * p + 0.5, v_r = 0.92 - 4.2 / b;
  const double odds = p / (1 - p), alpha = (2.83 + 5.1 / b) * deviation, m = std::floor((n + 1) * p);
  const double of_mode =
      factorial_tail(m) + factorial_tail(n - m) + (m + 0.5) * std::log((m + 1) / (odds * (n - m + 1)));
  for (;;) {
    const double u = stream.uniform() - 0.5, v = stream.positive(), s = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / s + b) * u + c);
    if (s >= 0.07 && v <= v_r) return k;
    if (!(k >= 0 && k <= n)) continue;
    const double height = std::log(v * alpha / (a / (s * s) + b));
    const double of_k =
        (n + 1) * std::log((n - m + 1) / (n - k + 1)) + (k + 0.5) * std::log(odds * (n - k + 1) / (k + 1));
    if (height <= of_mode + of_k - factorial_tail(k) - factorial_tail(n - k)) return k;
  }
}

// ---- multinomial ----------------------------------------------------------------------------------------------------

void choose_again(std::span<const double> weights, const GeneratorState& start, int64_t first, std::span<int64_t> out) {
  std::vector<double> sums(weights.size());
  std::partial_sum(weights.begin(), weights.end(), sums.begin());
  for (size_t i = 0; i < out.size(); ++i) {
    const double place = Draws(start, first + static_cast<int64_t>(i)).uniform() * sums.back();
    // Rounding may bring the place to the end: the first that reaches it has a weight.
    const auto found =
        place < sums.back() ? std::ranges::upper_bound(sums, place) : std::ranges::lower_bound(sums, place);
    out[i] = found - sums.begin();
  }
}

void choose_once(std::span<const double> weights, const GeneratorState& start, int64_t first, std::span<int64_t> out) {
  std::vector<std::pair<double, int64_t>> keys(weights.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    const double key = -std::log(Draws(start, first + place).positive());
    keys[i] = {weights[i] > 0 ? key / weights[i] : HUGE_VAL, place};
  }
  const auto end = keys.begin() + static_cast<ptrdiff_t>(out.size());
  std::partial_sort(keys.begin(), end, keys.end());
  for (size_t i = 0; i < out.size(); ++i) out[i] = keys[i].second;
}

// ---- in place -------------------------------------------------------------------------------------------------------

void check_positive(double number, const char* what) {
  if (!(number > 0)) raise_value(what, "a number above 0", number);
}

Tensor uniform_for(const Tensor& x, DType dtype, Generator* generator) {
  return rand(x.shape(), TensorOptions{dtype, x.device()}, generator);
}

// x's new elements, which are made in `fresh`, without a gradient.
template <class F>
const Tensor& overwritten(const Tensor& x, F&& fresh) {
  check_target(x);
  Tensor numbers;
  {
    const NoGradGuard unrecorded;
    numbers = fresh();
  }
  return x.copy_(numbers);
}

double largest_number(DType t) {
  if (t == DType::boolean) return 1;
  if (is_floating(t)) return largest(t);
  const double top = std::exp2(static_cast<double>(itemsize(t)) * 8 - (is_signed(t) ? 1 : 0));
  return itemsize(t) == 8 ? std::nextafter(top, 0) : top - 1;
}

void check_deviation(const Tensor& deviation) {
  if (deviation.numel() == 0 || is_meta(deviation)) return;
  check_elements([single = without_repeats(deviation)] {
    const double least = amin(single).item<double>();
    expect_at_least("deviation", least, 0);
  });
}

}  // namespace

Tensor normal(const Operand& mean, const Operand& deviation, Generator* generator, Location where) {
  const CallScope call("normal", where);
  const Tensor &centre = checked(mean.tensor()), &width = checked(deviation.tensor());
  const DType dtype = result_type(centre, width);
  if (!is_floating(dtype)) check_floating(centre);
  const auto shape = broadcast(centre.sizes(), width.sizes());
  if (!shape) {
    raise<ShapeError>(
        {.problem = fmt::format("shapes {} and {} do not broadcast", centre.shape().text(), width.shape().text())});
  }
  const NoGradGuard unrecorded;
  check_deviation(width);
  const Device device = centre.dim() == 0 ? width.device() : centre.device();
  const Tensor z = randn(*shape, TensorOptions{compute_type(dtype), device}, generator);
  return (centre + width * z).to(dtype);
}

Tensor normal(double mean, double deviation, const Dims& shape, TensorOptions options, Generator* generator,
              Location where) {
  const CallScope call("normal", where);
  const Tensor out = empty(shape, {options.dtype, options.device});
  normal_(out, mean, deviation, generator);
  return options.requires_grad ? out.requires_grad_(true) : out;
}

Tensor randint_like(const Tensor& x, int64_t low, int64_t high, Generator* generator, Location where) {
  const CallScope call("randint_like", where);
  checked(x);
  return randint(low, high, x.shape(), TensorOptions{x.dtype(), x.device()}, generator);
}

const Tensor& exponential_(const Tensor& x, double rate, Generator* generator, Location where) {
  const CallScope call("exponential_", where);
  check_floating(checked(x));
  check_positive(rate, "rate");
  return overwritten(x, [&] { return -log1p(-uniform_for(x, compute_type(x.dtype()), generator)) / rate; });
}

const Tensor& geometric_(const Tensor& x, double p, Generator* generator, Location where) {
  const CallScope call("geometric_", where);
  checked(x);
  if (!(p > 0 && p < 1)) raise_value("probability", "a number in (0, 1)", p);
  const DType wide = is_floating(x.dtype()) ? compute_type(x.dtype()) : DType::f64;
  return overwritten(x, [&] {
    const Tensor trials = ceil(log1p(-uniform_for(x, wide, generator)) / std::log1p(-p));
    return clip(trials, 1, largest_number(x.dtype()));
  });
}

const Tensor& cauchy_(const Tensor& x, double median, double scale, Generator* generator, Location where) {
  const CallScope call("cauchy_", where);
  check_floating(checked(x));
  check_positive(scale, "scale");
  return overwritten(x, [&] {
    const Tensor turns = uniform_for(x, compute_type(x.dtype()), generator) - 0.5;
    return median + scale * tan(M_PI * turns);
  });
}

const Tensor& log_normal_(const Tensor& x, double mean, double deviation, Generator* generator, Location where) {
  const CallScope call("log_normal_", where);
  check_floating(checked(x));
  check_positive(deviation, "deviation");
  return overwritten(x, [&] {
    const TensorOptions options{compute_type(x.dtype()), x.device()};
    return exp(mean + deviation * randn(x.shape(), options, generator));
  });
}

Tensor poisson(const Tensor& rates, Generator* generator, Location where) {
  const CallScope call("poisson", where);
  check_floating(checked(rates));
  if (is_meta(rates)) return make_like(rates);
  const std::vector<double> each = numbers_of(rates);
  check_numbers(each, 0, most_finite, "rate");
  const Tensor out =
      drawn_on_host(rates, generator, [&](Draws& stream, size_t i) { return poisson_number(stream, each[i]); });
  const auto zero = [](Tensor&& g) { return zeros_like(g); };
  if (should_record(rates)) record(out, zero, rates);
  return out;
}

namespace {
// number(draws, shape) for each shape.
template <class Number>
Tensor gamma_numbers(const Tensor& shapes, Generator* generator, Number&& number) {
  check_floating(checked(shapes));
  if (is_meta(shapes)) return make_like(shapes);
  const std::vector<double> each = numbers_of(shapes);
  check_numbers(each, 0, most_finite, "shape");
  return drawn_on_host(shapes, generator, [&](Draws& stream, size_t i) { return number(stream, each[i]); });
}
}  // namespace

Tensor standard_gamma(const Tensor& shapes, Generator* generator, Location where) {
  const CallScope call("standard_gamma", where);
  checked(shapes);
  const double least = shapes.dtype() == DType::f64   ? std::numeric_limits<double>::min()
                       : shapes.dtype() == DType::f16 ? 0x1p-14
                                                      : std::numeric_limits<float>::min();
  return gamma_numbers(shapes, generator,
                       [=](Draws& stream, double shape) { return std::fmax(least, gamma_number(stream, shape)); });
}

Tensor log_standard_gamma(const Tensor& shapes, Generator* generator, Location where) {
  const CallScope call("standard_gamma", where);
  return gamma_numbers(shapes, generator, log_gamma_number);
}

Tensor binomial(const Tensor& count, const Tensor& p, Generator* generator, Location where) {
  const CallScope call("binomial", where);
  check_floating(checked(count));
  check_same_device({&count, &checked(p)});
  expect_one_dtype("count and p", count, p);
  const auto shape = broadcast(count.sizes(), p.sizes());
  if (!shape) {
    raise<ShapeError>(
        {.problem = fmt::format("shapes {} and {} do not broadcast", count.shape().text(), p.shape().text())});
  }
  const Tensor like = empty(*shape, {count.dtype(), count.device()});
  if (is_meta(like)) return like;
  const auto numbers = [&](const Tensor& t) { return numbers_of(t.expand(*shape)); };
  const std::vector<double> trials = numbers(count), chances = numbers(p);
  check_numbers(trials, 0, most_finite, "count");
  check_numbers(chances, 0, 1, "probability");
  return drawn_on_host(like, generator, [&](Draws& stream, size_t i) {
    return binomial_number(stream, std::floor(trials[i]), chances[i]);
  });
}

Tensor multinomial(const Tensor& weights, int64_t samples, bool replacement, Generator* generator, Location where) {
  const CallScope call("multinomial", where);
  check_floating(checked(weights));
  expect_shape("weights", weights, weights.dim() == 1 || weights.dim() == 2, "[n] or [m, n]");
  const int64_t n = weights.sizes()[static_cast<size_t>(weights.dim() - 1)];
  const int64_t rows = weights.dim() == 2 ? weights.sizes()[0] : 1;
  if (samples <= 0 || (!replacement && samples > n)) {
    raise<ValueError>({.problem = fmt::format("{} samples of {}", samples, n),
                       .remedy = "take 1 or more, and with replacement=false no more than there are"});
  }
  Dims shape = weights.shape();
  shape[shape.size() - 1] = samples;
  const bool meta = is_meta(weights);
  const Tensor out = empty(shape, {DType::i64, meta ? weights.device() : Device()});
  if (meta) return out;
  std::vector<double> each = numbers_of(weights);
  check_numbers(each, 0, most_finite, "weight");
  const auto width = static_cast<size_t>(n);
  for (int64_t row = 0; row < rows; ++row) {
    const std::span<double> own = std::span(each).subspan(static_cast<size_t>(row) * width, width);
    const double largest_weight = own.empty() ? 0 : std::ranges::max(own);
    if (largest_weight == 0) raise<ValueError>({.problem = fmt::format("no weight of row {} is above 0", row)});
    const int64_t positive = std::ranges::count_if(own, [](double w) { return w > 0; });
    if (!replacement && samples > positive) {
      raise<ValueError>({.problem = fmt::format("{} samples of {} weights above 0 in row {}", samples, positive, row),
                         .remedy = "with replacement=false take no more than those, or give the others a weight"});
    }
    for (double& w : own) w /= largest_weight;
  }
  const int64_t of_row = replacement ? samples : n;
  const GeneratorState start = reserve_results(generator, weights.device(), rows * of_row);
  int64_t* data = out.data<int64_t>();
  for (int64_t row = 0; row < rows; ++row) {
    const auto own = std::span<const double>(each).subspan(static_cast<size_t>(row) * width, width);
    const std::span<int64_t> chosen(data + row * samples, static_cast<size_t>(samples));
    if (replacement) choose_again(own, start, row * of_row, chosen);
    else choose_once(own, start, row * of_row, chosen);
  }
  return out.to(weights.device());
}

namespace {

using MaybeType = std::optional<DType>;
using MaybeDevice = std::optional<Device>;

Tensor call_normal(const Operand& mean, const Operand& deviation, const std::optional<Dims>& size, Generator* generator,
                   MaybeType dtype, MaybeDevice device, bool grad) {
  if (size) {
    return normal(mean.tensor().item<double>(), deviation.tensor().item<double>(), *size,
                  options_of(dtype, device, grad), generator);
  }
  return normal(mean.tensor(), deviation.tensor(), generator);
}
Tensor call_randint_like(const Tensor& x, int64_t low, std::optional<int64_t> high, Generator* generator,
                         MaybeType dtype, MaybeDevice device, bool grad) {
  return randint(high ? low : 0, high.value_or(low), x.shape(), options_like(x, dtype, device, grad), generator);
}

std::vector<Values> normal_samples(SampleMaker& make) {
  const std::monostate none;
  return {{make.tensor({2, 3}), make.tensor({3}, 0.5, 2)},
          {make.tensor({2, 3}), 0.0},
          {0.5, make.tensor({}, 0.5, 2)},
          {1.0, 2.0, Dims{2, 3}, none, make.dtype(), make.device().name()},
          {make.tensor({0, 2}), 1.0}};
}
std::vector<Values> like_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), int64_t{1}}, {make.tensor({}), int64_t{0}, int64_t{2}}, {make.tensor({0}), int64_t{1}}};
}
std::vector<Values> rate_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}, 0.1, 30)}, {make.tensor({}, 0.5, 2)}, {make.tensor({0, 2})}};
}
std::vector<Values> binomial_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}, 1, 60), make.tensor({3}, 0.05, 0.95)}, {make.tensor({0}, 1, 2), make.tensor({}, 0, 1)}};
}
std::vector<Values> multinomial_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}, 0.1, 2), int64_t{2}},
          {make.tensor({3}, 0.1, 2), int64_t{5}, true},
          {make.tensor({0, 3}, 0.1, 2), int64_t{1}}};
}

#define WEFT_OPTIONS "dtype=None, device=None, requires_grad=False)"
using enum OpRecord::Domain;
constexpr OpRecord records[] = {
    {"normal", "normal(mean, std=1.0, size|shape=None, *, generator=None, " WEFT_OPTIONS,
     "Normal numbers of the means and deviations given, which broadcast, or of one of each in a new tensor of `size`.",
     false, floating, normal_samples, parts::pointwise, detail::boxed<call_normal>},
    {"randint_like", "randint_like(x, low, high=None, *, generator=None, " WEFT_OPTIONS,
     "Integers in [low, high) of x's shape, dtype and device; randint_like(x, high) counts from 0.", false, numeric,
     like_samples, parts::pointwise, detail::boxed<call_randint_like>},
    {"poisson", "poisson(x, *, generator=None)",
     "Counts of a Poisson distribution with each element's rate (inversion; PTRS, Hoermann 1993); made on the host.",
     OpFacts(false, OpFacts::reads_values), floating, rate_samples, parts::pointwise, detail::boxed<weft::poisson>},
    {"standard_gamma", "standard_gamma(x, *, generator=None)",
     "Numbers of a gamma distribution with each element's shape and scale 1 (Marsaglia and Tsang 2000); made on the "
     "host.",
     OpFacts(false, OpFacts::reads_values), floating, rate_samples, parts::pointwise,
     detail::boxed<weft::standard_gamma>},
    {"binomial", "binomial(count, prob, *, generator=None)",
     "Successes in count trials of probability prob (inversion; BTRS, Hoermann 1993); made on the host.",
     OpFacts(false, OpFacts::reads_values), floating, binomial_samples, parts::pointwise,
     detail::boxed<weft::binomial>},
    {"multinomial", "multinomial(x, num_samples, replacement=False, *, generator=None)",
     "int64 positions in the last dimension of x, chosen in proportion to it; made on the host. Without replacement "
     "each at most once (Efraimidis and Spirakis 2006).",
     OpFacts(false, OpFacts::reads_values), floating, multinomial_samples, parts::all_but_last<1>,
     detail::boxed<weft::multinomial>},
};
#undef WEFT_OPTIONS

}  // namespace

std::span<const OpRecord> distribution_records() { return records; }

}  // namespace weft
