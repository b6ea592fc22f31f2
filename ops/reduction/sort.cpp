#include "../sort.hpp"

#include "../create.hpp"
#include "../detail/indices.hpp"
#include "../detail/records.hpp"
#include "../pointwise.hpp"
#include "../scatter.hpp"
#include "../search.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

// Each element's gradient back to its place in a tensor of `shape`.
struct SortBackward {
  Saved order;
  Dims shape;
  int dim;
  Tensor operator()(Node& self, Tensor&& g) {
    const Tensor& at = order.get(self);
    return scatter(zeros(shape, {g.dtype(), g.device()}), dim, at, g);
  }
};

// Tensors of values and indices for `count` elements of each line.
ValuesAndIndices places_for(const Tensor& x, int dim, int64_t count) {
  Dims shape = x.shape();
  if (x.dim() != 0) shape[dim] = count;
  return {make(shape, x.dtype(), x.device()), make(shape, DType::i64, x.device())};
}

void run_sort(const ValuesAndIndices& out, const Tensor& x, int dim, bool descending) {
  if (out.values.numel() == 0) return;
  WEFT_KERNEL(sort, x)
  (at_least_1d(out.values.raw_view()), at_least_1d(out.indices.raw_view()), at_least_1d(x.raw_view()), dim, descending);
}

// The first `count` elements of each sorted line; the CPU's kernel finds them without sorting the rest.
ValuesAndIndices first_of_lines(const Tensor& x, int along, int64_t count, bool descending) {
  const int64_t n = size_along(x, along);
  if (count < n) check_room(Dims{n}, DType::i64, x.device());  // the kernel takes as much
  ValuesAndIndices out = places_for(x, along, x.device().is_cpu() || is_meta(x) ? count : n);
  run_sort(out, x, along, descending);
  if (out.values.dim() != 0 && out.values.size(along) != count) {
    out.values = out.values.narrow(along, 0, count).contiguous();
    out.indices = out.indices.narrow(along, 0, count).contiguous();
  }
  if (should_record(x)) record(out.values, SortBackward{Saved(out.indices), x.shape(), along}, x);
  return out;
}

ValuesAndIndices sorted_lines(const Tensor& x, int dim, bool descending) {
  const int along = wrap_dim(dim, checked(x).dim());
  return first_of_lines(x, along, size_along(x, along), descending);
}

void check_line(const Tensor& x, int dim) {
  const int along = wrap_dim(dim, checked(x).dim());
  if (WEFT_UNLIKELY(size_along(x, along) == 0)) {
    raise<ValueError>({.problem = fmt::format("a line of no elements has none to choose: shape {}", x.shape().text())});
  }
}

// The elements at `index`, of size 1 along dim.
ValuesAndIndices chosen(const Tensor& x, int dim, const Tensor& index, bool keepdim) {
  const int along = wrap_dim(dim, x.dim());
  Dims shape = index.shape();
  if (!keepdim && x.dim() > 0) shape.erase(along);
  return {pick(x, along, index, shape), index.reshape(shape)};
}

// A 0-d tensor as one of shape [1].
Tensor with_a_dim(const Tensor& x) { return x.dim() == 0 ? x.reshape({1}) : x; }

void check_rank(int64_t k, int64_t least, int64_t highest) {
  if (WEFT_LIKELY(k >= least && k <= highest)) return;
  raise_value("k", fmt::format("a number in [{}, {}]", least, highest), k);
}

// ---- ranks ----------------------------------------------------------------------------------------------------------

// Whether sorting x is the way to find so many ranks in each line: each alone takes passes over the line.
bool is_sorted_for(const Tensor& x, int64_t ranks) {
  constexpr int64_t few = 4;
  return kernels(x.raw_view()).select_rank == nullptr || ranks > few;
}
// The positions of the elements that have these ranks (i64, from 0) in their sorted lines.
Tensor positions_of(const Tensor& x, int dim, const Tensor& ranks) {
  const NoGradGuard unrecorded;
  if (is_sorted_for(x, ranks.sizes()[static_cast<size_t>(dim)])) {
    return gather(sorted_lines(x, dim, false).indices, dim, ranks);
  }
  check_room(x.sizes(), DType::i64, x.device());  // the kernel takes as much
  const Tensor order = make(ranks.shape(), DType::i64, x.device());
  WEFT_KERNEL(select_rank, x)(order.raw_view(), x.raw_view(), ranks.raw_view(), dim);
  return order;
}

// ---- medians --------------------------------------------------------------------------------------------------------

// The rank of the median in each line of a sorted tensor, where NaN is last; of size 1 along dim.
Tensor median_rank(const Tensor& x, int dim, bool skip_nan) {
  const int64_t n = x.sizes()[static_cast<size_t>(dim)];
  const Tensor missing = sum(isnan(x), {dim}, true);
  if (skip_nan) return clip(floor_divide(n - 1 - missing, 2), Scalar(int64_t{0}), {});
  return weft::where(missing > 0, n - missing, (n - 1) / 2);
}

// The index of the median in each line of x, which has a dimension; of size 1 along dim.
Tensor median_index(const Tensor& x, int dim, bool skip_nan) {
  const NoGradGuard unrecorded;
  return positions_of(x, dim, median_rank(x, dim, skip_nan));
}

ValuesAndIndices median_along(const Tensor& x, int dim, bool keepdim, bool skip_nan) {
  check_line(x, dim);
  const int along = wrap_dim(dim, x.dim());
  Tensor index = median_index(with_a_dim(x), along, skip_nan);
  if (x.dim() == 0) index = index.reshape({});
  return chosen(x, dim, index, keepdim);
}

// g in equal parts to the elements that are the median.
struct MedianBackward {
  Tensor chosen;
  DType dtype;
  Tensor operator()(Tensor&& g) {
    const Tensor ties = sum(chosen).to(dtype);
    return weft::where(chosen, g / ties, 0.0);
  }
};

Tensor median_of_all(const Tensor& x, bool skip_nan) {
  if (checked(x).numel() == 0) {
    if (!is_floating(x.dtype())) raise<ValueError>({.problem = "no integers have no median"});
    return sum(x) + __builtin_nan("");
  }
  Tensor out;
  {
    const NoGradGuard unrecorded;
    const Tensor list = x.reshape({-1}), index = median_index(list, 0, skip_nan);
    out = pick(list, 0, index, {});
  }
  if (should_record(x)) {
    const Tensor given = x.detach();
    Tensor equal = logical_or(given == out, logical_and(isnan(given), isnan(out)));
    record(out, MedianBackward{std::move(equal), x.dtype()}, x);
  }
  return out;
}

// ---- quantiles ------------------------------------------------------------------------------------------------------

void check_quantile(const Tensor& q, const Tensor& x) {
  if (q.dim() > 1) raise_rank("q", "at most 1 dimension", q);
  expect_one_dtype("q and x", q, x, "convert one with to(dtype)");
  check_same_device({&q, &x});
  if (is_meta(q)) return;
  check_elements([q] {
    if (!all(logical_and(q >= 0, q <= 1)).item<bool>()) raise<ValueError>({.problem = "q is between 0 and 1"});
  });
}

// Ranks of size [..., count of q] in lines along the last dimension, NaN last.
Tensor quantile_ranks(const Tensor& lines, const Tensor& q, bool skip_nan) {
  const int64_t n = lines.sizes().back();
  const Tensor missing = sum(isnan(lines), {-1}, true);
  if (!skip_nan) return weft::where(missing > 0, (n - missing).to(q.dtype()), q * static_cast<double>(n - 1));
  const Tensor last = clip(n - 1 - missing, Scalar(int64_t{0}), {});
  return q * last.to(q.dtype());
}

Tensor at_ranks(const Tensor& lines, const Tensor& ranks, QuantileInterpolation interpolation) {
  const bool sorts = is_sorted_for(lines, ranks.sizes().back());
  const Tensor sorted = sorts ? sorted_lines(lines, -1, false).values : Tensor();
  const auto elements = [&](const Tensor& rank) {
    const Tensor at = rank.detach().to(DType::i64);
    return sorts ? gather(sorted, -1, at) : gather(lines, -1, positions_of(lines, lines.dim() - 1, at));
  };
  switch (interpolation) {
    case QuantileInterpolation::lower:
      return elements(floor(ranks));
    case QuantileInterpolation::higher:
      return elements(ceil(ranks));
    case QuantileInterpolation::nearest:
      return elements(round(ranks));
    case QuantileInterpolation::midpoint:
      return lerp(elements(floor(ranks)), elements(ceil(ranks)), 0.5);
    case QuantileInterpolation::linear:
      break;
  }
  const Tensor below = floor(ranks.detach());
  return lerp(elements(below), elements(ceil(ranks)), ranks - below);
}

Tensor quantile_of(const Tensor& x, const Operand& given, std::optional<int64_t> dim, bool keepdim,
                   QuantileInterpolation interpolation, bool skip_nan) {
  check_floating(checked(x));
  const Tensor& level = checked(given.tensor());
  const Tensor q = level.impl()->wrapped_number ? level.to(x.dtype()).to(x.device()) : level;
  check_quantile(q, x);
  const int rank = x.dim(), along = dim ? wrap_dim(*dim, rank) : 0;
  if (x.numel() == 0 && (!dim || size_along(x, along) == 0)) {
    raise<ValueError>({.problem = "there is no quantile of no elements"});
  }
  const Tensor wide = to_compute_type(x);
  const Tensor lines = dim && rank > 0 ? wide.transpose(along, -1) : wide.reshape({-1});
  const Tensor list = to_compute_type(q).reshape({-1});
  const Tensor ranks = quantile_ranks(lines, list, skip_nan);
  Tensor out = at_ranks(lines, ranks, interpolation).to(x.dtype());
  // The quantiles are last; they come first, and dim, if it is kept, is where it was.
  out = out.unsqueeze(0).transpose(0, -1);
  Dims shape;
  if (q.dim() == 1) shape.push_back(q.numel());
  if (dim && rank > 0) {
    out = out.transpose(along + 1, -1);
    for (int i = 0; i < rank; ++i) {
      if (i != along) shape.push_back(x.sizes()[static_cast<size_t>(i)]);
      else if (keepdim) shape.push_back(1);
    }
  } else if (keepdim) {
    for (int i = 0; i < rank; ++i) shape.push_back(1);
  }
  return out.reshape(shape).contiguous();
}

}  // namespace

ValuesAndIndices sort(const Tensor& x, int dim, bool descending, Location where) {
  const CallScope call("sort", where);
  return sorted_lines(x, dim, descending);
}
Tensor argsort(const Tensor& x, int dim, bool descending, Location where) {
  const CallScope call("argsort", where);
  const NoGradGuard unrecorded;
  return sorted_lines(x, dim, descending).indices;
}
Tensor msort(const Tensor& x, Location where) {
  const CallScope call("msort", where);
  return sorted_lines(x, 0, false).values;
}

ValuesAndIndices topk(const Tensor& x, int64_t k, int dim, bool largest, Location where) {
  const CallScope call("topk", where);
  const int along = wrap_dim(dim, checked(x).dim());
  check_rank(k, 0, size_along(x, along));
  ValuesAndIndices out = first_of_lines(with_a_dim(x), along, k, largest);
  if (x.dim() != 0 || k == 0) return out;
  return {out.values.reshape({}), out.indices.reshape({})};
}

ValuesAndIndices kthvalue(const Tensor& x, int64_t k, int dim, bool keepdim, Location where) {
  const CallScope call("kthvalue", where);
  const int along = wrap_dim(dim, checked(x).dim());
  check_rank(k, 1, size_along(x, along));
  const Tensor lines = with_a_dim(x);
  Dims shape = lines.shape();
  shape[along] = 1;
  Tensor index = positions_of(lines, along, full(shape, k - 1, {DType::i64, x.device()}));
  if (x.dim() == 0) index = index.reshape({});
  return chosen(x, along, index, keepdim);
}

ValuesAndIndices mode(const Tensor& x, int dim, bool keepdim, Location where) {
  const CallScope call("mode", where);
  check_line(x, dim);
  const int along = wrap_dim(dim, x.dim());
  Tensor index;
  {
    // In a sorted line the longest run of equal elements ends where place minus first place is largest.
    const NoGradGuard unrecorded;
    const Tensor lines = with_a_dim(x).transpose(along, -1);
    const auto [values, order] = sorted_lines(lines.dtype() == DType::boolean ? lines.to(DType::u8) : lines, -1, false);
    const Tensor places = arange(0, lines.sizes().back(), 1, {DType::i64, x.device()});
    const Tensor run = places - searchsorted(values, values);
    const Tensor last = argmax(run, -1, true);
    index = gather(order, -1, last).transpose(along, -1).contiguous();
    if (x.dim() == 0) index = index.reshape({});
  }
  return chosen(x, along, index, keepdim);
}

Tensor median(const Tensor& x, Location where) {
  const CallScope call("median", where);
  return median_of_all(x, false);
}
ValuesAndIndices median(const Tensor& x, int dim, bool keepdim, Location where) {
  const CallScope call("median", where);
  return median_along(x, dim, keepdim, false);
}
Tensor nanmedian(const Tensor& x, Location where) {
  const CallScope call("nanmedian", where);
  return median_of_all(x, true);
}
ValuesAndIndices nanmedian(const Tensor& x, int dim, bool keepdim, Location where) {
  const CallScope call("nanmedian", where);
  return median_along(x, dim, keepdim, true);
}

Tensor quantile(const Tensor& x, const Operand& q, std::optional<int64_t> dim, bool keepdim,
                QuantileInterpolation interpolation) {
  const CallScope call("quantile", q.where);
  return quantile_of(x, q, dim, keepdim, interpolation, false);
}
Tensor nanquantile(const Tensor& x, const Operand& q, std::optional<int64_t> dim, bool keepdim,
                   QuantileInterpolation interpolation) {
  const CallScope call("nanquantile", q.where);
  return quantile_of(x, q, dim, keepdim, interpolation, true);
}

namespace {

std::vector<Tensor> listed(ValuesAndIndices&& both) { return {std::move(both.values), std::move(both.indices)}; }

std::vector<Tensor> call_sort(const Tensor& x, int dim, bool descending, bool /*stable*/) {
  return listed(sort(x, dim, descending));
}
Tensor call_argsort(const Tensor& x, int dim, bool descending, bool /*stable*/) { return argsort(x, dim, descending); }
std::vector<Tensor> call_topk(const Tensor& x, int64_t k, int dim, bool largest, bool /*sorted*/) {
  return listed(topk(x, k, dim, largest));
}
std::vector<Tensor> call_kthvalue(const Tensor& x, int64_t k, int dim, bool keepdim) {
  return listed(kthvalue(x, k, dim, keepdim));
}
std::vector<Tensor> call_mode(const Tensor& x, int dim, bool keepdim) { return listed(mode(x, dim, keepdim)); }

template <Tensor (*whole)(const Tensor&, Location), ValuesAndIndices (*along)(const Tensor&, int, bool, Location)>
std::vector<Tensor> call_median(const Tensor& x, std::optional<int> dim, bool keepdim) {
  if (!dim) return {whole(x, {})};
  return listed(along(x, *dim, keepdim, {}));
}

template <Tensor (*function)(const Tensor&, const Operand&, std::optional<int64_t>, bool, QuantileInterpolation)>
Tensor call_quantile(const Tensor& x, const Operand& q, std::optional<int64_t> dim, bool keepdim,
                     const std::string& interpolation) {
  constexpr const char* names[] = {"linear", "lower", "higher", "midpoint", "nearest"};
  const auto* const found = std::ranges::find(names, interpolation);
  if (found == std::end(names)) {
    raise<ValueError>({.problem = fmt::format("argument 'interpolation' is '{}'", interpolation),
                       .remedy = "it is 'linear', 'lower', 'higher', 'midpoint' or 'nearest'"});
  }
  return function(x, q, dim, keepdim, static_cast<QuantileInterpolation>(found - names));
}

std::vector<Values> sort_samples(SampleMaker& make) {
  return {{make.tensor({2, 5})},
          {make.tensor({3, 2, 4}), int64_t{0}, true},
          {make.tensor({2, 3, 2}), int64_t{-2}, false, true},
          {make.tensor({}), int64_t{0}},
          {make.tensor({0, 2}), int64_t{0}}};
}
std::vector<Values> list_samples(SampleMaker& make) {
  return {{make.tensor({5})}, {make.tensor({3, 2})}, {make.tensor({})}, {make.tensor({0, 2})}};
}
std::vector<Values> topk_samples(SampleMaker& make) {
  return {{make.tensor({2, 5}), int64_t{2}},
          {make.tensor({3, 2, 4}), int64_t{3}, int64_t{0}, false},
          {make.tensor({2, 3}), int64_t{2}, int64_t{-1}, true, false},
          {make.tensor({}), int64_t{1}},
          {make.tensor({0, 2}), int64_t{1}, int64_t{1}}};
}
std::vector<Values> kthvalue_samples(SampleMaker& make) {
  return {{make.tensor({2, 5}), int64_t{2}},
          {make.tensor({3, 2, 4}), int64_t{3}, int64_t{0}, true},
          {make.tensor({}), int64_t{1}},
          {make.tensor({0, 2}), int64_t{1}, int64_t{1}}};
}
std::vector<Values> mode_samples(SampleMaker& make) {
  return {{make.tensor({2, 5})},
          {make.tensor({3, 2, 4}), int64_t{0}, true},
          {make.tensor({})},
          {make.tensor({0, 2}), int64_t{1}}};
}
std::vector<Values> median_samples(SampleMaker& make) {
  return {{make.tensor({2, 5})}, {make.tensor({2, 4}), int64_t{1}}, {make.tensor({3, 2, 4}), int64_t{-3}, true},
          {make.tensor({})},     {make.tensor({}), int64_t{0}},     {make.tensor({0, 2}), int64_t{1}}};
}
// Levels with non-integer ranks; at integer ranks the gradient of q jumps.
std::vector<Values> quantile_samples(SampleMaker& make) {
  const Tensor levels = tensor({0.3, 0.55, 0.85}, make.dtype()).to(make.device());
  return {{make.tensor({2, 5}), 0.35},
          {make.tensor({2, 4}), levels, int64_t{1}},
          {make.tensor({3, 2, 4}), levels, int64_t{0}, true, "lower"},
          {make.tensor({3, 2, 4}), levels, int64_t{-2}, false, "midpoint"},
          {make.tensor({3, 4}), levels.select(0, 1), std::monostate{}, true, "nearest"},
          {make.tensor({}), 0.5, std::monostate{}, false, "higher"},
          {make.tensor({0, 2}), levels, int64_t{1}}};
}

/// Several fractions come first in the result.
Partition with_fractions(const WholeCall& call) {
  const Tensor &x = call.inputs()[0], &result = call.results().at(0);
  const Tensor q = call.tensor("q");
  std::string word = parts::letters(x.dim()), out = word;
  for (const int64_t d : parts::dims_of(call["dim"], x.dim()))
    word[static_cast<size_t>(d)] = out[static_cast<size_t>(d)] = '1';
  if (!call.flag("keepdim")) std::erase(out, '1');
  if (result.dim() == static_cast<int>(out.size()) + 1) out.insert(0, 1, '1');
  std::vector<std::string> in{word};
  if (q.defined()) in.push_back(parts::uncut(q));
  return {.letters = parts::notation(in, std::vector{out})};
}

constexpr auto any_type = OpRecord::Domain::any;
constexpr auto numeric = OpRecord::Domain::numeric;
constexpr auto floating = OpRecord::Domain::floating;
constexpr OpRecord records[] = {
    {"sort", "sort(x, dim=-1, descending=False, stable=False) -> (values, indices)",
     "Each line along dim in ascending or descending order, and where each element was. NaN counts as largest; the "
     "order is stable without `stable`, too.",
     true, any_type, sort_samples, parts::along, detail::boxed<call_sort>},
    {"argsort", "argsort(x, dim=-1, descending=False, stable=False)", "The indices that sort gives.", false, any_type,
     sort_samples, parts::along, detail::boxed<call_argsort>},
    {"msort", "msort(x)", "The values that sort gives along dimension 0.", true, any_type, list_samples,
     parts::along_first, detail::boxed<weft::msort>},
    {"topk", "topk(x, k, dim=-1, largest=True, sorted=True) -> (values, indices)",
     "The k largest or smallest elements of each line along dim, in order without `sorted`, too; of equal ones the "
     "first.",
     true, any_type, topk_samples, parts::along, detail::boxed<call_topk>},
    {"kthvalue", "kthvalue(x, k, dim=-1, keepdim=False) -> (values, indices)",
     "The k-th smallest element of each line along dim, counted from 1.", true, any_type, kthvalue_samples,
     parts::along, detail::boxed<call_kthvalue>},
    {"mode", "mode(x, dim=-1, keepdim=False) -> (values, indices)",
     "The most frequent element of each line along dim, the smallest of several, and its last index.", true, any_type,
     mode_samples, parts::along, detail::boxed<call_mode>},
    {"median", "median(x, dim=None, keepdim=False) -> (values, indices)",
     "The lower median of all elements, or of each line along dim with its index. NaN wins. Without dim equal elements "
     "share the gradient.",
     true, numeric, median_samples, parts::along, detail::boxed<call_median<weft::median, weft::median>>},
    {"nanmedian", "nanmedian(x, dim=None, keepdim=False) -> (values, indices)",
     "median of the elements that are not NaN.", true, numeric, median_samples, parts::along,
     detail::boxed<call_median<weft::nanmedian, weft::nanmedian>>},
    {"quantile", "quantile(x, q, dim=None, keepdim=False, *, interpolation='linear')",
     "The elements of rank q (n - 1) along dim, or of all; between two elements linear, lower, higher, midpoint or "
     "nearest. q in [0, 1] is a number or a tensor, whose dimension comes first. NaN wins.",
     true, floating, quantile_samples, with_fractions, detail::boxed<call_quantile<weft::quantile>>},
    {"nanquantile", "nanquantile(x, q, dim=None, keepdim=False, *, interpolation='linear')",
     "quantile of the elements that are not NaN.", true, floating, quantile_samples, with_fractions,
     detail::boxed<call_quantile<weft::nanquantile>>},
};

}  // namespace

std::span<const OpRecord> sort_records() { return records; }

}  // namespace weft
