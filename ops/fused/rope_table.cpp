// Angles of rotary position embedding, and how published models scale them.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "../create.hpp"
#include "../detail/common.hpp"
#include "../detail/parts.hpp"
#include "../detail/records.hpp"
#include "../detail/rope_lengths.hpp"
#include "../index.hpp"
#include "../join.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../rotary.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

constexpr double turn = 2 * std::numbers::pi;

void check_options(int64_t dim, const RopeOptions& o) {
  if (dim <= 0 || dim % 2 != 0) {
    raise_value("dim", "an even number above 0", dim);
  }
  // Written so that NaN fails, too.
  const bool base_fits = o.theta > 0 && o.factor > 0 && std::isfinite(o.theta) && std::isfinite(o.factor);
  if (!base_fits) {
    raise_value("theta and factor", "finite numbers above 0", fmt::format("{} and {}", o.theta, o.factor));
  }
  if (o.scaling != RopeScaling::none && o.scaling != RopeScaling::linear && o.original_length <= 0) {
    raise_value("original_length", "at least 1", o.original_length);
  }
  const bool blends = o.low_frequency > 0 && o.high_frequency > o.low_frequency;
  if (o.scaling == RopeScaling::llama3 && !blends) {
    raise<ValueError>({.problem = fmt::format("low_frequency {} is positive and below high_frequency {}",
                                              o.low_frequency, o.high_frequency)});
  }
  if (o.scaling != RopeScaling::yarn) return;
  if (!(o.beta_slow > 0 && o.beta_fast > o.beta_slow) || o.theta == 1) {
    raise<ValueError>({.problem = fmt::format("beta_slow {} is positive and below beta_fast {}, and theta is not 1",
                                              o.beta_slow, o.beta_fast)});
  }
}

double dynamic_base(int64_t dim, const RopeOptions& o, double length) {
  const auto trained = static_cast<double>(o.original_length);
  if (length <= trained || dim == 2) return o.theta;
  const double stretch = o.factor * length / trained - (o.factor - 1);
  return o.theta * std::pow(stretch, static_cast<double>(dim) / static_cast<double>(dim - 2));
}

double llama3_frequency(double f, const RopeOptions& o) {
  const double turns = static_cast<double>(o.original_length) * f / turn;
  if (turns < o.low_frequency) return f / o.factor;
  if (turns > o.high_frequency) return f;
  const double kept = (turns - o.low_frequency) / (o.high_frequency - o.low_frequency);
  return (1 - kept) * f / o.factor + kept * f;
}

/// YaRN's ramp over the pairs: where it begins, and where it ends.
struct Ramp {
  double low, high;
  double at(int64_t i) const { return std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0); }
};
Ramp yarn_ramp(int64_t dim, const RopeOptions& o) {
  const auto width = static_cast<double>(dim);
  const auto pair_that_turns = [&](double times) {
    return width * std::log(static_cast<double>(o.original_length) / (times * turn)) / (2 * std::log(o.theta));
  };
  const double low = std::max(std::floor(pair_that_turns(o.beta_fast)), 0.0);
  const double high = std::min(std::ceil(pair_that_turns(o.beta_slow)), width - 1);
  return {low, high == low ? high + 0.001 : high};
}

/// f64 [dim / 2]
Tensor frequencies(int64_t dim, const RopeOptions& o, double length) {
  const double base = o.scaling == RopeScaling::dynamic_ntk ? dynamic_base(dim, o, length) : o.theta;
  const Ramp ramp = o.scaling == RopeScaling::yarn ? yarn_ramp(dim, o) : Ramp{0, 1};
  const Tensor out = make(Dims{dim / 2}, DType::f64, Device());
  auto* const data = static_cast<double*>(out.raw_view().data);
  for (int64_t i = 0; i < dim / 2; ++i) {
    const double f = std::pow(base, -2 * static_cast<double>(i) / static_cast<double>(dim)), share = ramp.at(i);
    switch (o.scaling) {
      case RopeScaling::none:
      case RopeScaling::dynamic_ntk:
        data[i] = f;
        break;
      case RopeScaling::linear:
        data[i] = f / o.factor;
        break;
      case RopeScaling::llama3:
        data[i] = llama3_frequency(f, o);
        break;
      case RopeScaling::yarn:
        data[i] = share * f / o.factor + (1 - share) * f;
        break;
    }
  }
  return out;
}

double amplitude(const RopeOptions& o) {
  if (o.scaling != RopeScaling::yarn) return 1;
  return o.attention_factor.value_or(o.factor > 1 ? 0.1 * std::log(o.factor) + 1 : 1);
}

void check_positions(const Tensor& positions) {
  expect_integers("positions", checked(positions));
  expect_shape("positions", positions, positions.dim() == 1 || positions.dim() == 2, "[B, S] or [S]");
}

/// cos and sin of `angles` [B, S, 1, dim / 2].
Tensor table_of(const Tensor& angles, const RopeOptions& options, bool interleaved, DType dtype) {
  const int64_t dim = 2 * angles.size(3);
  const Tensor each = interleaved ? stack({angles, angles}, -1).reshape({angles.size(0), angles.size(1), 1, dim})
                                  : cat({angles, angles}, -1);
  const Tensor table = stack({cos(each), sin(each)});
  const double factor = amplitude(options);
  return (factor == 1 ? table : table * factor).to(dtype);
}

/// The frequencies of each position, for its sequence length: [n, dim / 2].
Tensor frequencies_of(std::span<const int64_t> lengths, int64_t dim, const RopeOptions& options) {
  std::map<int64_t, int64_t> numbers;
  std::vector<Tensor> distinct;
  std::vector<int64_t> each;
  for (const int64_t length : lengths) {
    const auto [entry, is_new] = numbers.try_emplace(length, std::ssize(distinct));
    if (is_new) distinct.push_back(frequencies(dim, options, static_cast<double>(length)));
    each.push_back(entry->second);
  }
  return index_select(stack(distinct), 0, tensor(each));
}

/// How long the text of each row [B] is.
std::vector<int64_t> row_lengths(const Tensor& at) { return (amax(at, {1}) + 1).to(DType::i64).to_vector<int64_t>(); }

}  // namespace

Tensor rope_frequencies(int64_t dim, const RopeOptions& options, int64_t length, Device device, Location where) {
  const CallScope call("rope_frequencies", where);
  check_options(dim, options);
  return frequencies(dim, options, static_cast<double>(length)).to(device);
}

Tensor rope_table(const Tensor& positions, int64_t dim, const RopeOptions& options, bool interleaved, DType dtype,
                  Location where) {
  const CallScope call("rope_table", where);
  check_positions(positions);
  check_options(dim, options);
  if (!is_floating(dtype) || is_storage_only(dtype)) {
    raise<DTypeError>({.problem = fmt::format("a table of {}", name(dtype))});
  }
  const int64_t batch = positions.dim() == 2 ? positions.size(0) : 1, length = positions.size(-1);
  const Dims shape{2, batch, length, 1, dim};
  check_room(shape, dtype, positions.device());
  if (is_meta(positions)) return make(shape, dtype, positions.device());
  const NoGradGuard unrecorded;
  const Tensor at = positions.to(Device()).to(DType::f64).reshape({batch, length});
  const bool reads_lengths = options.scaling == RopeScaling::dynamic_ntk && at.numel() > 0;
  const Tensor turns = reads_lengths ? frequencies_of(row_lengths(at), dim, options).unsqueeze(1).unsqueeze(1)
                                     : frequencies(dim, options, 0);
  return table_of(at.unsqueeze(-1).unsqueeze(-1) * turns, options, interleaved, dtype).to(positions.device());
}

std::vector<int64_t> rope_lengths(std::span<const int64_t> positions, std::span<const int64_t> counts,
                                  std::span<const int64_t> before) {
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto own = positions.subspan(lengths.size(), static_cast<size_t>(counts[i]));
    const int64_t last = before[i] == 0 && !own.empty() ? *std::ranges::max_element(own) : 0;
    for (const int64_t position : own) lengths.push_back((before[i] == 0 ? last : position) + 1);
  }
  return lengths;
}

Tensor rope_table_of_lengths(const Tensor& positions, std::span<const int64_t> lengths, int64_t dim,
                             const RopeOptions& options, bool interleaved, DType dtype) {
  if (options.scaling != RopeScaling::dynamic_ntk || lengths.empty()) {
    return rope_table(positions, dim, options, interleaved, dtype);
  }
  check_options(dim, options);
  const NoGradGuard unrecorded;
  const Tensor at = positions.to(Device()).to(DType::f64).reshape({1, -1, 1, 1});
  const Tensor turns = frequencies_of(lengths, dim, options).unsqueeze(0).unsqueeze(2);
  return table_of(at * turns, options, interleaved, dtype).to(positions.device());
}

namespace {

constexpr std::string_view scaling_names[] = {"none", "linear", "dynamic", "yarn", "llama3"};

}  // namespace

const char* name(RopeScaling scaling) { return scaling_names[static_cast<size_t>(scaling)].data(); }

RopeScaling rope_scaling_named(std::string_view name, Location where) {
  const CallScope call("rope_scaling_named", where);
  const auto* const at = std::ranges::find(scaling_names, name);
  if (at != std::end(scaling_names)) return static_cast<RopeScaling>(at - scaling_names);
  raise_value("scaling", "none, linear, dynamic, yarn or llama3", in_quotes(name));
}

// ---- records --------------------------------------------------------------------------------------------------------

namespace {

RopeOptions options_from(double theta, const std::string& scaling, double factor, int64_t original_length,
                         double low_frequency, double high_frequency, double beta_fast, double beta_slow,
                         std::optional<double> attention_factor) {
  return {theta,           rope_scaling_named(scaling),
          factor,          original_length,
          low_frequency,   high_frequency,
          beta_fast,       beta_slow,
          attention_factor};
}

Tensor call_frequencies(int64_t dim, double theta, const std::string& scaling, double factor, int64_t original_length,
                        double low, double high, double fast, double slow, std::optional<double> attention,
                        int64_t length, std::optional<Device> device) {
  return rope_frequencies(dim, options_from(theta, scaling, factor, original_length, low, high, fast, slow, attention),
                          length, device.value_or(Device()));
}

Tensor call_table(const Tensor& positions, int64_t dim, double theta, const std::string& scaling, double factor,
                  int64_t original_length, double low, double high, double fast, double slow,
                  std::optional<double> attention, bool interleaved, std::optional<DType> dtype) {
  return rope_table(positions, dim,
                    options_from(theta, scaling, factor, original_length, low, high, fast, slow, attention),
                    interleaved, dtype.value_or(DType::f32));
}

std::vector<Values> frequencies_samples(SampleMaker& make) {
  const double theta = 500000, fast = 32, slow = 1;
  const std::string device = make.device().name();
  return {
      {int64_t{8}, 10000.0, std::string("none"), 1.0, int64_t{8192}, 1.0, 4.0, fast, slow, Value(), int64_t{0}, device},
      {int64_t{64}, theta, std::string("llama3"), 8.0, int64_t{8192}, 1.0, 4.0, fast, slow, Value(), int64_t{0},
       device}};
}
std::vector<Values> table_samples(SampleMaker& make) {
  return {{make.indices({2, 3}, 40), int64_t{4}},
          {make.indices({5}, 40), int64_t{6}, 500.0, std::string("yarn"), 4.0, int64_t{16}},
          {make.indices({0}, 40), int64_t{2}}};
}
std::vector<Values> rotary_samples(SampleMaker& make) {
  return {{make.tensor({2, 3, 2, 4}), make.tensor({2, 2, 3, 1, 4}, -1, 1)},
          {make.tensor({2, 2, 6}), make.tensor({2, 2, 4}, -1, 1), true},
          {make.tensor({4}), make.tensor({2, 4}, -1, 1)},
          {make.tensor({0, 3, 2, 4}), make.tensor({2, 1, 3, 1, 4}, -1, 1)}};
}

Partition tabulated(const WholeCall& call) {
  const auto* const scaling = std::get_if<std::string>(&call["scaling"]);
  if (scaling != nullptr && *scaling == "dynamic") return parts::whole(call);
  return {.letters = call.tensor("positions").dim() == 2 ? "ab->1ab11" : "b->11b11"};
}
/// Lines by themselves.
Partition rotated_lines(const WholeCall& call) {
  const Tensor x = call.tensor("x"), rope = call.tensor("rope");
  const std::string word = parts::letters(x.dim() - 1) + '1';
  std::string waves = word.substr(static_cast<size_t>(x.dim() + 1 - rope.dim()));
  for (int d = 1; d < rope.dim(); ++d) {
    if (rope.size(-d) == 1 || d == 1) waves[waves.size() - static_cast<size_t>(d)] = '1';
  }
  return {.letters = parts::notation({word, '1' + waves}, {word}), .linearity = Linearity::first};
}

#define WEFT_SCALING_OPTIONS                                                                                           \
  "theta=10000.0, scaling='none', factor=1.0, original_length=8192, low_frequency=1.0, high_frequency=4.0, beta_fast=" \
  "32.0, beta_slow=1.0, attention_factor=None, "
constexpr OpRecord records[] = {
    {"rope_frequencies", "rope_frequencies(dim, " WEFT_SCALING_OPTIONS "length=0, device=None)",
     "theta^(-2 i / dim) for i in [0, dim / 2), scaled as linear, dynamic, yarn or llama3 say: float64 [dim / 2].",
     false, OpRecord::Domain::floating, frequencies_samples, parts::whole, detail::boxed<call_frequencies>},
    {"rope_table", "rope_table(positions, dim, " WEFT_SCALING_OPTIONS "interleaved=False, dtype=None)",
     "cos and sin of the angles of positions [B, S] or [S], stacked: [2, B, S, 1, dim]; computed in float64.", false,
     OpRecord::Domain::any, table_samples, tabulated, detail::boxed<call_table>},
    {"rotary_embedding", "rotary_embedding(x, rope, interleaved=False)",
     "Pairs of elements of x's lines are rotated by rope [2, ..., n], cos and sin, which broadcast to x; elements from "
     "n "
     "on stay (Su et al. 2021).",
     true, OpRecord::Domain::floating, rotary_samples, rotated_lines, detail::boxed<&weft::rotary_embedding>},
};

}  // namespace

std::span<const OpRecord> rotary_records() { return records; }

}  // namespace weft
