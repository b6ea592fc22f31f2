#include "../random.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../complex.hpp"
#include "../create.hpp"
#include "../pointwise.hpp"
#include "../detail/fits.hpp"
#include "../detail/write.hpp"
#include "../linalg/common.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../reduce.hpp"
#include "../../tensor/philox.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

Generator& generator_for(Generator* given, Device device) {
  return given != nullptr ? *given : default_generator(device);
}

PhiloxSeed reserve(Generator* generator, const Tensor& out, Distribution distribution) {
  const int64_t blocks = philox_blocks(out.numel(), out.dtype(), distribution);
  const GeneratorState s = generator_for(generator, out.device()).reserve(static_cast<uint64_t>(blocks));
  return {s.seed, s.subsequence, s.offset};
}

// Fisher and Yates, with two words for each place: the partner is the high half of their product with the number of
// places left (Lemire 2019). Partners are found ahead, so that memory has time to bring them.
template <class T>
void shuffle(T* data, int64_t n, const GeneratorState& s) {
  constexpr int64_t batch = 2048, ahead = 64;
  __extension__ using Wide = unsigned __int128;
  const Tensor drawn = empty({std::min(n, batch)}, DType::i64);
  const auto* const words = static_cast<const uint64_t*>(drawn.data_ptr());
  for (int64_t first = 0; first < n; first += ahead) {
    if (first % batch == 0) {
      const PhiloxSeed seed = {s.seed, s.subsequence, s.offset + static_cast<uint64_t>(first / 2)};
      const Tensor part = drawn.narrow(0, 0, std::min(n - first, batch));
      host_kernels().random(part.raw_view(), Distribution::integers, seed, int64_t{0}, int64_t{0});  // every number
    }
    T* partner[ahead];
    const int64_t count = std::min(ahead, n - first);
    for (int64_t j = 0; j < count; ++j) {
      const int64_t i = first + j;
      const Wide product = static_cast<Wide>(words[i % batch]) * static_cast<uint64_t>(n - i);
      partner[j] = data + i + static_cast<int64_t>(product >> 64);
      __builtin_prefetch(partner[j], 1);
    }
    for (int64_t j = 0; j < count; ++j) std::swap(data[first + j], *partner[j]);
  }
}

// Draws into `out`, which was checked already. Complex numbers are drawn part by part; normal ones have the variance of
// real ones, half of it in each part.
void draw(const Tensor& out, Distribution distribution, Scalar a, Scalar b, Generator* generator) {
  if (WEFT_UNLIKELY(is_complex(out.dtype()))) {
    const NoGradGuard unrecorded;
    const Tensor parts = view_as_real(out);
    if (distribution != Distribution::normal) return draw(parts, distribution, a, b, generator);
    draw(parts, distribution, 0.0, b.to<double>() * M_SQRT1_2, generator);
    if (!a.is_zero()) parts.select(-1, 0).add_(a);
    return;
  }
  const auto kernel = WEFT_KERNEL(random, out);
  kernel(out.raw_view(), distribution, reserve(generator, out, distribution), a, b);
}

void check_float_type(DType t) {
  if (is_inexact(t) && !is_storage_only(t)) return;
  raise_dtype("dtype", "a floating-point dtype", t, "use randint, or convert the result with to()");
}

Tensor drawn(Distribution distribution, const Dims& shape, const TensorOptions& options, Generator* generator) {
  check_float_type(options.dtype.value_or(default_dtype()));
  const Tensor out = empty(shape, {options.dtype, options.device});
  draw(out, distribution, 0, 1, generator);
  return options.requires_grad ? out.requires_grad_(true) : out;
}

void check_probability(double p) { expect_range("probability", p, 0, 1); }

void check_probabilities(const Tensor& probabilities) {
  if (probabilities.numel() == 0 || is_meta(probabilities)) return;
  check_elements([p = without_repeats(probabilities)] {
    const double low = amin(p, {}, false).item<double>(), high = amax(p, {}, false).item<double>();
    check_probability(low >= 0 ? high : low);
  });
}

const Tensor& redraw(const Tensor& x, Distribution distribution, double a, double b, Generator* generator) {
  check_target(x);
  write_recorded(
      x, [&] { draw(x, distribution, a, b, generator); }, [] { return Overwritten(); });
  return x;
}

struct DropoutBackward {
  Saved mask;
  double scale;
  Tensor operator()(Node& self, Tensor&& g) { return weft::where(mask.get(self), std::move(g), 0.0) * scale; }
};

}  // namespace

Tensor rand(const Dims& shape, TensorOptions options, Generator* generator, Location where) {
  const CallScope call("rand", where);
  return drawn(Distribution::uniform, shape, options, generator);
}
Tensor rand_like(const Tensor& like, Generator* generator, Location where) {
  const CallScope call("rand_like", where);
  checked(like);
  return drawn(Distribution::uniform, like.shape(), {like.dtype(), like.device()}, generator);
}
Tensor randn(const Dims& shape, TensorOptions options, Generator* generator, Location where) {
  const CallScope call("randn", where);
  return drawn(Distribution::normal, shape, options, generator);
}
Tensor randn_like(const Tensor& like, Generator* generator, Location where) {
  const CallScope call("randn_like", where);
  checked(like);
  return drawn(Distribution::normal, like.shape(), {like.dtype(), like.device()}, generator);
}

Tensor randint(int64_t low, int64_t high, const Dims& shape, TensorOptions options, Generator* generator,
               Location where) {
  const CallScope call("randint", where);
  const DType dtype = options.dtype.value_or(DType::i64);
  if (low >= high || !holds(dtype, low) || !holds(dtype, high - 1)) {
    raise<ValueError>({.problem = fmt::format("there are no {} integers in [{}, {})", name(dtype), low, high)});
  }
  const Tensor out = empty(shape, {dtype, options.device});
  draw(out, Distribution::integers, low, high, generator);
  return options.requires_grad ? out.requires_grad_(true) : out;
}

Tensor randperm(int64_t n, TensorOptions options, Generator* generator, Location where) {
  const CallScope call("randperm", where);
  expect_at_least("n", n, 0);
  const DType dtype = options.dtype.value_or(DType::i64);
  if (n > 0 && !holds(dtype, n - 1)) {
    raise<ValueError>({.problem = fmt::format("{} does not hold the numbers below {}", name(dtype), n)});
  }
  const bool few = n <= std::numeric_limits<int32_t>::max();
  const Tensor numbers = arange(0, n, 1, {few ? DType::i32 : DType::i64});
  const auto blocks = static_cast<uint64_t>(philox_blocks(n, DType::i64, Distribution::integers));
  const GeneratorState s = generator_for(generator, options.device).reserve(blocks);
  if (few) shuffle(numbers.data<int32_t>(), n, s);
  else shuffle(numbers.data<int64_t>(), n, s);
  const Tensor out = numbers.to(dtype).to(options.device);
  return options.requires_grad ? out.requires_grad_(true) : out;
}

Tensor bernoulli(const Tensor& probabilities, Generator* generator, Location where) {
  const CallScope call("bernoulli", where);
  check_floating(checked(probabilities));
  Tensor out;
  {
    const NoGradGuard unrecorded;
    check_probabilities(probabilities);
    out = (rand_like(probabilities, generator) < probabilities).to(probabilities.dtype());
  }
  const auto zero = [](Tensor&& g) { return zeros_like(g); };
  if (should_record(probabilities)) record(out, zero, probabilities);
  return out;
}

const Tensor& uniform_(const Tensor& x, double low, double high, Generator* generator, Location where) {
  const CallScope call("uniform_", where);
  linalg::check_numbers(x);
  if (!(low <= high)) {
    raise<ValueError>({.problem = fmt::format("the range [{}, {}) is empty", low, high)});
  }
  if (!std::isfinite(high - low)) {
    raise<ValueError>({.problem = fmt::format("the range [{}, {}) is not finite", low, high)});
  }
  return redraw(x, Distribution::uniform, low, high, generator);
}

const Tensor& normal_(const Tensor& x, double mean, double deviation, Generator* generator, Location where) {
  const CallScope call("normal_", where);
  linalg::check_numbers(x);
  expect_at_least("deviation", deviation, 0);
  return redraw(x, Distribution::normal, mean, deviation, generator);
}

const Tensor& bernoulli_(const Tensor& x, double p, Generator* generator, Location where) {
  const CallScope call("bernoulli_", where);
  checked(x);
  check_probability(p);
  return redraw(x, Distribution::bernoulli, p, 0, generator);
}

Tensor dropout(const Tensor& x, double p, bool training, Generator* generator, Location where) {
  const CallScope call("dropout", where);
  if (WEFT_LIKELY(!is_complex(checked(x).dtype()))) check_floating(x);
  check_probability(p);
  if (!training || p == 0) return x;
  const Tensor mask = make(x.sizes(), DType::boolean, x.device());
  draw(mask, Distribution::bernoulli, 1 - p, 0, generator);
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  Tensor out;
  {
    NoGradGuard unrecorded;
    out = weft::where(mask, x, 0.0) * scale;
  }
  if (should_record(x)) record(out, DropoutBackward{Saved(mask), scale}, x);
  return out;
}

Tensor get_rng_state(Device device, Location where) {
  const CallScope call("get_rng_state", where);
  const std::vector<uint8_t> bytes = default_generator(device).state_bytes();
  return tensor(std::span<const uint8_t>(bytes), Dims(static_cast<int64_t>(bytes.size())), DType::u8);
}

void set_rng_state(const Tensor& state, Device device, Location where) {
  const CallScope call("set_rng_state", where);
  checked(state);
  if (state.dtype() != DType::u8 || state.dim() != 1) {
    raise_mismatch<FormatError>("state", "a 1-d uint8 tensor", describe(state),
                                "pass the result of get_rng_state; the generator is unchanged");
  }
  default_generator(device).set_state_bytes(state.to_vector<uint8_t>());
}

RngForkGuard::RngForkGuard(std::vector<Device> devices) : devices_(std::move(devices)) {
  for (const Device& device : devices_) states_.push_back(default_generator(device).state());
}
RngForkGuard::~RngForkGuard() {
  for (size_t i = 0; i < devices_.size(); ++i) default_generator(devices_[i]).set_state(states_[i]);
}

namespace {

using MaybeType = std::optional<DType>;
using MaybeDevice = std::optional<Device>;
using Draw = Tensor (*)(const Dims&, TensorOptions, Generator*, Location);

template <Draw draw>
Tensor drawn(const Dims& size, Generator* generator, MaybeType dtype, MaybeDevice device, bool grad) {
  return draw(size, options_of(dtype, device, grad), generator, {});
}
template <Draw draw>
Tensor drawn_like(const Tensor& x, Generator* generator, MaybeType dtype, MaybeDevice device, bool grad) {
  return draw(x.shape(), options_like(x, dtype, device, grad), generator, {});
}
// randint(high, size) and randint(low, high, size).
Tensor call_randint(int64_t low, const Value& high, const std::optional<Dims>& size, Generator* generator,
                    MaybeType dtype, MaybeDevice device) {
  const TensorOptions options = options_of(dtype, device, false);
  if (!size) return randint(0, low, detail::unboxed<Dims>(high, 1), options, generator);
  return randint(low, detail::unboxed<int64_t>(high, 1), *size, options, generator);
}
Tensor call_randperm(int64_t n, Generator* generator, MaybeType dtype, MaybeDevice device) {
  return randperm(n, options_of(dtype, device, false), generator);
}
Tensor call_bernoulli(const Tensor& x, std::optional<double> p, Generator* generator) {
  return p ? bernoulli_(empty_like(x), *p, generator) : bernoulli(x, generator);
}

std::vector<Values> size_samples(SampleMaker& make) {
  const std::monostate none;
  const std::string device = make.device().name();
  return {{Dims{2, 3}, none, make.dtype(), device},
          {Dims(), none, make.dtype(), device},
          {Dims{0, 2}, none, make.dtype(), device}};
}
std::vector<Values> like_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})}, {make.tensor({})}, {make.tensor({0})}};
}
std::vector<Values> integer_samples(SampleMaker& make) {
  const std::monostate none;
  const std::string device = make.device().name();
  return {{int64_t{0}, int64_t{2}, Dims{2, 3}, none, make.dtype(), device},
          {int64_t{1}, Dims(), none, none, make.dtype(), device}};
}
std::vector<Values> permutation_samples(SampleMaker& make) {
  const std::monostate none;
  const std::string device = make.device().name();
  return {{int64_t{5}, none, none, device}, {int64_t{0}, none, none, device}, {int64_t{1}, none, none, device}};
}
std::vector<Values> probability_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}, 0, 1)}, {make.tensor({}, 0, 1)}, {make.tensor({0, 2}, 0, 1)}, {make.tensor({4}), 0.3}};
}
std::vector<Values> dropout_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})},
          {make.tensor({}), 0.0},
          {make.tensor({3}), 1.0},
          {make.tensor({4}), 0.5, false},
          {make.tensor({0, 2}), 0.5}};
}

#define WEFT_OPTIONS "dtype=None, device=None, requires_grad=False)"
#define WEFT_DRAWN(op, document)                                                                                      \
  {#op,          #op "(*size|shape, generator=None, " WEFT_OPTIONS,                                                   \
   document,     false,                                                                                               \
   floating,     size_samples,                                                                                        \
   parts::whole, detail::boxed<drawn<weft::op>>},                                                                     \
  {                                                                                                                   \
#op "_like", #op "_like(x, *, generator=None, " WEFT_OPTIONS, document " Of x's shape, dtype and device.", false, \
        floating, like_samples, parts::pointwise, detail::boxed < drawn_like < weft::op>>                             \
  }

using enum OpRecord::Domain;
constexpr OpRecord records[] = {
    WEFT_DRAWN(rand, "Uniform in [0, 1)."),
    WEFT_DRAWN(randn, "Normal with mean 0 and standard deviation 1."),
    {"randint", "randint(low, high, size|shape=None, *, generator=None, dtype=None, device=None)",
     "Integers in [low, high), int64 unless asked otherwise; randint(high, size) counts from 0.", false, numeric,
     integer_samples, parts::whole, detail::boxed<call_randint>},
    {"randperm", "randperm(n, *, generator=None, dtype=None, device=None)",
     "0 ... n - 1 in random order, int64 unless asked otherwise.", OpFacts(false, OpFacts::reads_values), numeric,
     permutation_samples, parts::whole, detail::boxed<call_randperm>},
    {"bernoulli", "bernoulli(x, p=None, *, generator=None)",
     "1 with the probability that each element gives, or p, else 0; of x's shape and dtype.", false, floating,
     probability_samples, parts::pointwise, detail::boxed<call_bernoulli>},
    {"dropout", "dropout(x, p=0.5, training|train=True, *, generator=None)",
     "In training, zeroes each element with probability p and scales the rest by 1 / (1 - p); else gives x itself "
     "(Srivastava et al. 2014).",
     true, floating, dropout_samples, parts::pointwise, detail::boxed<weft::dropout>},
};
#undef WEFT_DRAWN
#undef WEFT_OPTIONS

}  // namespace

std::span<const OpRecord> random_records() { return records; }

}  // namespace weft
