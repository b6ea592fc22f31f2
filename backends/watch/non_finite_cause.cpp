#include "non_finite_cause.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

namespace weft::detail {

namespace {

using cpu::ElementStatistics;

/// Of the finite elements; none where the view has no elements that can be read.
std::optional<ElementStatistics> elements(const View& view) {
  if (view.data == nullptr || view.layout.numel == 0 || !is_floating(view.layout.dtype)) return {};
  return statistics_of(view);
}
bool reaches(const ElementStatistics& s, double low, double high) {
  return s.finite() > 0 && (s.low < low || s.high > high);
}

/// An op with a non-finite result outside an interval, or a pole.
struct Domain {
  std::string_view op;
  double low, high;
  bool pole_at_low, pole_at_high;
  const char* remedy;
};
constexpr double unbounded = std::numeric_limits<double>::infinity();
constexpr Domain domains[] = {
    {"sqrt", 0, unbounded, false, false, "keep its input at 0 or above, as by clamp"},
    {"rsqrt", 0, unbounded, true, false, "keep its input above 0, as by adding 1e-6"},
    {"log", 0, unbounded, true, false, "keep its input above 0, as by adding 1e-6"},
    {"log2", 0, unbounded, true, false, "keep its input above 0, as by adding 1e-6"},
    {"log10", 0, unbounded, true, false, "keep its input above 0, as by adding 1e-6"},
    {"log1p", -1, unbounded, true, false, "keep its input above -1"},
    {"asin", -1, 1, false, false, "keep its input in [-1, 1], as by clamp"},
    {"acos", -1, 1, false, false, "keep its input in [-1, 1], as by clamp"},
    {"atanh", -1, 1, true, true, "keep its input inside (-1, 1)"},
    {"erfinv", -1, 1, true, true, "keep its input inside (-1, 1)"},
    {"acosh", 1, unbounded, false, false, "keep its input at 1 or above"},
};

bool is_logarithm(std::string_view op) { return op.starts_with("log") && op != "log1p"; }
NonFiniteCause underflow_of(std::string_view op) {
  return {fmt::format("{} of a probability that underflowed to 0", op),
          "take log_softmax or logsigmoid of the scores, which do not underflow"};
}

std::optional<NonFiniteCause> outside_domain(std::string_view op, const ElementStatistics& x) {
  const auto* const d = std::ranges::find(domains, op, &Domain::op);
  if (d == std::end(domains) || x.finite() == 0) return {};
  const auto text = [&](double v) { return fmt::format("{} of {:.4g}", op, v); };
  if (x.low < d->low) return NonFiniteCause{text(x.low), d->remedy};
  if (x.high > d->high) return NonFiniteCause{text(x.high), d->remedy};
  const bool pole = (d->pole_at_low && x.low == d->low) || (d->pole_at_high && x.high == d->high);
  if (!pole) return {};
  if (is_logarithm(op) && x.high <= 1 && x.count > 1) return underflow_of(op);
  return NonFiniteCause{text(x.low == d->low ? x.low : x.high), d->remedy};
}

NonFiniteCause too_large(const View& output) {
  const DType dtype = output.layout.dtype;
  const double most = dtype == DType::f16    ? 65504
                      : dtype == DType::f64  ? 1.797693e308
                      : dtype == DType::bf16 ? 3.389531e38
                                             : 3.402823e38;
  return {fmt::format("a result exceeds {}'s {:.6g}", name(dtype), most),
          dtype == DType::f16 ? "compute this part in float32 or bfloat16, or scale it down"
                              : "keep its inputs smaller, as by scaling or normalizing them"};
}

// One operand may be gone, which the result overwrote.
std::optional<NonFiniteCause> of_division(std::span<const View* const> inputs, cpu::NonFinite found) {
  const bool any_zero = std::ranges::any_of(inputs, [](const View* in) {
    const auto s = elements(*in);
    return s && s->zeros > 0;
  });
  if (!any_zero) return {};
  return NonFiniteCause{found.nan ? "0/0" : "a division by 0", "keep the divisor above 0, as by adding 1e-6"};
}

// Only the result is known of operands that it overwrote.
std::optional<NonFiniteCause> outside_domain(std::string_view op, const View& output, cpu::NonFinite found) {
  const auto* const d = std::ranges::find(domains, op, &Domain::op);
  if (d == std::end(domains)) return {};
  const auto made = elements(output);
  if (!found.nan && is_logarithm(op) && made && made->finite() > 0 && made->high <= 0) return underflow_of(op);
  if (found.nan && d->high == unbounded)
    return NonFiniteCause{fmt::format("{} of a number below {}", op, d->low), d->remedy};
  if (found.nan) return NonFiniteCause{fmt::format("{} of a number outside [{}, {}]", op, d->low, d->high), d->remedy};
  return NonFiniteCause{fmt::format("{} of {}", op, d->low), d->remedy};
}

std::string_view base_name(std::string_view op) {
  if (op.ends_with("_")) op.remove_suffix(1);
  return op;
}

bool has_infinity(std::span<const View* const> views) {
  return std::ranges::any_of(views, [](const View* v) { return find_non_finite(*v).inf; });
}

}  // namespace

NonFiniteCause cause_of_value(std::string_view op, const View& output, std::span<const View* const> inputs,
                              cpu::NonFinite found) {
  op = base_name(op);
  const bool infinite = has_infinity(inputs);
  if (found.nan && infinite) {
    if (op.find("softmax") != op.npos)
      return {"softmax of a row that is -inf throughout", "leave one element of each row, or fill with -1e9"};
    if (op == "sub" || op == "add") return {"infinity less infinity", "fill masks with a large finite number"};
    if (op == "mul") return {"0 times infinity", "choose with where rather than multiply by a mask"};
    return {"an infinity among its inputs has no result", "keep infinities away from it"};
  }
  if (inputs.empty()) {
    if (auto cause = outside_domain(op, output, found)) return *cause;
  } else {
    if (const auto x = elements(*inputs[0])) {
      if (auto cause = outside_domain(op, *x)) return *cause;
    }
    if (op == "reciprocal") {
      const auto x = elements(*inputs[0]);
      if (x && x->zeros > 0) return {"a division by 0", "keep the divisor above 0, as by adding 1e-6"};
    }
  }
  if (op.starts_with("div") || op == "remainder" || op == "fmod") {
    if (auto cause = of_division(inputs, found)) return *cause;
  }
  if (found.nan && (op.find("std") != op.npos || op.find("var") != op.npos))
    return {"the deviation of one element, which divides 0 by 0",
            "give it two elements at least, or a correction of 0"};
  if (found.nan && op == "pow") return {"a number below 0 to the power of a fraction", "keep the base at 0 or above"};
  if (found.nan && op == "mean") return {"the mean of no elements", "leave empty batches out"};
  if (found.inf && !found.nan) {
    if (op == "pow" && inputs.size() > 0) {
      const auto x = elements(*inputs[0]);
      if (x && x->zeros > 0) return {"0 to a negative power", "keep the base above 0"};
    }
    return too_large(output);
  }
  return {"its inputs have no finite result", "keep its inputs where the result is finite"};
}

NonFiniteCause cause_of_gradient(std::string_view op, const View& gradient, std::span<const View> arrived,
                                 std::span<const View> kept, cpu::NonFinite found) {
  op = base_name(op);
  bool zero_kept = false, edge_kept = false, zero_arrived = false;
  for (const View& v : kept) {
    const auto s = elements(v);
    if (!s) continue;
    zero_kept |= s->zeros > 0;
    edge_kept |= reaches(*s, -0.9999999, 0.9999999);
  }
  for (const View& v : arrived) {
    const auto s = elements(v);
    zero_arrived |= s && s->zeros > 0;
  }
  constexpr std::string_view at_zero[] = {"sqrt", "rsqrt", "log", "log2", "log10", "reciprocal", "pow", "div", "norm"};
  constexpr std::string_view at_one[] = {"asin", "acos", "atanh", "erfinv"};
  const bool steep_at_zero = zero_kept && std::ranges::find(at_zero, op) != std::end(at_zero);
  const bool steep_at_one = edge_kept && std::ranges::find(at_one, op) != std::end(at_one);
  if (steep_at_zero || steep_at_one) {
    const std::string where = fmt::format("{} at {}", op == "div" ? "a division" : op, steep_at_zero ? "0" : "1");
    if (found.nan && zero_arrived) {
      return {
          fmt::format("{}: infinite slope times the 0 that a where or a product behind it sends", where),
          fmt::format(
              "choose its input rather than its result, as by {}(where(mask, x, 1)), or keep it away from there", op)};
    }
    return {fmt::format("{}: infinite slope", where),
            op == "sqrt" ? "add a small number within, as by sqrt(x + 1e-12)" : "keep its input away from there"};
  }
  if (found.inf && !found.nan) {
    NonFiniteCause cause = too_large(gradient);
    cause.what.replace(0, 8, "a gradient");
    if (gradient.layout.dtype == DType::f16) cause.remedy = "scale the loss less, as optim::GradScaler does by itself";
    return cause;
  }
  return {"its slope is not finite at its inputs", "keep the values it read where its derivative is finite"};
}

}  // namespace weft::detail
