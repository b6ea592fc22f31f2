#include <weft/ops/random.hpp>

#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/detail/write.hpp>
#include <weft/ops/detail/records.hpp>
#include <weft/ops/detail/reducing.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/philox.hpp>

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

// Draws into `out`, which was checked already.
void draw(const Tensor& out, Distribution distribution, Scalar a, Scalar b, Generator* generator, const char* op,
          Location where) {
  const auto kernel = WEFT_KERNEL_FOR(random, out, op, where);
  kernel(out.raw_view(), distribution, reserve(generator, out, distribution), a, b);
}

void check_float_type(const char* op, DType t, Location where) {
  if (is_floating(t) && !is_storage_only(t)) return;
  raise<DTypeError>({.op = op,
                     .problem = fmt::format("draws floating-point numbers, not {}", name(t)),
                     .remedy = "use randint, or convert the result with to()"},
                    where);
}

Tensor drawn(const char* op, Distribution distribution, const Dims& shape, const TensorOptions& options,
             Generator* generator, Location where) {
  check_float_type(op, options.dtype.value_or(default_dtype), where);
  const Tensor out = empty(shape, {options.dtype, options.device}, where);
  draw(out, distribution, 0, 1, generator, op, where);
  return options.requires_grad ? out.requires_grad_(true, where) : out;
}

void check_probability(const char* op, double p, Location where) {
  if (p >= 0 && p <= 1) return;
  raise<ValueError>({.op = op, .problem = fmt::format("probability {} is not in [0, 1]", p)}, where);
}

void check_probabilities(const char* op, const Tensor& probabilities, Location where) {
  if (probabilities.numel() == 0 || probabilities.device().type == DeviceType::meta) return;
  const Tensor p = without_repeats(probabilities, where);
  const double low = amin(p, {}, false, where).item<double>(where),
               high = amax(p, {}, false, where).item<double>(where);
  check_probability(op, low >= 0 ? high : low, where);
}

const Tensor& redraw(const char* op, const Tensor& x, Distribution distribution, double a, double b,
                     Generator* generator, Location where) {
  check_target(x, op, where);
  write_recorded(
      x, op, where, [&] { draw(x, distribution, a, b, generator, op, where); }, [] { return Overwritten(); });
  return x;
}

// Whether `dtype` holds every integer in [low, high].
bool holds(DType dtype, int64_t low, int64_t high) {
  if (dtype == DType::boolean) return low >= 0 && high <= 1;
  if (dtype == DType::u64) return low >= 0;
  if (!is_integer(dtype) || dtype == DType::i64) return true;
  const int bits = static_cast<int>(itemsize(dtype)) * 8;
  const int64_t top = int64_t{1} << (is_signed(dtype) ? bits - 1 : bits);
  return low >= (is_signed(dtype) ? -top : 0) && high < top;
}

struct DropoutFormula {
  Saved mask;
  double scale;
  Tensor operator()(Node& self, Tensor&& g) {
    const Location where = self.where;
    Tensor kept = weft::where(Operand(mask.get(self), where), Operand(std::move(g), where), Operand(0.0, where));
    return mul(Operand(std::move(kept), where), Operand(scale, where));
  }
};

}  // namespace

Tensor rand(const Dims& shape, TensorOptions options, Generator* generator, Location where) {
  return drawn("rand", Distribution::uniform, shape, options, generator, where);
}
Tensor rand_like(const Tensor& like, Generator* generator, Location where) {
  checked(like, "rand_like", where);
  return drawn("rand_like", Distribution::uniform, like.shape(), {like.dtype(), like.device()}, generator, where);
}
Tensor randn(const Dims& shape, TensorOptions options, Generator* generator, Location where) {
  return drawn("randn", Distribution::normal, shape, options, generator, where);
}
Tensor randn_like(const Tensor& like, Generator* generator, Location where) {
  checked(like, "randn_like", where);
  return drawn("randn_like", Distribution::normal, like.shape(), {like.dtype(), like.device()}, generator, where);
}

Tensor randint(int64_t low, int64_t high, const Dims& shape, TensorOptions options, Generator* generator,
               Location where) {
  const DType dtype = options.dtype.value_or(DType::i64);
  if (low >= high || !holds(dtype, low, high - 1)) {
    raise<ValueError>(
        {.op = "randint", .problem = fmt::format("there are no {} integers in [{}, {})", name(dtype), low, high)},
        where);
  }
  const Tensor out = empty(shape, {dtype, options.device}, where);
  draw(out, Distribution::integers, low, high, generator, "randint", where);
  return options.requires_grad ? out.requires_grad_(true, where) : out;
}

Tensor randperm(int64_t n, TensorOptions options, Generator* generator, Location where) {
  if (n < 0) raise<ValueError>({.op = "randperm", .problem = fmt::format("n is {}, below 0", n)}, where);
  const Tensor numbers = arange(n, {}, where);
  const auto blocks = static_cast<uint64_t>(philox_blocks(n, DType::i64, Distribution::integers));
  const GeneratorState s = generator_for(generator, options.device).reserve(blocks);
  int64_t* data = numbers.data<int64_t>(where);
  for (int64_t i = 0; i < n; ++i) {  // Fisher and Yates, two words for each place
    const auto index = static_cast<uint64_t>(i);
    const PhiloxWords r = philox4x32_10(s.seed, s.subsequence, s.offset + index / 2);
    const uint64_t words = r.word[index % 2 * 2] | static_cast<uint64_t>(r.word[index % 2 * 2 + 1]) << 32;
    std::swap(data[i], data[i + static_cast<int64_t>(words % static_cast<uint64_t>(n - i))]);
  }
  return numbers.to(options.dtype.value_or(DType::i64), where).to(options.device, where);
}

Tensor bernoulli(const Tensor& probabilities, Generator* generator, Location where) {
  check_floating("bernoulli", checked(probabilities, "bernoulli", where), where);
  NoGradGuard unrecorded;
  check_probabilities("bernoulli", probabilities, where);
  const Tensor drawn_numbers = rand_like(probabilities, generator, where);
  return lt(Operand(drawn_numbers, where), Operand(probabilities, where)).to(probabilities.dtype(), where);
}

const Tensor& uniform_(const Tensor& x, double low, double high, Generator* generator, Location where) {
  check_floating("uniform_", checked(x, "uniform_", where), where);
  if (!(low <= high)) {
    raise<ValueError>({.op = "uniform_", .problem = fmt::format("the range [{}, {}) is empty", low, high)}, where);
  }
  return redraw("uniform_", x, Distribution::uniform, low, high, generator, where);
}

const Tensor& normal_(const Tensor& x, double mean, double deviation, Generator* generator, Location where) {
  check_floating("normal_", checked(x, "normal_", where), where);
  if (!(deviation >= 0)) {
    raise<ValueError>({.op = "normal_", .problem = fmt::format("the deviation {} is negative", deviation)}, where);
  }
  return redraw("normal_", x, Distribution::normal, mean, deviation, generator, where);
}

const Tensor& bernoulli_(const Tensor& x, double p, Generator* generator, Location where) {
  checked(x, "bernoulli_", where);
  check_probability("bernoulli_", p, where);
  return redraw("bernoulli_", x, Distribution::bernoulli, p, 0, generator, where);
}

Tensor dropout(const Tensor& x, double p, bool training, Generator* generator, Location where) {
  check_floating("dropout", checked(x, "dropout", where), where);
  check_probability("dropout", p, where);
  if (!training || p == 0) return x;
  const Tensor mask = make(x.sizes(), DType::boolean, x.device(), "dropout", where);
  draw(mask, Distribution::bernoulli, 1 - p, 0, generator, "dropout", where);
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  Tensor out;
  {
    NoGradGuard unrecorded;
    Tensor kept = weft::where(Operand(mask, where), Operand(x, where), Operand(0.0, where));
    out = mul(Operand(std::move(kept), where), Operand(scale, where));
  }
  if (should_record(x)) record(out, "dropout", where, DropoutFormula{Saved(mask), scale}, x);
  return out;
}

Tensor get_rng_state(Device device, Location where) {
  const std::vector<uint8_t> bytes = default_generator(device).state_bytes();
  return tensor(std::span<const uint8_t>(bytes), Dims(static_cast<int64_t>(bytes.size())), DType::u8, where);
}

void set_rng_state(const Tensor& state, Device device, Location where) {
  checked(state, "set_rng_state", where);
  if (state.dtype() != DType::u8 || state.dim() != 1) {
    raise<FormatError>({.op = "set_rng_state",
                        .problem = fmt::format("a random state is a 1-d uint8 tensor, not {}", describe(state)),
                        .remedy = "pass what get_rng_state gave; the generator is unchanged"},
                       where);
  }
  default_generator(device).set_state_bytes(state.to_vector<uint8_t>(where), where);
}

RngForkGuard::RngForkGuard(std::vector<Device> devices) : devices_(std::move(devices)) {
  for (const Device& device : devices_) states_.push_back(default_generator(device).state());
}
RngForkGuard::~RngForkGuard() {
  for (size_t i = 0; i < devices_.size(); ++i) default_generator(devices_[i]).set_state(states_[i]);
}

namespace {

Tensor call_rand(const Dims& shape, std::optional<DType> dtype) {
  return rand(shape, dtype.value_or(default_dtype), nullptr, boxed_place());
}
Tensor call_randn(const Dims& shape, std::optional<DType> dtype) {
  return randn(shape, dtype.value_or(default_dtype), nullptr, boxed_place());
}
Tensor call_randint(int64_t low, int64_t high, const Dims& shape, std::optional<DType> dtype) {
  return randint(low, high, shape, dtype.value_or(DType::i64), nullptr, boxed_place());
}
Tensor call_randperm(int64_t n, std::optional<DType> dtype) {
  return randperm(n, dtype.value_or(DType::i64), nullptr, boxed_place());
}
Tensor call_rand_like(const Tensor& x) { return rand_like(x, nullptr, boxed_place()); }
Tensor call_randn_like(const Tensor& x) { return randn_like(x, nullptr, boxed_place()); }
Tensor call_bernoulli(const Tensor& p) { return bernoulli(p, nullptr, boxed_place()); }
Tensor call_dropout(const Tensor& x, std::optional<double> p, std::optional<bool> training) {
  return dropout(x, p.value_or(0.5), training.value_or(true), nullptr, boxed_place());
}

std::vector<Values> shape_samples(SampleMaker& make) {
  return {{Dims{2, 3}, make.dtype()}, {Dims(), make.dtype()}, {Dims{0, 2}, make.dtype()}};
}
std::vector<Values> like_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})}, {make.tensor({})}, {make.tensor({0})}};
}
std::vector<Values> integer_samples(SampleMaker& make) {
  return {{int64_t{0}, int64_t{2}, Dims{2, 3}, make.dtype()}, {int64_t{0}, int64_t{1}, Dims(), make.dtype()}};
}
std::vector<Values> permutation_samples(SampleMaker&) { return {{int64_t{5}}, {int64_t{0}}, {int64_t{1}}}; }
std::vector<Values> probability_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}, 0, 1)}, {make.tensor({}, 0, 1)}, {make.tensor({0, 2}, 0, 1)}};
}
std::vector<Values> dropout_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})},
          {make.tensor({}), 0.0},
          {make.tensor({3}), 1.0},
          {make.tensor({4}), 0.5, false},
          {make.tensor({0, 2}), 0.5}};
}

using enum OpRecord::Domain;
constexpr OpRecord records[] = {
    {"rand", "rand(shape, *, dtype=None)", "Uniform in [0, 1).", false, floating, shape_samples,
     detail::boxed<call_rand>},
    {"rand_like", "rand_like(x)", "Uniform in [0, 1), of x's shape, dtype and device.", false, floating, like_samples,
     detail::boxed<call_rand_like>},
    {"randn", "randn(shape, *, dtype=None)", "Normal with mean 0 and standard deviation 1.", false, floating,
     shape_samples, detail::boxed<call_randn>},
    {"randn_like", "randn_like(x)", "Normal, of x's shape, dtype and device.", false, floating, like_samples,
     detail::boxed<call_randn_like>},
    {"randint", "randint(low, high, shape, *, dtype=None)", "Integers in [low, high), int64 unless asked otherwise.",
     false, numeric, integer_samples, detail::boxed<call_randint>},
    {"randperm", "randperm(n, *, dtype=None)", "0 ... n - 1 in random order, int64 unless asked otherwise.", false,
     numeric, permutation_samples, detail::boxed<call_randperm>},
    {"bernoulli", "bernoulli(probabilities)", "1 with the given probability, else 0; of the same shape and dtype.",
     false, floating, probability_samples, detail::boxed<call_bernoulli>},
    {"dropout", "dropout(x, p=0.5, training=True)",
     "In training, zeroes each element with probability p and scales the rest by 1 / (1 - p); else gives x itself "
     "(Srivastava et al. 2014).",
     true, floating, dropout_samples, detail::boxed<call_dropout>},
};

}  // namespace

std::span<const OpRecord> random_records() { return records; }

}  // namespace weft
