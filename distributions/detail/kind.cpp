#include "kind.hpp"

#include "../../ops/axes.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/diagonal.hpp"
#include "../../ops/random.hpp"
#include "../../ops/softmax.hpp"
#include "../../tensor/atomic.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributions {

namespace {
Atomic<bool> validates{true};
}

bool default_validate_args() { return validates.load(MemoryOrder::relaxed); }
void set_default_validate_args(bool on) { validates.store(on, MemoryOrder::relaxed); }

Chances::Chances(double probs, Location here) : values(Operand(probs).tensor()), where(here) {}

}  // namespace weft::distributions

namespace weft::distributions::detail {

namespace {

struct Limits {
  double epsilon, tiny;
};
Limits limits_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {0x1p-52, 0x1p-1022};
    case DType::f16:
      return {0x1p-10, 0x1p-14};
    case DType::bf16:
      return {0x1p-7, 0x1p-126};
    default:
      return {0x1p-23, 0x1p-126};
  }
}

struct Requirement {
  const char* words;
  Tensor (*holds)(const Tensor&);
};
Requirement requirement_of(Constraint constraint) {
  switch (constraint) {
    case Constraint::real:
      return {"a number", [](const Tensor& x) { return x == x; }};
    case Constraint::positive:
      return {"above 0", [](const Tensor& x) { return x > 0; }};
    case Constraint::nonnegative:
      return {"0 or more", [](const Tensor& x) { return x >= 0; }};
    case Constraint::unit_interval:
      return {"in [0, 1]", [](const Tensor& x) { return logical_and(x >= 0, x <= 1); }};
    case Constraint::simplex:
      return {"0 or more with a sum of 1",
              [](const Tensor& x) { return logical_and(all(x >= 0, {-1}), (sum(x, {-1}) - 1).abs() < 1e-6); }};
    case Constraint::nonnegative_integer:
      return {"an integer from 0 on", [](const Tensor& x) { return logical_and(x >= 0, x == floor(x)); }};
    case Constraint::lower_cholesky:
      return {"lower triangular with a diagonal above 0", [](const Tensor& x) {
                return logical_and(all(x == tril(x), {-2, -1}), all(x.diagonal(0, -2, -1) > 0, {-1}));
              }};
  }
  return {};
}

DType common_dtype(std::initializer_list<const Tensor*> parameters) {
  DType dtype = default_dtype();
  const Tensor* widest = nullptr;
  for (const Tensor* t : parameters) {
    if (widest == nullptr) {
      widest = t, dtype = t->dtype();
      continue;
    }
    dtype = result_type(*widest, *t);
    if (t->dtype() == dtype && !t->impl()->wrapped_number) widest = t;
  }
  return is_floating(dtype) && !(widest->impl()->wrapped_number) ? dtype : default_dtype();
}

}  // namespace

bool never(const Body&) { return false; }
double epsilon_of(DType dtype) { return limits_of(dtype).epsilon; }

Dims Body::shape() const { return joined(batch, event); }

Dims joined(const Dims& a, const Dims& b) {
  Dims out = a;
  for (const int64_t size : b) out.push_back(size);
  return out;
}
Dims without_last(const Dims& a, int count) {
  return Dims(std::span(a.data(), static_cast<size_t>(std::max(0, a.size() - count))));
}
Dims broadcast_all(std::initializer_list<Dims> shapes) {
  Dims out;
  for (const Dims& shape : shapes) {
    if (broadcast_in_place(out, shape)) continue;
    std::string text;
    for (const Dims& each : shapes) text += (text.empty() ? "" : ", ") + each.text();
    raise<ShapeError>({.problem = "shapes " + text + " do not broadcast"});
  }
  return out;
}
bool has_elements(const Tensor& t) { return t.numel() > 0 && !is_meta(t); }

Tensor sum_last(const Tensor& t, int count) {
  Dims dims;
  for (int i = 1; i <= count; ++i) dims.push_back(-i);
  return count == 0 ? t : sum(t, dims);
}
Tensor all_last(const Tensor& t, int count) {
  Dims dims;
  for (int i = 1; i <= count; ++i) dims.push_back(-i);
  return count == 0 ? t : all(t, dims);
}
bool is_integral(DType dtype) { return !is_floating(dtype); }
Tensor is_whole(const Tensor& x) { return is_integral(x.dtype()) ? ones_like(x, {.dtype = boolean}) : x == floor(x); }

void check_parameters(const Body& body) {
  if (!body.validate) return;
  for (size_t i = 0; i < body.parameters.size(); ++i) {
    const Tensor& t = body.parameters[i];
    if (!has_elements(t)) continue;
    const bool logits = body.logits && std::string_view(body.kind->parameters[i].name) == "probs";
    const auto [words, holds] = requirement_of(logits ? Constraint::real : body.kind->parameters[i].constraint);
    const NoGradGuard unrecorded;
    check_elements([t = without_repeats(t), words = words, holds = holds, kind = body.kind->name,
                    parameter = logits ? "logits" : body.kind->parameters[i].name] {
      if (all(holds(t)).item<bool>()) return;
      raise<ValueError>({.problem = fmt::format("parameter '{}' of {} is not {} everywhere", parameter, kind, words),
                         .details = fmt::format("it is {}", describe(t))});
    });
  }
}

Body make_body(const Kind& kind, std::initializer_list<const Tensor*> parameters, const Options& options) {
  Body body{.kind = &kind, .validate = options.validate_args.value_or(default_validate_args())};
  for (const Tensor* t : parameters) checked(*t);
  const DType dtype = common_dtype(parameters);
  Device device;
  size_t i = 0;
  for (const Tensor* t : parameters) {
    const int rank = kind.parameters[i++].event_rank;
    if (t->dim() < rank) {
      raise_rank(fmt::format("parameter '{}' of {}", kind.parameters[i - 1].name, kind.name),
                 fmt::format("at least {} dimension{}", rank, rank == 1 ? "" : "s"), *t);
    }
    body.batch = broadcast_all({body.batch, without_last(t->shape(), rank)});
    if (t->dim() > 0 || device.is_cpu()) device = t->device();
  }
  i = 0;
  for (const Tensor* t : parameters) {
    const int rank = kind.parameters[i++].event_rank;
    if (t->device() != device && t->dim() > 0) check_same_device({*parameters.begin(), t});
    const std::span<const int64_t> own = t->sizes().last(static_cast<size_t>(rank));
    const Tensor converted = t->to(dtype);
    body.parameters.push_back(
        (converted.device() == device ? converted : converted.to(device)).expand(joined(body.batch, Dims(own))));
  }
  return body;
}

Tensor open_uniform(const Body& d, const Dims& shape, Generator* generator) {
  const auto [epsilon, tiny] = limits_of(d[0].dtype());
  return clip(rand(shape, d.options(), generator), tiny, 1 - epsilon / 2);
}

Tensor log1p_square(const Tensor& y) {
  const Tensor size = abs(y), far = size > 1, small = where(far, 0.0, size), large = where(far, size, 1.0);
  return where(far, 2 * log(large) + log1p(square(1 / large)), log1p(square(small)));
}

Body widened(const Body& d) {
  Body wide = d;
  for (Tensor& t : wide.parameters) t = t.device().is_cpu() ? t.to(DType::f64) : t;
  return wide;
}

Tensor log_beta(const Tensor& a, const Tensor& b) { return lgamma(a) + lgamma(b) - lgamma(a + b); }

Tensor probs_of(const Body& d, int parameter, bool binary) {
  if (!d.logits) return d[parameter];
  return binary ? sigmoid(d[parameter]) : softmax(d[parameter], -1);
}
Tensor logits_of(const Body& d, int parameter, bool binary) {
  if (d.logits) return d[parameter];
  // Zero gradient where the logarithm is infinite, so that multiplying by a probability of 0 does not give NaN.
  const auto log_of = [](const Tensor& chance) {
    const Tensor none = chance == 0;
    return masked_fill(log(masked_fill(chance, none, 1)), none, -infinity);
  };
  const Tensor& probs = d[parameter];
  if (!binary) return log_of(probs);
  const Tensor certain = probs == 1, log_rest = log1p(-masked_fill(probs, certain, 0));
  return log_of(probs) - masked_fill(log_rest, certain, -infinity);
}
Tensor rest_of(const Body& d, int parameter) { return d.logits ? sigmoid(-d[parameter]) : 1 - d[parameter]; }

Tensor log_likelihood(const Body& d, const Tensor& yes, const Tensor& no, int parameter) {
  const Tensor& chance = d[parameter];
  if (!d.logits) return xlogy(yes, chance) + xlog1py(no, -chance);
  const auto times = [](const Tensor& count, const Tensor& log_chance) {
    return count * masked_fill(log_chance, logical_and(count == 0, log_chance == -infinity), 0);
  };
  return times(yes, -softplus(-chance)) + times(no, -softplus(chance));
}
Tensor entropy_of_two(const Body& d) { return -log_likelihood(d, probs_of(d), rest_of(d)); }

Tensor normal_log_prob(const Tensor& loc, const Tensor& scale, const Tensor& x) {
  return -0.5 * square((x - loc) / scale) - log(scale) - 0.5 * std::log(2 * pi);
}
Tensor normal_cdf(const Tensor& loc, const Tensor& scale, const Tensor& x) {
  return 0.5 * erfc((loc - x) / (scale * std::sqrt(2.0)));
}
Tensor normal_icdf(const Tensor& loc, const Tensor& scale, const Tensor& p) { return loc + scale * ndtri(p); }

}  // namespace weft::distributions::detail
