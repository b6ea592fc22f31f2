// Histograms: places among the edges, counted.
#include <cmath>

#include "../create.hpp"
#include "../detail/indices.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../index.hpp"
#include "../masked.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../search.hpp"
#include "../statistics.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

using Range = std::pair<double, double>;

void check_bins(int64_t bins, const Tensor& x) {
  expect_at_least("bins", bins, 1);
  check_room(Dims{bins}, DType::i64, x.device());
}

Range checked_range(Range range) {
  const auto [low, high] = range;
  if (!std::isfinite(low) || !std::isfinite(high) || low > high) {
    raise<ValueError>({.problem = fmt::format("there are no bins from {} to {}", low, high)});
  }
  return range;
}

// The extremes of x, from 0 to 1 where it is empty.
Range extremes_of(const Tensor& x) {
  if (is_meta(x) || x.numel() == 0) return {0, 1};
  return {min(x).item<double>(), max(x).item<double>()};
}

// A range of one point, made wider.
Range widened(Range range, double by) {
  if (range.first == range.second) return {range.first - by, range.second + by};
  return range;
}

// Counts between neighbouring edges; the last interval includes its upper end.
Tensor counts(const Tensor& x, const Tensor& edges, const Tensor& weight) {
  const int64_t bins = edges.numel() - 1;
  const Tensor list = x.reshape({-1}), terms = weight.defined() ? weight.reshape({-1}) : ones_like(list);
  const Tensor at_end = list == edges.select(0, bins);
  const Tensor place = masked_fill(searchsorted(edges, list, {.right = true}) - 1, at_end, bins - 1);
  const Tensor inside = logical_and(place >= 0, logical_and(place < bins, logical_not(isnan(list))));
  const Tensor kept = masked_fill(terms, logical_not(inside), 0);
  return index_add(zeros(bins, {x.dtype(), x.device()}), 0, masked_fill(place, logical_not(inside), 0), kept);
}

// The same without weights, from how many elements have 0, 1, 2, … edges that are not above them; NaN has all.
Tensor counts_of_places(const Tensor& x, const Tensor& edges) {
  const int64_t bins = edges.numel() - 1;
  const Tensor list = x.reshape({-1}), places = searchsorted(edges, list, {.right = true});
  const Tensor counts = bincount(places, {}, bins + 2).narrow(0, 1, bins);
  add_(counts.select(0, bins - 1), sum(list == edges.select(0, bins)));
  return counts.to(x.dtype());
}

// Counts in the type that sums are computed in.
Tensor filled(const Tensor& x, const Tensor& edges, const Tensor& weight) {
  const Tensor wide = to_compute_type(x), ends = to_compute_type(edges);
  if (weight.defined()) return counts(wide, ends, to_compute_type(weight));
  return x.device().is_cpu() ? counts_of_places(wide, ends) : counts(wide, ends, weight);
}

Tensor even_edges(const Tensor& x, Range range, int64_t bins) {
  const auto [low, high] = range;
  return linspace(low, high, bins + 1, {x.dtype(), x.device()});
}

void check_weight(const Tensor& weight, const Tensor& x) {
  if (!weight.defined()) return;
  if (!(weight.shape() == x.shape())) {
    raise_shapes(fmt::format("weights of shape {} for {}", weight.shape().text(), x.shape().text()));
  }
  check_source(x, weight);
}

HistogramResult between(const Tensor& x, const Tensor& edges, const HistogramOptions& options) {
  Tensor hist = filled(x, edges, options.weight);
  if (options.density) {
    const int64_t bins = edges.numel() - 1;
    hist = hist / sum(hist) / to_compute_type(edges.narrow(0, 1, bins) - edges.narrow(0, 0, bins));
  }
  return {hist.to(x.dtype()), edges};
}

}  // namespace

Tensor histc(const Tensor& given, int64_t bins, double low, double high, Location where) {
  const CallScope call("histc", where);
  check_floating(checked(given));
  check_bins(bins, given);
  const NoGradGuard unrecorded;
  const Tensor x = given.detach();
  check_room(x.sizes(), x.dtype(), x.device());
  if (low == high && is_meta(x)) return zeros(bins, {x.dtype(), x.device()});
  Range range = checked_range({low, high});
  if (low == high && x.numel() != 0) range = checked_range(extremes_of(x));
  return filled(x, even_edges(to_compute_type(x), widened(range, 1), bins), {}).to(x.dtype());
}

HistogramResult histogram(const Tensor& given, int64_t bins, const HistogramOptions& options, Location where) {
  const CallScope call("histogram", where);
  check_floating(checked(given));
  check_bins(bins, given);
  check_weight(options.weight, given);
  const NoGradGuard unrecorded;
  const Tensor x = given.detach();
  check_room(x.sizes(), x.dtype(), x.device());
  const Range range = checked_range(options.range ? *options.range : extremes_of(x));
  return between(x, even_edges(x, widened(range, 0.5), bins), options);
}

HistogramResult histogram(const Tensor& given, const Tensor& edges, const HistogramOptions& options, Location where) {
  const CallScope call("histogram", where);
  check_floating(checked(given));
  check_source(given, checked(edges));
  if (edges.dim() != 1 || edges.numel() < 2) raise_rank("edges", "1 dimension of at least 2 elements", edges);
  if (options.range) raise<ValueError>({.problem = "edges already say the range"});
  check_weight(options.weight, given);
  const NoGradGuard unrecorded;
  const Tensor fixed = edges.detach().contiguous();
  return between(given.detach(), fixed, options);
}

namespace {

// Two integers, or two tensors that hold numbers.
std::optional<Range> range_in(const Value& range) {
  if (std::holds_alternative<std::monostate>(range)) return {};
  std::vector<double> ends;
  if (const auto* tensors = std::get_if<std::vector<Tensor>>(&range)) {
    for (const Tensor& t : *tensors) ends.push_back(detail::unboxed<double>(t, 2));
  } else {
    for (const int64_t end : detail::unboxed<Dims>(range, 2)) ends.push_back(static_cast<double>(end));
  }
  if (ends.size() != 2) raise<ValueError>({.problem = "a range has two ends"});
  return Range(ends[0], ends[1]);
}

std::vector<Tensor> call_histogram(const Tensor& x, const Value& bins, const Value& range, const Tensor& weight,
                                   bool density) {
  HistogramOptions options{{}, weight, density};
  options.range = range_in(range);
  const auto* edges = std::get_if<Tensor>(&bins);
  auto [hist, bin_edges] = edges != nullptr ? histogram(x, *edges, options, {})
                                            : histogram(x, detail::unboxed<int64_t>(bins, 1), options, {});
  return {std::move(hist), std::move(bin_edges)};
}

std::vector<Values> histc_samples(SampleMaker& make) {
  return {{make.tensor({2, 7}), int64_t{4}},
          {make.tensor({9}), int64_t{3}, -1.0, 1.5},
          {make.tensor({}), int64_t{5}},
          {make.tensor({0, 2}), int64_t{3}}};
}
std::vector<Values> histogram_samples(SampleMaker& make) {
  const Tensor edges = tensor({-1.5, -0.5, 0.25, 2.0}, make.dtype()).to(make.device());
  return {{make.tensor({2, 7}), int64_t{4}},
          {make.tensor({9}), edges, std::monostate{}, make.tensor({9}, 0.5, 2)},
          {make.tensor({9}), int64_t{3}, Dims{-1, 2}, std::monostate{}, true},
          {make.tensor({0, 2}), int64_t{3}}};
}

constexpr auto floating = OpRecord::Domain::floating;
constexpr OpRecord records[] = {
    {"histc", "histc(x, bins=100, min=0, max=0)",
     "How many elements lie in each of `bins` equal parts from min to max, or between the extremes of x where these "
     "are equal.",
     OpFacts(false, OpFacts::reads_values), floating, histc_samples, parts::whole, detail::boxed<&weft::histc>},
    {"histogram", "histogram(x, bins=100, *, range=None, weight=None, density=False) -> (hist, bin_edges)",
     "How many elements, or the sum of their weights, lie between neighbouring edges, and the edges: given ones, or "
     "of `bins` equal parts of the range, or between the extremes of x.",
     OpFacts(false, OpFacts::reads_values), floating, histogram_samples, parts::whole, detail::boxed<call_histogram>},
};

}  // namespace

std::span<const OpRecord> histogram_records() { return records; }

}  // namespace weft
