// Distinct values, counts, places in sorted lists: composed of sorting, comparing neighbours and scattering.
#include "../search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../create.hpp"
#include "../detail/compare.hpp"
#include "../detail/complex.hpp"
#include "../detail/indices.hpp"
#include "../detail/masked.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../index.hpp"
#include "../masked.hpp"
#include "../pointwise.hpp"
#include "../rearrange.hpp"
#include "../reduce.hpp"
#include "../scan.hpp"
#include "../scatter.hpp"
#include "../../tensor/checked.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

TensorOptions counting(const Tensor& like) { return {DType::i64, like.device()}; }

void check_from_zero(const Tensor& list) {
  if (const auto least = min(list).item<int64_t>(); WEFT_UNLIKELY(least < 0)) {
    raise_value("x", "no negative number", least);
  }
}

// Room for every number from 0 to the largest in the list, which is not empty: a kernel takes them as places.
int64_t room_for(const Tensor& list) {
  check_from_zero(list);
  const auto largest = max(list).item<int64_t>();
  const Checked room = Checked(largest) + 1;
  if (WEFT_UNLIKELY(!room.fits())) {
    raise<ValueError>({.problem = fmt::format("there is no room for numbers up to {}", largest)});
  }
  return room.value();
}

// ---- unique ---------------------------------------------------------------------------------------------------------

// x sorted along its only dimension; `order` gets the permutation, if it is given.
Tensor sorted_list(const Tensor& x, Tensor* order) {
  const Tensor out = make_like(x);
  if (order != nullptr) *order = make(x.sizes(), DType::i64, x.device());
  if (x.numel() == 0) return out;
  const View permutation = order != nullptr ? order->raw_view() : View{};
  WEFT_KERNEL(sort, x)(out.raw_view(), permutation, x.raw_view(), 0, false);
  return out;
}

// The permutation that sorts the rows of a matrix lexicographically: stable, from the last column to the first.
Tensor row_order(const Tensor& rows) {
  Tensor order = arange(0, rows.sizes()[0], 1, counting(rows));
  for (int64_t column = rows.sizes()[1] - 1; column >= 0; --column) {
    Tensor next;
    sorted_list(index_select(rows.select(1, column), 0, order).contiguous(), &next);
    order = index_select(order, 0, next);
  }
  return order;
}

// True at each element, or row, that differs from the one before it.
Tensor first_of_each(const Tensor& x) {
  const int64_t n = x.sizes()[0];
  const Tensor first = ones(Dims(n), {DType::boolean, x.device()});
  if (n <= 1) return first;
  Tensor differs = x.narrow(0, 1, n - 1) != x.narrow(0, 0, n - 1);
  if (x.dim() == 2) differs = any(differs, 1);
  first.narrow(0, 1, n - 1).copy_(differs);
  return first;
}

// The distinct elements, or rows, of x among neighbours; `order` (may be undefined) says where each came from.
Unique among_neighbours(const Tensor& x, const Tensor& order, const UniqueOptions& wanted) {
  const Tensor first = first_of_each(x);
  const Tensor starts = nonzero(first).reshape({-1});
  Unique out{index_select(x, 0, starts), {}, {}};
  if (wanted.return_inverse) {
    const Tensor place = cumsum(first, 0) - 1;
    out.inverse = order.defined() ? index_copy(place, 0, order, place) : place;
  }
  if (wanted.return_counts) {
    const Tensor ends = full(starts.shape(), x.sizes()[0], counting(x));
    const int64_t n = starts.numel();
    if (n > 1) ends.narrow(0, 0, n - 1).copy_(starts.narrow(0, 1, n - 1));
    out.counts = ends - starts;
  }
  return out;
}

Unique distinct(const Tensor& x, bool sorted, const UniqueOptions& wanted) {
  NoGradGuard unrecorded;
  checked(x);
  if (WEFT_UNLIKELY(is_meta(x))) count_true(x);
  if (!wanted.dim) {
    Tensor order, list = x.reshape({-1});
    if (sorted) list = sorted_list(list, wanted.return_inverse ? &order : nullptr);
    Unique out = among_neighbours(list, order, wanted);
    if (wanted.return_inverse) out.inverse = out.inverse.view(x.shape());
    return out;
  }
  const int d = wrap_dim(*wanted.dim, x.dim());
  const Tensor slices = (x.dim() == 0 ? x.reshape({1}) : x).transpose(0, d);
  const int64_t n = slices.sizes()[0];
  Tensor order, rows = slices.reshape({n, n == 0 ? 0 : slices.numel() / n});
  if (sorted) {
    order = row_order(rows);
    rows = index_select(rows, 0, order);
  }
  Unique out = among_neighbours(rows, order, wanted);
  Dims shape = slices.shape();
  shape[0] = out.values.sizes()[0];
  out.values = out.values.view(shape).transpose(0, d).contiguous();
  return out;
}

}  // namespace

Unique unique(const Tensor& x, UniqueOptions options, Location where) {
  const CallScope call("unique", where);
  return distinct(x, true, options);
}

Unique unique_consecutive(const Tensor& x, UniqueOptions options, Location where) {
  const CallScope call("unique_consecutive", where);
  return distinct(x, false, options);
}

// ---- counts ---------------------------------------------------------------------------------------------------------

Tensor bincount(const Tensor& x, const Tensor& weights, int64_t minlength, Location where) {
  const CallScope call("bincount", where);
  const Tensor list = checked_index(checked(x), x);
  if (WEFT_UNLIKELY(x.dim() != 1)) raise_rank("x", "1 dimension", x, "flatten it");
  if (weights.defined()) expect_shape("weights", weights, x.shape());
  expect_at_least("minlength", minlength, 0);
  check_same_device({&x, &weights});
  if (WEFT_UNLIKELY(is_meta(x))) count_true(x);
  int64_t size = minlength;
  if (x.numel() != 0) size = std::max(size, room_for(list));
  if (!weights.defined()) {
    const Tensor counts = zeros(size, counting(x));
    if (const auto kernel = kernels(counts.raw_view()).bincount; kernel != nullptr) {
      kernel(counts.raw_view(), list.raw_view());
      return counts;
    }
    return index_add(counts, 0, list, ones(1, counting(x)).expand(x.shape()));
  }
  const Tensor terms = weights.dtype() == DType::f32 ? weights : weights.to(DType::f64);
  return index_add(zeros(size, {terms.dtype(), x.device()}), 0, list, terms);
}

Tensor one_hot(const Tensor& indices, int64_t classes, Location where) {
  const CallScope call("one_hot", where);
  const Tensor at = checked_index(checked(indices), indices);
  const bool meta = is_meta(indices);
  if (classes == -1) {
    if (WEFT_UNLIKELY(meta)) count_true(indices);
    if (indices.numel() == 0) {
      raise<ValueError>({.problem = "no index says how many classes there are", .remedy = "give the number"});
    }
    classes = room_for(at);
  } else if (classes < 0) {
    raise<ValueError>({.problem = "the number of classes cannot be negative"});
  }
  Dims shape = indices.shape();
  shape.push_back(classes);
  const Tensor out = zeros(shape, counting(indices));
  if (at.numel() == 0) return out;
  if (WEFT_LIKELY(!meta)) check_from_zero(at);
  const Tensor one = ones({}, counting(indices)), column = at.unsqueeze(-1);
  WEFT_KERNEL(scatter, out)
  (Scatter::sum, out.raw_view(), out.dim() - 1, column.raw_view(), broadcast_view(one.raw_view(), column.sizes()));
  return out;
}

// ---- places ---------------------------------------------------------------------------------------------------------

namespace {

// `sorted` in ascending order.
Tensor ordered(const Tensor& sorted, const Tensor& sorter) {
  if (!sorter.defined()) return sorted;
  if (WEFT_UNLIKELY(!std::ranges::equal(sorter.sizes(), sorted.sizes()))) {
    raise_shapes(fmt::format("a sorter of shape {} for {}", sorter.shape().text(), sorted.shape().text()),
                 "both have one shape");
  }
  return gather(sorted, -1, sorter);
}

Tensor places(const Tensor& sorted, const Tensor& x, bool right);

// The place of a number beyond `dtype` is that of one which it holds.
Tensor place_of_number(const Tensor& sorted, const Tensor& number, bool right) {
  Scalar value = number.item_scalar();
  if (is_whole(sorted.dtype()) && value.is_floating() && std::isnan(value.to<double>())) value = HUGE_VAL;
  const Comparison smaller = exact_in(sorted.dtype(), right ? CompareOp::le : CompareOp::lt, value);
  const Tensor wide = sorted.to(compute_type(sorted.dtype()));
  return places(wide, full({}, smaller.number, {wide.dtype(), wide.device()}), smaller.op == CompareOp::le);
}

// By integers of 64 bits, of which only those that x's numbers fall between are looked for.
Tensor places_among_whole(const Tensor& sorted, const Tensor& x, bool right) {
  const DType wide = sorted.dtype() == DType::u64 ? DType::u64 : DType::i64;
  const Tensor next = is_whole(x.dtype()) ? x : right ? floor(x) : ceil(x);
  const Tensor below = wide == DType::u64 ? next < 0 : next < std::numeric_limits<int64_t>::min();
  const Tensor above = next > (wide == DType::u64 ? Scalar(std::numeric_limits<uint64_t>::max())
                                                  : Scalar(std::numeric_limits<int64_t>::max()));
  const Tensor beyond = logical_or(above, isnan(next));
  const Tensor inside = masked_fill(next, logical_or(below, beyond), 0).to(wide);
  return masked_fill(masked_fill(places(sorted.to(wide), inside, right), below, 0), beyond, sorted.size(-1));
}

// The neighbouring floats of x: a value below an integer between two floats is not above the lower one.
Tensor places_among_floats(const Tensor& sorted, const Tensor& x, bool right) {
  const Tensor converted = x.to(sorted.dtype());
  const Tensor after = right ? converted <= x : converted < x;
  return where(after, places(sorted, converted, true), places(sorted, converted, false));
}

Tensor places(const Tensor& sorted, const Tensor& x, bool right) {
  if (x.dtype() != sorted.dtype()) {
    if (const auto common = exact_type(sorted.dtype(), x.dtype())) {
      return places(sorted.to(*common), x.to(*common), right);
    }
    return is_whole(sorted.dtype()) ? places_among_whole(sorted, x, right) : places_among_floats(sorted, x, right);
  }
  const Tensor out = make(x.sizes(), DType::i64, x.device());
  if (out.numel() != 0) {
    WEFT_KERNEL(searchsorted, out)
    (at_least_1d(out.raw_view()), sorted.raw_view(), at_least_1d(x.raw_view()), right);
  }
  return out;
}

Tensor places(const Tensor& given_sorted, const Operand& values, const SearchOptions& options) {
  const NoGradGuard unrecorded;
  const Tensor sorted = ordered(checked(given_sorted), options.sorter);
  const Tensor& x = checked(values.tensor());
  const bool is_number = x.impl()->wrapped_number;
  if (!is_number) check_same_device({&sorted, &x});
  refuse_complex(sorted), refuse_complex(x);
  bool fits = sorted.dim() >= 1 && (sorted.dim() == 1 || sorted.dim() == x.dim());
  for (int i = 0; fits && i + 1 < sorted.dim(); ++i) fits = sorted.sizes()[i] == x.sizes()[i];
  if (WEFT_UNLIKELY(!fits)) {
    raise_shapes(fmt::format("values of shape {} have no place in {}", x.shape().text(), sorted.shape().text()),
                 "the sorted tensor is 1-d, or has the sizes of the values but for the last");
  }
  if (options.out_int32 && sorted.sizes().back() > std::numeric_limits<int32_t>::max()) {
    raise<ValueError>({.problem = fmt::format("places among {} elements do not fit int32", sorted.sizes().back())});
  }
  const Tensor out = is_number ? place_of_number(sorted, x, options.right) : places(sorted, x, options.right);
  return options.out_int32 ? out.to(DType::i32) : out;
}

}  // namespace

Tensor searchsorted(const Tensor& sorted, const Operand& values, const SearchOptions& options) {
  const CallScope call("searchsorted", values.where);
  return places(sorted, values, options);
}

Tensor bucketize(const Operand& values, const Tensor& boundaries, bool right, bool out_int32) {
  const CallScope call("bucketize", values.where);
  expect_rank("boundaries", checked(boundaries), 1);
  return places(boundaries, values, {right, out_int32});
}

namespace {

Tensor found_in(const Tensor& x, const Tensor& among);

// Integers of 64 bits with floats or with those of the other sign: as integers, where they are.
Tensor found_among_whole(const Tensor& x, const Tensor& among) {
  const bool is_natural = x.dtype() == DType::u64 || among.dtype() == DType::u64;
  const DType wide = is_natural ? DType::u64 : DType::i64;
  const Scalar low = is_natural ? Scalar(0) : Scalar(std::numeric_limits<int64_t>::min());
  const Scalar high =
      is_natural ? Scalar(std::numeric_limits<uint64_t>::max()) : Scalar(std::numeric_limits<int64_t>::max());
  const auto fits = [&](const Tensor& t) {
    const Tensor inside = logical_and(t >= low, t <= high);
    return is_whole(t.dtype()) ? inside : logical_and(inside, floor(t) == t);
  };
  const Tensor own = fits(x);
  return logical_and(
      own, found_in(masked_fill(x, logical_not(own), 0).to(wide), masked_select(among, fits(among)).to(wide)));
}

Tensor found_in(const Tensor& x, const Tensor& among) {
  if (among.numel() == 0) return zeros(x.shape(), {DType::boolean, x.device()});
  if (x.dtype() != among.dtype() || x.dtype() == DType::boolean) {
    const bool floats = !is_whole(x.dtype()) && !is_whole(among.dtype());
    const auto common = floats ? result_type(x, among) : exact_type(x.dtype(), among.dtype());
    if (!common) return found_among_whole(x, among);
    const DType dtype = *common == DType::boolean ? DType::u8 : *common;
    return found_in(x.to(dtype), among.to(dtype));
  }
  const Tensor sorted = sorted_list(among, nullptr);
  const Tensor place = minimum(searchsorted(sorted, x), among.numel() - 1);
  return take(sorted, place) == x;
}

}  // namespace

Tensor isin(const Operand& elements, const Operand& tests, bool invert) {
  const CallScope call("isin", elements.where);
  const Tensor &x = checked(elements.tensor()), &among = checked(tests.tensor());
  const NoGradGuard unrecorded;
  const bool has_number = x.impl()->wrapped_number || among.impl()->wrapped_number;
  if (!has_number) check_same_device({&x, &among});
  const Tensor found = !has_number                    ? found_in(x.detach(), among.detach().reshape({-1}))
                       : among.impl()->wrapped_number ? x == among
                                                      : any(x == among);
  return invert ? logical_not(found) : found;
}

namespace {

std::vector<Values> consecutive_samples(SampleMaker& make) {
  const Tensor repeated = index_select(make.tensor({4, 2}), 0, tensor({2, 0, 0, 3, 2}).to(make.device()));
  return {{repeated, true, true},
          {repeated, true, true, int64_t{0}},
          {repeated.t(), true, false, int64_t{1}},
          {make.tensor({}), true, true},
          {make.tensor({0}), true, true}};
}
std::vector<Values> unique_samples(SampleMaker& make) {
  std::vector<Values> samples;
  for (const Values& values : consecutive_samples(make)) {
    Values wide = {values[0], samples.size() % 2 == 0};
    wide.insert(wide.end(), values.begin() + 1, values.end());
    samples.push_back(std::move(wide));
  }
  return samples;
}

std::vector<Values> bincount_samples(SampleMaker& make) {
  return {{make.indices({7}, 4)},
          {make.indices({7}, 4), make.tensor({7}), int64_t{9}},
          {make.indices({0}, 4), std::monostate{}, int64_t{3}}};
}

std::vector<Values> one_hot_samples(SampleMaker& make) {
  return {{make.indices({2, 3}, 4), int64_t{4}}, {make.indices({}, 3), int64_t{3}}, {make.indices({0}, 3), int64_t{3}}};
}

// Of the sample's dtype, in ascending order.
Tensor ascending(SampleMaker& make, int64_t count) { return arange(0, count, 1, {make.dtype(), make.device()}); }
std::vector<Values> searchsorted_samples(SampleMaker& make) {
  return {{ascending(make, 4), make.tensor({2, 3})},
          {ascending(make, 4), make.tensor({}), true},
          {ascending(make, 3).expand({2, 3}), make.tensor({2, 4}), true},
          {ascending(make, 4), make.tensor({2, 3}), std::monostate{}, "right", true},
          {flip(ascending(make, 4), 0), make.tensor({3}), false, "left", false, arange(3, -1, -1).to(make.device())},
          {ascending(make, 0), make.tensor({3})},
          {ascending(make, 4), make.tensor({0, 2})}};
}
std::vector<Values> bucketize_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), ascending(make, 4)},
          {int64_t{2}, ascending(make, 4), true},
          {make.tensor({3}), ascending(make, 4), true, true}};
}

std::vector<Tensor> listed(const Unique& found) {
  std::vector<Tensor> out = {found.values};
  if (found.inverse.defined()) out.push_back(found.inverse);
  if (found.counts.defined()) out.push_back(found.counts);
  return out;
}
// Ascending order is one that unsorted results may have.
std::vector<Tensor> call_unique(const Tensor& x, bool /*sorted*/, bool inverse, bool counts,
                                std::optional<int64_t> dim) {
  return listed(unique(x, {inverse, counts, dim}));
}
std::vector<Tensor> call_unique_consecutive(const Tensor& x, bool inverse, bool counts, std::optional<int64_t> dim) {
  return listed(unique_consecutive(x, {inverse, counts, dim}));
}
bool on_the_right(bool right, const std::optional<std::string>& side) {
  if (!side) return right;
  const auto refuse = [](const std::string& problem) { raise<ValueError>({.problem = problem}); };
  if (*side != "left" && *side != "right") {
    raise_value("side", "'left' or 'right'", in_quotes(*side));
  }
  if (right && *side == "left") refuse("arguments 'right' and 'side' contradict each other");
  return *side == "right";
}
Tensor call_searchsorted(const Tensor& sorted, const Operand& values, bool right,
                         const std::optional<std::string>& side, bool out_int32, const Tensor& sorter) {
  return searchsorted(sorted, values, {on_the_right(right, side), out_int32, sorter});
}

Tensor call_isin(const Operand& elements, const Operand& tests, bool /*assume_unique*/, bool invert) {
  return isin(elements, tests, invert);
}
std::vector<Values> isin_samples(SampleMaker& make) {
  const Tensor x = make.tensor({2, 3});
  return {{x, x.select(1, 0)},
          {x, make.tensor({4}), true},
          {x, x.select(1, 2), false, true},
          {x, int64_t{1}},
          {int64_t{1}, x},
          {make.tensor({}), x},
          {x, make.tensor({0})},
          {make.tensor({0, 2}), x}};
}

Partition marked(const WholeCall& call) {
  const std::string word = parts::letters(call.results().at(0).dim() - 1);
  return {.letters = word + "->" + word + "1"};
}

/// The elements of the first tensor by themselves, beside all of the other one.
template <size_t other>
Partition compared_with(const WholeCall& call) {
  const std::vector<Tensor>& inputs = call.inputs();
  if (inputs.size() <= other || !call.tensor(call.record().signature().arguments[0].name).defined()) {
    return parts::whole(call);
  }
  const std::string word = parts::letters(inputs[0].dim());
  return {.letters = parts::notation({word, parts::uncut(inputs[other])}, {word})};
}

Partition searched(const WholeCall& call) {
  const Tensor sorted = call.tensor("sorted"), values = call.tensor("values");
  if (!values.defined()) return parts::whole(call);
  std::string rows = parts::letters(sorted.dim()), word = parts::letters(values.dim());
  rows.back() = '1';
  if (sorted.dim() > 1) word.back() = 'z';
  std::vector<std::string> words{sorted.dim() > 1 ? rows : "1", word};
  if (call.tensor("sorter").defined()) words.push_back(words[0]);
  return {.letters = parts::notation(words, std::vector{word})};
}

constexpr auto any_type = OpRecord::Domain::any;
constexpr auto numeric = OpRecord::Domain::numeric;
constexpr OpRecord set_op_records[] = {
    {"unique", "unique(x, sorted=True, return_inverse=False, return_counts=False, dim=None)",
     "The distinct elements in ascending order, or the distinct slices along dim; where asked for, also the place of "
     "each element among them and how often each occurs. They are ascending without `sorted`, too.",
     OpFacts(false, OpFacts::reads_values), any_type, unique_samples, parts::whole, detail::boxed<&call_unique>},
    {"unique_consecutive", "unique_consecutive(x, return_inverse=False, return_counts=False, dim=None)",
     "As unique without sorting: of equal neighbours only the first stays.", OpFacts(false, OpFacts::reads_values),
     any_type, consecutive_samples, parts::whole, detail::boxed<&call_unique_consecutive>},
    {"bincount", "bincount(x, weights=None, minlength=0)",
     "How often each number occurs in x (1-d, integers >= 0), or the sum of its weights.",
     OpFacts(true, OpFacts::reads_values), numeric, bincount_samples, parts::whole, detail::boxed<&weft::bincount>},
    {"one_hot", "one_hot(indices|tensor, classes|num_classes=-1)", "i64 [..., classes]: 1 at each index, else 0.",
     OpFacts(false, OpFacts::reads_values), any_type, one_hot_samples, marked, detail::boxed<&weft::one_hot>},
    {"searchsorted",
     "searchsorted(sorted|sorted_sequence, values|input, right=False, *, side=None, out_int32=False, sorter=None)",
     "Where each value would go into a sorted list so that it stays sorted, before equal elements or after them: i64, "
     "or i32 with out_int32. sorter holds the order in which the list is ascending.",
     false, numeric, searchsorted_samples, searched, detail::boxed<&call_searchsorted>},
    {"bucketize", "bucketize(values, boundaries, right=False, *, out_int32=False)",
     "searchsorted with the operands exchanged, for 1-d boundaries.", false, numeric, bucketize_samples,
     compared_with<1>, detail::boxed<&weft::bucketize>},
    {"isin", "isin(elements, test_elements, *, assume_unique=False, invert=False)",
     "Which elements are among test_elements, or with invert are not: bool. Either may be a number. assume_unique "
     "changes nothing.",
     false, any_type, isin_samples, compared_with<1>, detail::boxed<&call_isin>},
};

}  // namespace

std::span<const OpRecord> search_records() { return set_op_records; }

}  // namespace weft
