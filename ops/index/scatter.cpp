// Reading and writing elements that an index moves along one dimension.
//
// If destinations may repeat, only the value that remains has a gradient. The backward of a write finds it with the
// kernel of the write: each position writes its number, and positions that read back their own number keep the
// gradient.
#include "../scatter.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "../create.hpp"
#include "../detail/indices.hpp"
#include "../detail/records.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../../tensor/capture_recorder.hpp"
#include "../../tensor/threads.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

// ---- operands -------------------------------------------------------------------------------------------------------

void check_ranks(const Tensor& x, const Tensor& index) {
  if (WEFT_LIKELY(x.dim() == index.dim())) return;
  raise_shapes(fmt::format("the index has rank {}, the data {}: shapes {} and {}", index.dim(), x.dim(),
                           index.shape().text(), x.shape().text()),
               "gather and scatter need equal ranks");
}

void check_within(const Tensor& index, const Tensor& bound, int except) {
  for (int i = 0; i < index.dim(); ++i) {
    if (i == except || index.sizes()[i] <= bound.sizes()[i]) continue;
    raise_shapes(fmt::format("an index of shape {} is larger than {} in dimension {}", index.shape().text(),
                             bound.shape().text(), i),
                 "narrow the index");
  }
}

// The first sizes[i] elements along each dimension.
View corner(const View& view, std::span<const int64_t> sizes) {
  View part = view;
  std::copy(sizes.begin(), sizes.end(), part.layout.sizes);
  finish_layout(part.layout);
  return part;
}

/// A number counts as a list of one beside a list.
Tensor beside(const Tensor& t, const Tensor& other) { return t.dim() == 0 && other.dim() == 1 ? t.reshape({1}) : t; }

struct Scattered {
  int dim;
  Tensor index, source;
};

// Operands checked; the source is cut to the index's shape (recorded, so its gradient is whole).
Scattered checked_scatter(const Tensor& x, int dim, const Tensor& index, const Tensor& source) {
  checked(x);
  checked(source);
  Scattered s{wrap_dim(dim, x.dim()), checked_index(index, x), source};
  check_source(x, source);
  if (WEFT_UNLIKELY(s.index.numel() == 0 && s.index.dim() != x.dim())) {  // of any rank: it moves nothing
    Dims none = x.dim() == 0 ? Dims(0) : x.shape();
    none[s.dim] = 0;
    s.index = make(none, s.index.dtype(), x.device());
    s.source = make(none, x.dtype(), x.device());
    return s;
  }
  s.index = beside(s.index, x);
  s.source = beside(source, s.index);
  const Tensor target = beside(x, s.index);
  check_ranks(target, s.index);
  check_ranks(s.source, s.index);
  check_within(s.index, s.source, -1);
  if (s.index.numel() != 0) check_within(s.index, target, s.dim);
  for (int i = 0; i < s.source.dim(); ++i) {
    if (s.source.sizes()[i] != s.index.sizes()[i]) s.source = s.source.narrow(i, 0, s.index.sizes()[i]);
  }
  return s;
}

// One value for every place: a C++ number or 0-d tensor, in x's dtype; undefined where the source is a tensor.
Tensor one_value(const Tensor& x, const Operand& source) {
  const Tensor& value = checked(source.tensor());
  const bool number = value.impl()->wrapped_number;
  if (!number && value.dim() != 0) return {};
  if (!number) check_source(checked(x), value);
  return fill_value(checked(x), source);
}

// ---- kernels --------------------------------------------------------------------------------------------------------

void run_scatter(Scatter mode, const Tensor& out, int dim, const Tensor& index, const View& source) {
  if (index.numel() == 0) return;
  WEFT_KERNEL(scatter, out)
  (mode, at_least_1d(out.raw_view()), dim, at_least_1d(index.raw_view()), at_least_1d(source));
}

Tensor gather_elements(const Tensor& x, int dim, const Tensor& index);

struct GatherBackward {
  Dims shape;
  int dim;
  Saved index;

  Tensor operator()(Node& self, Tensor&& g) {
    Tensor out = zero_target(shape, g);
    if (WEFT_UNLIKELY(recording())) return scatter_add(out, dim, index.get(self), g);
    run_scatter(Scatter::sum, out, dim, index.get(self), g.raw_view());
    return out;
  }
};

Tensor gather_elements(const Tensor& x, int dim, const Tensor& index) {
  if (WEFT_LIKELY(index.numel() != 0)) check_ranks(x, index);
  const bool lists = x.dim() <= 1;
  if (!lists && index.numel() != 0) check_within(index, x, dim);
  Tensor out = make(index.sizes(), x.dtype(), x.device());
  if (index.numel() != 0) {
    const auto kernel = WEFT_KERNEL(gather, out);
    if (lists) {
      kernel(out.raw_view(), x.raw_view(), dim, index.raw_view());
    } else {
      Dims sizes = index.shape();
      sizes[dim] = x.sizes()[static_cast<size_t>(dim)];
      kernel(out.raw_view(), corner(x.raw_view(), sizes), dim, index.raw_view());
    }
  }
  if (should_record(x)) record(out, GatherBackward{x.shape(), dim, Saved(index)}, x);
  return out;
}

// ---- scatter and scatter_add ----------------------------------------------------------------------------------------

struct AddBackward {
  int dim;
  Saved index;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    if (self.wants(1)) outgoing[1] = gather(incoming[0], dim, index.get(self));
    if (self.wants(0)) outgoing[0] = std::move(incoming[0]);
  }
};

struct ReplaceBackward {
  int dim;
  Saved index;

  Tensor of_source(Node& self, const Tensor& g) {
    const Tensor at = index.get(self), last = last_of_duplicates(size_along(g, dim), dim, at);
    const Tensor all = gather(g, dim, at);
    return last.defined() ? where(last, all, 0) : all;
  }
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    if (self.wants(1)) outgoing[1] = of_source(self, incoming[0]);
    if (self.wants(0)) outgoing[0] = scatter(incoming[0], dim, index.get(self), 0);
  }
};

Tensor scattered_copy(Scatter mode, const Tensor& x, const Scattered& s) {
  if (kernels(x.raw_view()).scatter_copy == nullptr) {
    Tensor out = target_copy(x);
    run_scatter(mode, out, s.dim, s.index, s.source.raw_view());
    return out;
  }
  Tensor out = make_like(x);
  WEFT_KERNEL(scatter_copy, x)
  (mode, at_least_1d(out.raw_view()), at_least_1d(x.raw_view()), s.dim, at_least_1d(s.index.raw_view()),
   at_least_1d(s.source.raw_view()));
  return out;
}

template <class Backward>
Tensor scattered(Scatter mode, const Tensor& x, const Scattered& s) {
  Tensor out = scattered_copy(mode, x, s);
  if (should_record(x, s.source)) record(out, Backward{s.dim, Saved(s.index)}, x, s.source);
  return out;
}

template <class Backward>
const Tensor& scattered_in_place(Scatter mode, const Tensor& x, const Scattered& s) {
  check_target(x);
  const Tensor index = unaliased(s.index, x), source = unaliased(s.source, x);
  write_recorded(
      x, [&] { run_scatter(mode, x, s.dim, index, source.raw_view()); },
      [&] {
        return Backward{s.dim, Saved(index)};
      },
      x, s.source);
  return x;
}

// ---- scatter_reduce -------------------------------------------------------------------------------------------------

// The initial value of a reduction without x.
Scalar identity(ScatterReduction how, DType dtype) {
  if (how == ScatterReduction::sum || how == ScatterReduction::mean) return 0;
  if (how == ScatterReduction::prod) return 1;
  const bool least = how == ScatterReduction::amax;
  return visit_dtype(dtype, [&]<class T>() -> Scalar {
    if constexpr (std::is_integral_v<T>) {
      return least ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
    } else {
      return least ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    }
  });
}

Scatter mode_of(ScatterReduction how) {
  constexpr Scatter modes[] = {Scatter::sum, Scatter::prod, Scatter::sum, Scatter::max, Scatter::min};
  return modes[static_cast<int>(how)];
}

// How many values each place of `like` is a mean of, at least 1.
Tensor counts_at(const Tensor& like, DType dtype, int dim, const Tensor& index, bool include_self) {
  const TensorOptions options{dtype, like.device()};
  const Tensor start = full(like.shape(), include_self ? 1 : 0, options);
  return maximum(scatter_add(start, dim, index, ones(index.shape(), options)), 1);
}

Tensor reduced_into(const Tensor& x, const Scattered& s, ScatterReduction how, bool include_self) {
  NoGradGuard unrecorded;
  const bool mean = how == ScatterReduction::mean;
  const DType dtype = !mean ? x.dtype() : is_inexact(x.dtype()) ? compute_type(x.dtype()) : sum_type(x);
  const Tensor out = dtype == x.dtype() ? target_copy(x) : x.to(dtype);
  if (!include_self) {
    const Tensor start = full(s.index.shape(), identity(how, dtype), {dtype, x.device()});
    run_scatter(Scatter::replace, out, s.dim, s.index, start.raw_view());
  }
  run_scatter(mode_of(how), out, s.dim, s.index, s.source.to(dtype).raw_view());
  if (!mean) return out;
  const Tensor count = counts_at(out, dtype, s.dim, s.index, include_self);
  const Tensor average = is_inexact(dtype) ? out / count : floor_divide(out, count);
  return average.to(x.dtype());
}

struct ReduceBackward {
  ScatterReduction how;
  bool include_self;
  int dim;
  Saved index, x, source;
  SavedOutput result;

  SavedOutput* new_value() { return x.defined() ? &result : nullptr; }
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const DType dtype = incoming[0].dtype();
    const Tensor g = to_compute_type(incoming[0]);
    std::pair<Tensor, Tensor> gradients = how == ScatterReduction::prod ? of_product(self, g)
                                          : x.defined()                 ? of_extreme(self, g)
                                                                        : of_sum(self, g);
    if (self.wants(0)) outgoing[0] = gradients.first.to(dtype);
    if (self.wants(1)) outgoing[1] = gradients.second.to(dtype);
  }

 private:
  Tensor at_source(Node& self, const Tensor& t) { return gather(t, dim, index.get(self)); }
  // 0 where the old value was not included.
  Tensor of_kept(Node& self, const Tensor& g) {
    return include_self || !self.wants(0) ? g : scatter(g, dim, index.get(self), 0);
  }

  std::pair<Tensor, Tensor> of_sum(Node& self, Tensor g) {
    if (how == ScatterReduction::mean) g = g / counts_at(g, g.dtype(), dim, index.get(self), include_self);
    return {of_kept(self, g), self.wants(1) ? at_source(self, g) : Tensor()};
  }

  std::pair<Tensor, Tensor> of_extreme(Node& self, const Tensor& g) {
    const auto equal = [&](const Tensor& a, const Tensor& b) {  // NaN is the extreme where there is one
      return logical_or(a == b, logical_and(isnan(a), isnan(b))).to(g.dtype());
    };
    const Tensor extreme = result.get(self).detach();
    const Tensor own = of_kept(self, equal(x.get(self), extreme));
    const Tensor given = equal(source.get(self), at_source(self, extreme));
    const Tensor share = g / scatter_add(own, dim, index.get(self), given);
    const auto chosen = [&](const Tensor& hit, const Tensor& t) { return where(hit != 0, t, 0); };
    return {chosen(own, share), self.wants(1) ? chosen(given, at_source(self, share)) : Tensor()};
  }

  std::pair<Tensor, Tensor> of_product(Node& self, const Tensor& g) {
    const auto product = [&](const Tensor& start, const Tensor& factors, bool with_start) {
      return scatter_reduce(start, dim, index.get(self), factors, ScatterReduction::prod, with_start);
    };
    const Tensor factors = to_compute_type(source.get(self)), old = to_compute_type(x.get(self));
    std::pair<Tensor, Tensor> out;
    if (self.wants(0)) out.first = of_kept(self, g * product(ones_like(g), factors, true));
    if (!self.wants(1)) return out;
    const Tensor zero = factors == 0;
    const Tensor zeros_there = scatter_add(zeros_like(g), dim, index.get(self), zero.to(g.dtype()));
    const Tensor zero_count = at_source(self, zeros_there);
    if (recording() && any(zero_count > 1).item<bool>()) {
      raise<AutogradError>({.problem = "the gradient of a product cannot be recorded where two of its factors are 0"});
    }
    // A factor that alone is 0 sees the product of the others, any other one the whole product without itself.
    const Tensor nonzero = where(zero, 1, factors);
    const Tensor rest = at_source(self, product(old, nonzero, include_self));
    const Tensor whole = at_source(self, to_compute_type(result.get(self)));
    const Tensor alone = logical_and(zero, zero_count == 1);
    out.second = at_source(self, g) * where(alone, rest, whole / nonzero);
    return out;
  }
};

ReduceBackward reduce_backward(const Tensor& old, const Scattered& s, ScatterReduction how, bool include_self) {
  const bool reads = how != ScatterReduction::sum && how != ScatterReduction::mean;
  return {how, include_self, s.dim, Saved(s.index), reads ? Saved(old) : Saved(), reads ? Saved(s.source) : Saved(),
          {}};
}

}  // namespace

Tensor from_beginning(const Tensor& index, int64_t size) {
  const NoGradGuard unrecorded;
  if (index.numel() == 0 || (reads_indices(index) && min(index).item<int64_t>() >= 0)) return index;
  const Tensor wide = size > std::numeric_limits<int32_t>::max() ? index.to(DType::i64) : index, moved = wide + size;
  return weft::where(logical_and(wide < 0, moved >= 0), moved, wide);
}

namespace {

// Of contiguous indices [outer, count, inner] below size: marks the last of each in its line. Whether one repeats.
template <class I>
bool mark_last(bool* last, const I* index, int64_t outer, int64_t count, int64_t inner, int64_t size) {
  std::vector<uint64_t> seen(static_cast<size_t>(size * inner / 64 + 1));
  bool repeats = false;
  for (int64_t o = 0; o < outer; ++o, index += count * inner, last += count * inner) {
    std::ranges::fill(seen, 0);
    for (int64_t i = count - 1; i >= 0; --i) {
      for (int64_t c = 0; c < inner; ++c) {
        const auto place = static_cast<uint64_t>(index[i * inner + c] * inner + c);
        const uint64_t word = seen[place / 64], bit = uint64_t{1} << place % 64;
        last[i * inner + c] = (word & bit) == 0;
        repeats |= (word & bit) != 0;
        seen[place / 64] = word | bit;
      }
    }
  }
  return repeats;
}

Tensor last_on_host(int64_t size, int dim, const Tensor& index) {
  Tensor once = index.detach();
  for (int d = 0; d < index.dim(); ++d) {
    if (d != dim && index.stride(d) == 0 && index.size(d) > 1) once = once.narrow(d, 0, 1);
  }
  once = once.contiguous();
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < once.dim(); ++d) (d < dim ? outer : inner) *= d == dim ? 1 : once.size(d);
  const Tensor last = make(once.sizes(), DType::boolean, Device());
  bool* const marks = static_cast<bool*>(last.raw_view().data);
  const int64_t count = once.size(dim);
  const bool repeats = visit_dtype(once.dtype(), [&]<class I>() {
    if constexpr (!std::is_same_v<I, int32_t> && !std::is_same_v<I, int64_t>) return true;
    else return mark_last(marks, static_cast<const I*>(once.raw_view().data), outer, count, inner, size);
  });
  return repeats ? last : Tensor();
}

}  // namespace

bool reads_indices(const Tensor& index) { return index.device().is_cpu() && detail::capture_recorder == nullptr; }

// Every element puts its number; the number that is found there is the last one's.
Tensor last_of_duplicates(int64_t size, int dim, const Tensor& index) {
  constexpr int64_t most_bits = 64;  // for each index
  const NoGradGuard unrecorded;
  const int64_t count = size_along(index, dim);
  if (count <= 1 || index.numel() == 0) return {};
  if (reads_indices(index) && size <= most_bits * count) return last_on_host(size, dim, index);
  Dims line = Dims::filled(index.dim(), 1), places = index.shape();
  line[dim] = count;
  places[dim] = size;
  const DType type = count <= std::numeric_limits<int32_t>::max() ? DType::i32 : DType::i64;
  const Tensor number = arange(0, count, 1, {type, index.device()}).view(line);
  const Tensor last = make(places, type, index.device());
  run_scatter(Scatter::replace, last, dim, index, broadcast_view(number.raw_view(), index.sizes()));
  return gather(last, dim, index) == number;
}

Tensor gather(const Tensor& x, int dim, const Tensor& index, Location where) {
  const CallScope call("gather", where);
  checked(x);
  const int d = wrap_dim(dim, x.dim());
  const Tensor at = checked_index(index, x), out = gather_elements(beside(x, at), d, beside(at, x));
  return at.dim() == 0 && x.dim() == 1 ? out.reshape({}) : out;
}

Tensor take_along_dim(const Tensor& x, const Tensor& indices, std::optional<int64_t> dim, Location where) {
  const CallScope call("take_along_dim", where);
  checked(x);
  checked(indices);
  if (!dim) return take_along_dim(x.reshape({-1}), indices.reshape({-1}), 0);
  check_ranks(x, indices);
  const int d = wrap_dim(*dim, x.dim());
  const Tensor at = from_beginning(checked_index(indices, x), size_along(x, d));
  if (x.dim() == 0) return gather_elements(x, 0, at);
  Dims x_shape = x.shape(), index_shape = at.shape();
  x_shape[d] = index_shape[d] = 1;
  const auto joined = broadcast(x_shape, index_shape);
  if (!joined) {
    raise_shapes(
        fmt::format("shapes {} and {} do not broadcast outside dimension {}", x.shape().text(), at.shape().text(), d),
        "sizes must be equal or 1");
  }
  x_shape = index_shape = *joined;
  x_shape[d] = x.sizes()[static_cast<size_t>(d)];
  index_shape[d] = at.sizes()[static_cast<size_t>(d)];
  return gather_elements(x.expand(x_shape), d, at.expand(index_shape));
}

namespace {

// Where a value goes: a place named twice is there once.
Tensor filled_mask(const Tensor& x, int dim, const Tensor& index) {
  const Tensor none = zeros(x.shape(), {DType::boolean, x.device()});
  return scatter(none, dim, index, true);
}

}  // namespace

Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Operand& source) {
  const CallScope call("scatter", source.where);
  Tensor value = one_value(x, source);
  if (WEFT_UNLIKELY(value.defined() && should_record(value))) {
    return masked_fill(x, filled_mask(x, dim, index), value);
  }
  if (value.defined()) value = value.expand(checked(index).shape());
  const Tensor& from = value.defined() ? value : source.tensor();
  return scattered<ReplaceBackward>(Scatter::replace, x, checked_scatter(x, dim, index, from));
}

const Tensor& scatter_(const Tensor& x, int dim, const Tensor& index, const Operand& source) {
  const CallScope call("scatter_", source.where);
  Tensor value = one_value(x, source);
  if (WEFT_UNLIKELY(value.defined() && should_record(value))) {
    check_target(x);
    return masked_fill_(x, filled_mask(x, dim, index), value);
  }
  if (value.defined()) value = value.expand(checked(index).shape());
  const Tensor& from = value.defined() ? value : source.tensor();
  return scattered_in_place<ReplaceBackward>(Scatter::replace, x, checked_scatter(x, dim, index, from));
}

Tensor scatter_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source, Location where) {
  const CallScope call("scatter_add", where);
  return scattered<AddBackward>(Scatter::sum, x, checked_scatter(x, dim, index, source));
}
const Tensor& scatter_add_(const Tensor& x, int dim, const Tensor& index, const Tensor& source, Location where) {
  const CallScope call("scatter_add_", where);
  return scattered_in_place<AddBackward>(Scatter::sum, x, checked_scatter(x, dim, index, source));
}

Tensor scatter_reduce(const Tensor& x, int dim, const Tensor& index, const Tensor& source, ScatterReduction how,
                      bool include_self, Location where) {
  const CallScope call("scatter_reduce", where);
  const Scattered s = checked_scatter(x, dim, index, source);
  const Tensor out = reduced_into(x, s, how, include_self);
  if (!should_record(x, s.source)) return out;
  ReduceBackward backward = reduce_backward(x, s, how, include_self);
  if (SavedOutput* const kept = backward.new_value()) *kept = SavedOutput(out);
  record(out, std::move(backward), x, s.source);
  return out;
}

const Tensor& scatter_reduce_(const Tensor& x, int dim, const Tensor& index, const Tensor& source, ScatterReduction how,
                              bool include_self, Location where) {
  const CallScope call("scatter_reduce_", where);
  Scattered s = checked_scatter(x, dim, index, source);
  check_target(x);
  s.index = unaliased(s.index, x);
  if (s.source.shares_storage(x)) s.source = s.source.clone();
  const Tensor out = reduced_into(x, s, how, include_self);
  const auto write = [&] { WEFT_KERNEL(copy, x)(x.raw_view(), out.raw_view()); };
  write_recorded(
      x, write, [&] { return reduce_backward(x.clone(), s, how, include_self); }, x, s.source);
  return x;
}

namespace {

// The source of a reduction, one element for each index.
Tensor for_each_index(const Tensor& x, const Tensor& index, const Operand& source) {
  const Tensor value = one_value(x, source);
  return value.defined() ? value.expand(checked(index).shape()) : source.tensor();
}

}  // namespace

Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Operand& source, ScatterReduction reduction) {
  const CallScope call("scatter", source.where);
  return scatter_reduce(x, dim, index, for_each_index(x, index, source), reduction);
}
const Tensor& scatter_(const Tensor& x, int dim, const Tensor& index, const Operand& source,
                       ScatterReduction reduction) {
  const CallScope call("scatter_", source.where);
  return scatter_reduce_(x, dim, index, for_each_index(x, index, source), reduction);
}

namespace {

std::vector<Values> gather_samples(SampleMaker& make) {
  return {{make.tensor({3, 4}), int64_t{0}, make.indices({5, 4}, 3)},
          {make.tensor({3, 4}), int64_t{-1}, make.indices({2, 6}, 4)},
          {make.tensor({2, 3, 4}), int64_t{1}, make.indices({2, 2, 4}, 3)},
          {make.tensor({}), int64_t{0}, make.indices({}, 1)},
          {make.tensor({3, 4}), int64_t{0}, make.indices({0, 4}, 3)}};
}

std::vector<Values> take_along_dim_samples(SampleMaker& make) {
  return {{make.tensor({3, 4}), make.indices({3, 2}, 4), int64_t{1}},
          {make.tensor({3, 1}), make.indices({2, 4}, 3), int64_t{0}},
          {make.tensor({3, 2}), make.indices({2, 2}, 6)}};
}

std::vector<Values> scatter_add_samples(SampleMaker& make) {
  return {{make.tensor({3, 4}), int64_t{0}, make.indices({5, 4}, 3), make.tensor({5, 4})},
          {make.tensor({3, 4}), int64_t{1}, make.indices({2, 6}, 4), make.tensor({3, 7})},
          {make.tensor({}), int64_t{0}, make.indices({}, 1), make.tensor({})},
          {make.tensor({3, 4}), int64_t{0}, make.indices({0, 4}, 3), make.tensor({0, 4})}};
}

std::vector<Values> scatter_samples(SampleMaker& make) {
  const Tensor index = make.indices({2, 4}, 3);
  return {{make.tensor({3, 4}), int64_t{0}, index, make.tensor({2, 4})},
          {make.tensor({4, 3}), int64_t{1}, index.t(), make.tensor({5, 3})},
          {make.tensor({3, 4}), int64_t{0}, index, int64_t{1}},
          {make.tensor({3, 4}), int64_t{0}, index, make.tensor({2, 4}), "add"},
          {make.tensor({3, 4}), int64_t{0}, index, make.tensor({2, 4}), "multiply"},
          {make.tensor({3, 4}), int64_t{0}, index, int64_t{1}, "multiply"},
          {make.tensor({3, 4}), int64_t{0}, index, make.tensor({})},
          {make.tensor({}), int64_t{0}, make.indices({}, 1), make.tensor({})},
          {make.tensor({3, 4}), int64_t{0}, make.indices({0, 4}, 3), make.tensor({0, 4})}};
}

std::vector<Values> scatter_reduce_samples(SampleMaker& make) {
  std::vector<Values> samples;
  for (const char* how : {"sum", "prod", "mean", "amax", "amin"}) {
    for (const bool include_self : {true, false}) {
      samples.push_back({make.tensor({3, 4}), int64_t{0}, make.indices({4, 4}, 3), make.tensor({5, 4}, -3, 3),
                         std::string(how), include_self});
    }
  }
  samples.push_back({make.tensor({}), int64_t{0}, make.indices({}, 1), make.tensor({}), std::string("prod")});
  samples.push_back(
      {make.tensor({2, 4}), int64_t{-1}, make.indices({2, 0}, 4), make.tensor({2, 0}), std::string("amax"), false});
  return samples;
}

ScatterReduction reduction_of(const std::string& name) {
  constexpr const char* names[] = {"sum", "prod", "mean", "amax", "amin"};
  for (int i = 0; i < 5; ++i) {
    if (name == names[i]) return static_cast<ScatterReduction>(i);
  }
  raise_value("reduce", "sum, prod, mean, amax or amin", in_quotes(name));
}

Tensor call_scatter(const Tensor& x, int dim, const Tensor& index, const Operand& source,
                    const std::optional<std::string>& reduce) {
  if (!reduce) return scatter(x, dim, index, source);
  if (*reduce == "add") return scatter(x, dim, index, source, ScatterReduction::sum);
  if (*reduce == "multiply") return scatter(x, dim, index, source, ScatterReduction::prod);
  raise_value("reduce", "'add' or 'multiply'", in_quotes(*reduce));
}
Tensor call_scatter_reduce(const Tensor& x, int dim, const Tensor& index, const Tensor& source, const std::string& how,
                           bool include_self) {
  return scatter_reduce(x, dim, index, source, reduction_of(how), include_self);
}

constexpr auto any_type = OpRecord::Domain::any;
constexpr OpRecord scatter_op_records[] = {
    {"gather", "gather(x, dim, index)", "out[i][j] = x[index[i][j]][j] for dim 0, and so on; shaped as index.", true,
     any_type, gather_samples, parts::along, detail::boxed<&weft::gather>},
    {"take_along_dim", "take_along_dim(x, indices, dim=None)",
     "gather where x and indices broadcast outside dim; without one, both are seen flat.", true, any_type,
     take_along_dim_samples, parts::along, detail::boxed<&weft::take_along_dim>},
    {"scatter", "scatter(x, dim, index, source|src|value, *, reduce=None)",
     "x with source[i][j], or one value, put at [index[i][j]][j] for dim 0, and so on; of duplicates the last wins. "
     "With reduce 'add' or 'multiply' it is combined with the present element.",
     true, any_type, scatter_samples, parts::along, detail::boxed<&call_scatter>},
    {"scatter_add",
     "scatter_add(x, dim, index, source|src)",
     "x with source[i][j] added at [index[i][j]][j] for dim 0, and so on; duplicates add, in order.",
     true,
     any_type,
     scatter_add_samples,
     parts::along,
     detail::boxed<&weft::scatter_add>,
     {},
     detail::boxed<&weft::scatter_add_>},
    {"scatter_reduce", "scatter_reduce(x, dim, index, source|src, reduce, include_self=True)",
     "x with the elements of source that index brings to a place combined into it by sum, prod, mean, amax or amin.",
     true, OpRecord::Domain::numeric, scatter_reduce_samples, parts::along, detail::boxed<&call_scatter_reduce>},
};

}  // namespace

std::span<const OpRecord> scatter_records() { return scatter_op_records; }

}  // namespace weft
