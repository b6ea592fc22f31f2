// Reading and writing elements that an index moves along one dimension.
#include <weft/ops/scatter.hpp>

#include <algorithm>
#include <limits>

#include <weft/ops/create.hpp>
#include <weft/ops/detail/indices.hpp>
#include <weft/ops/detail/records.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/threads.hpp>

namespace weft {

namespace {

// ---- operands -------------------------------------------------------------------------------------------------------

void check_ranks(const char* op, const Tensor& x, const Tensor& index, Location where) {
  if (WEFT_LIKELY(x.dim() == index.dim())) return;
  raise_shapes(op,
               fmt::format("the index has rank {}, the data {}: shapes {} and {}", index.dim(), x.dim(),
                           index.shape().text(), x.shape().text()),
               "gather and scatter need equal ranks", where);
}

void check_within(const char* op, const Tensor& index, const Tensor& bound, int except, Location where) {
  for (int i = 0; i < index.dim(); ++i) {
    if (i == except || index.sizes()[i] <= bound.sizes()[i]) continue;
    raise_shapes(op,
                 fmt::format("an index of shape {} is larger than {} in dimension {}", index.shape().text(),
                             bound.shape().text(), i),
                 "narrow the index", where);
  }
}

// The first sizes[i] elements along each dimension.
View corner(const View& view, std::span<const int64_t> sizes) {
  View part = view;
  std::copy(sizes.begin(), sizes.end(), part.layout.sizes);
  finish_layout(part.layout);
  return part;
}

struct Scattered {
  int dim;
  Tensor index, source;
};

// Operands checked; the source is cut to the index's shape (recorded, so its gradient is whole).
Scattered checked_scatter(const char* op, const Tensor& x, int dim, const Tensor& index, const Tensor& source,
                          Location where) {
  checked(x, op, where);
  checked(source, op, where);
  Scattered s{wrap_dim(dim, x.dim(), op, where), checked_index(op, index, x, where), source};
  check_source(op, x, source, where);
  if (WEFT_UNLIKELY(s.index.numel() == 0 && s.index.dim() != x.dim())) {  // of any rank: it moves nothing
    Dims none = x.dim() == 0 ? Dims(0) : x.shape();
    none[s.dim] = 0;
    s.index = make(none, s.index.dtype(), x.device(), op, where);
    s.source = make(none, x.dtype(), x.device(), op, where);
    return s;
  }
  check_ranks(op, x, s.index, where);
  check_ranks(op, source, s.index, where);
  check_within(op, s.index, source, -1, where);
  if (s.index.numel() != 0) check_within(op, s.index, x, s.dim, where);
  for (int i = 0; i < source.dim(); ++i) {
    if (source.sizes()[i] != s.index.sizes()[i]) s.source = s.source.narrow(i, 0, s.index.sizes()[i], where);
  }
  return s;
}

// One value for every place: a C++ number or 0-d tensor, in x's dtype; undefined where the source is a tensor.
Tensor one_value(const char* op, const Tensor& x, const Operand& source, Location where) {
  const Tensor& value = checked(source.tensor(), op, where);
  const bool number = value.impl()->wrapped_number;
  if (!number && value.dim() != 0) return {};
  if (!number) check_source(op, checked(x, op, where), value, where);
  return fill_value(op, checked(x, op, where), source, where);
}

// ---- kernels --------------------------------------------------------------------------------------------------------

void run_scatter(Scatter mode, const Tensor& out, int dim, const Tensor& index, const View& source, const char* op,
                 Location where) {
  if (index.numel() == 0) return;
  CallScope scope(op, where);
  WEFT_KERNEL_FOR(scatter, out, op, where)(mode, out.raw_view(), dim, index.raw_view(), source);
}

Tensor gather_elements(const char* op, const Tensor& x, int dim, const Tensor& index, Location where);

struct GatherFormula {
  Dims shape;
  int dim;
  Saved index;

  Tensor operator()(Node& self, Tensor&& g) {
    Tensor out = zero_target(shape, g, self.op, self.where);
    if (WEFT_UNLIKELY(recording())) return scatter_add(out, dim, index.get(self), g, self.where);
    run_scatter(Scatter::sum, out, dim, index.get(self), g.raw_view(), self.op, self.where);
    return out;
  }
};

Tensor gather_elements(const char* op, const Tensor& x, int dim, const Tensor& index, Location where) {
  if (WEFT_LIKELY(index.numel() != 0)) check_ranks(op, x, index, where);
  const bool lists = x.dim() <= 1;
  if (!lists && index.numel() != 0) check_within(op, index, x, dim, where);
  Tensor out = make(index.sizes(), x.dtype(), x.device(), op, where);
  if (index.numel() != 0) {
    CallScope scope(op, where);
    const auto kernel = WEFT_KERNEL_FOR(gather, out, op, where);
    if (lists) {
      kernel(out.raw_view(), x.raw_view(), dim, index.raw_view());
    } else {
      Dims sizes = index.shape();
      sizes[dim] = x.sizes()[static_cast<size_t>(dim)];
      kernel(out.raw_view(), corner(x.raw_view(), sizes), dim, index.raw_view());
    }
  }
  if (should_record(x)) record(out, op, where, GatherFormula{x.shape(), dim, Saved(index)}, x);
  return out;
}

// ---- scatter and scatter_add ----------------------------------------------------------------------------------------

struct AddFormula {
  int dim;
  Saved index;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    if (self.wants(1)) outgoing[1] = gather(incoming[0], dim, index.get(self), self.where);
    if (self.wants(0)) outgoing[0] = std::move(incoming[0]);
  }
};

struct ReplaceFormula {
  int dim;
  Saved index;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    if (self.wants(1)) outgoing[1] = gather(incoming[0], dim, index.get(self), self.where);
    if (self.wants(0)) outgoing[0] = scatter(incoming[0], dim, index.get(self), Operand(0, self.where));
  }
};

View rows_of(const View& view, int64_t first, int64_t count) {
  View part = view;
  part.data = static_cast<char*>(view.data) + first * view.layout.strides[0];
  part.layout.sizes[0] = count;
  finish_layout(part.layout);
  return part;
}

// A copy of x that is scattered into: by one thread in blocks, so that what was copied and checked is still in its
// cache when it is written. Nobody sees the copy where a later block raises.
Tensor scattered_copy(Scatter mode, const Tensor& x, const Scattered& s, const char* op, Location where) {
  constexpr int64_t block = 1 << 17;  // bytes; the index, the source and x itself stand beside it
  const int64_t bytes = x.numel() * itemsize(x.dtype());
  if (s.dim == 0 || bytes <= 8 * block || num_threads() > 1 || !x.device().is_cpu()) {
    Tensor out = target_copy(x, op, where);
    run_scatter(mode, out, s.dim, s.index, s.source.raw_view(), op, where);
    return out;
  }
  Tensor out = make_like(x, op, where);
  const int64_t rows = x.sizes()[0], step = std::max<int64_t>(block / (bytes / rows), 1);
  const View &to = out.raw_view(), &index = s.index.raw_view(), &source = s.source.raw_view();
  const CallScope scope(op, where);
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t n = std::min(step, rows - first), named = std::min(n, index.layout.sizes[0] - first);
    const View part = rows_of(to, first, n);
    WEFT_KERNEL_FOR(copy, x, op, where)(part, rows_of(x.raw_view(), first, n));
    if (named <= 0) continue;
    WEFT_KERNEL_FOR(scatter, x, op, where)
    (mode, part, s.dim, rows_of(index, first, named), rows_of(source, first, named));
  }
  return out;
}

template <class Formula>
Tensor scattered(Scatter mode, const char* op, const Tensor& x, const Scattered& s, Location where) {
  Tensor out = scattered_copy(mode, x, s, op, where);
  if (should_record(x, s.source)) record(out, op, where, Formula{s.dim, Saved(s.index)}, x, s.source);
  return out;
}

template <class Formula>
const Tensor& scattered_in_place(Scatter mode, const char* op, const Tensor& x, const Scattered& s, Location where) {
  check_target(x, op, where);
  const Tensor index = apart(s.index, x, where), source = apart(s.source, x, where);
  write_recorded(
      x, op, where, [&] { run_scatter(mode, x, s.dim, index, source.raw_view(), op, where); },
      [&] {
        return Formula{s.dim, Saved(index)};
      },
      x, s.source);
  return x;
}

// ---- scatter_reduce -------------------------------------------------------------------------------------------------

// What a reduction starts from where x itself is left out.
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
Tensor counts_at(const Tensor& like, DType dtype, int dim, const Tensor& index, bool include_self, Location where) {
  const TensorOptions options{dtype, like.device()};
  const Tensor start = full(like.shape(), include_self ? 1 : 0, options, where);
  return maximum(Operand(scatter_add(start, dim, index, ones(index.shape(), options, where), where), where),
                 Operand(1, where));
}

Tensor reduced_into(const Tensor& x, const Scattered& s, ScatterReduction how, bool include_self, const char* op,
                    Location where) {
  NoGradGuard unrecorded;
  const bool mean = how == ScatterReduction::mean;
  const DType dtype = !mean ? x.dtype() : is_floating(x.dtype()) ? compute_type(x.dtype()) : sum_type(x);
  const Tensor out = dtype == x.dtype() ? target_copy(x, op, where) : x.to(dtype, where);
  if (!include_self) {
    const Tensor start = full(s.index.shape(), identity(how, dtype), {dtype, x.device()}, where);
    run_scatter(Scatter::replace, out, s.dim, s.index, start.raw_view(), op, where);
  }
  run_scatter(mode_of(how), out, s.dim, s.index, s.source.to(dtype, where).raw_view(), op, where);
  if (!mean) return out;
  const Tensor count = counts_at(out, dtype, s.dim, s.index, include_self, where);
  const Tensor average = is_floating(dtype) ? div(Operand(out, where), Operand(count, where))
                                            : floor_divide(Operand(out, where), Operand(count, where));
  return average.to(x.dtype(), where);
}

struct ReduceFormula {
  ScatterReduction how;
  bool include_self;
  int dim;
  Saved index, x, source;
  SavedOutput result;

  SavedOutput* new_value() { return x.defined() ? &result : nullptr; }
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const DType dtype = incoming[0].dtype();
    const Tensor g = widened(incoming[0], self.where);
    std::pair<Tensor, Tensor> gradients = how == ScatterReduction::prod ? of_product(self, g)
                                          : x.defined()                 ? of_extreme(self, g)
                                                                        : of_sum(self, g);
    if (self.wants(0)) outgoing[0] = gradients.first.to(dtype, self.where);
    if (self.wants(1)) outgoing[1] = gradients.second.to(dtype, self.where);
  }

 private:
  Tensor at_source(Node& self, const Tensor& t) { return gather(t, dim, index.get(self), self.where); }
  // 0 at the places whose old value was not counted.
  Tensor of_kept(Node& self, const Tensor& g) {
    return include_self || !self.wants(0) ? g : scatter(g, dim, index.get(self), Operand(0, self.where));
  }

  std::pair<Tensor, Tensor> of_sum(Node& self, Tensor g) {
    const Location w = self.where;
    if (how == ScatterReduction::mean) {
      g = Operand(g, w) / counts_at(g, g.dtype(), dim, index.get(self), include_self, w);
    }
    return {of_kept(self, g), self.wants(1) ? at_source(self, g) : Tensor()};
  }

  std::pair<Tensor, Tensor> of_extreme(Node& self, const Tensor& g) {
    const Location w = self.where;
    const auto in = [&](const auto& t) { return Operand(t, w); };
    const auto equal = [&](const Tensor& a, const Tensor& b) {  // NaN is the extreme where there is one
      const Tensor both_nan = logical_and(in(isnan(in(a))), in(isnan(in(b))));
      return logical_or(in(eq(in(a), in(b))), in(both_nan)).to(g.dtype(), w);
    };
    const Tensor extreme = result.get(self).detach();
    const Tensor own = of_kept(self, equal(x.get(self), extreme));
    const Tensor given = equal(source.get(self), at_source(self, extreme));
    const Tensor share = in(g) / scatter_add(own, dim, index.get(self), given, w);
    const auto chosen = [&](const Tensor& hit, const Tensor& t) { return where(in(ne(in(hit), in(0))), in(t), in(0)); };
    return {chosen(own, share), self.wants(1) ? chosen(given, at_source(self, share)) : Tensor()};
  }

  std::pair<Tensor, Tensor> of_product(Node& self, const Tensor& g) {
    const Location w = self.where;
    const auto in = [&](const auto& t) { return Operand(t, w); };
    const auto product = [&](const Tensor& start, const Tensor& factors, bool with_start) {
      return scatter_reduce(start, dim, index.get(self), factors, ScatterReduction::prod, with_start, w);
    };
    const Tensor factors = widened(source.get(self), w), old = widened(x.get(self), w);
    std::pair<Tensor, Tensor> out;
    if (self.wants(0)) out.first = of_kept(self, in(g)*product(ones_like(g, w), factors, true));
    if (!self.wants(1)) return out;
    const Tensor zero = eq(in(factors), in(0));
    const Tensor zeros_there = scatter_add(zeros_like(g, w), dim, index.get(self), zero.to(g.dtype(), w), w);
    const Tensor zero_count = at_source(self, zeros_there);
    if (recording() && any(gt(in(zero_count), in(1)), w).item<bool>(w)) {
      raise<AutogradError>(
          {.op = self.op, .problem = "the gradient of a product cannot be recorded where two of its factors are 0"}, w);
    }
    // A factor that alone is 0 sees the product of the others, any other one the whole product without itself.
    const Tensor nonzero = where(in(zero), in(1), in(factors));
    const Tensor rest = at_source(self, product(old, nonzero, include_self));
    const Tensor whole = at_source(self, widened(result.get(self), w));
    const Tensor alone = logical_and(in(zero), in(eq(in(zero_count), in(1))));
    out.second = in(at_source(self, g)) * where(in(alone), in(rest), in(in(whole) / nonzero));
    return out;
  }
};

ReduceFormula reduce_formula(const Tensor& old, const Scattered& s, ScatterReduction how, bool include_self) {
  const bool reads = how != ScatterReduction::sum && how != ScatterReduction::mean;
  return {how, include_self, s.dim, Saved(s.index), reads ? Saved(old) : Saved(), reads ? Saved(s.source) : Saved(),
          {}};
}

}  // namespace

Tensor gather(const Tensor& x, int dim, const Tensor& index, Location where) {
  constexpr const char* op = "gather";
  checked(x, op, where);
  const int d = wrap_dim(dim, x.dim(), op, where);
  return gather_elements(op, x, d, checked_index(op, index, x, where), where);
}

Tensor take_along_dim(const Tensor& x, const Tensor& indices, std::optional<int64_t> dim, Location where) {
  constexpr const char* op = "take_along_dim";
  checked(x, op, where);
  checked(indices, op, where);
  if (!dim) return take_along_dim(x.reshape({-1}, where), indices.reshape({-1}, where), 0, where);
  check_ranks(op, x, indices, where);
  const int d = wrap_dim(*dim, x.dim(), op, where);
  const Tensor at = checked_index(op, indices, x, where);
  if (x.dim() == 0) return gather_elements(op, x, 0, at, where);
  Dims x_shape = x.shape(), index_shape = at.shape();
  x_shape[d] = index_shape[d] = 1;
  const auto joined = broadcast(x_shape, index_shape);
  if (!joined) {
    raise_shapes(
        op,
        fmt::format("shapes {} and {} do not broadcast outside dimension {}", x.shape().text(), at.shape().text(), d),
        "sizes must be equal or 1", where);
  }
  x_shape = index_shape = *joined;
  x_shape[d] = x.sizes()[static_cast<size_t>(d)];
  index_shape[d] = at.sizes()[static_cast<size_t>(d)];
  return gather_elements(op, x.expand(x_shape, where), d, at.expand(index_shape, where), where);
}

namespace {

// Where a value goes: a place named twice is there once.
Tensor filled_mask(const Tensor& x, int dim, const Tensor& index, Location where) {
  const Tensor none = zeros(x.shape(), {DType::boolean, x.device()}, where);
  return scatter(none, dim, index, Operand(true, where));
}

}  // namespace

Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Operand& source) {
  constexpr const char* op = "scatter";
  const Location where = source.where;
  Tensor value = one_value(op, x, source, where);
  if (WEFT_UNLIKELY(value.defined() && should_record(value))) {
    return masked_fill(Operand(x, where), Operand(filled_mask(x, dim, index, where), where), Operand(value, where));
  }
  if (value.defined()) value = value.expand(checked(index, op, where).shape(), where);
  const Tensor& from = value.defined() ? value : source.tensor();
  return scattered<ReplaceFormula>(Scatter::replace, op, x, checked_scatter(op, x, dim, index, from, where), where);
}

const Tensor& scatter_(const Tensor& x, int dim, const Tensor& index, const Operand& source) {
  constexpr const char* op = "scatter_";
  const Location where = source.where;
  Tensor value = one_value(op, x, source, where);
  if (WEFT_UNLIKELY(value.defined() && should_record(value))) {
    check_target(x, op, where);
    return masked_fill_(x, filled_mask(x, dim, index, where), Operand(value, where));
  }
  if (value.defined()) value = value.expand(checked(index, op, where).shape(), where);
  const Tensor& from = value.defined() ? value : source.tensor();
  return scattered_in_place<ReplaceFormula>(Scatter::replace, op, x, checked_scatter(op, x, dim, index, from, where),
                                            where);
}

Tensor scatter_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source, Location where) {
  return scattered<AddFormula>(Scatter::sum, "scatter_add", x,
                               checked_scatter("scatter_add", x, dim, index, source, where), where);
}
const Tensor& scatter_add_(const Tensor& x, int dim, const Tensor& index, const Tensor& source, Location where) {
  return scattered_in_place<AddFormula>(Scatter::sum, "scatter_add_", x,
                                        checked_scatter("scatter_add_", x, dim, index, source, where), where);
}

Tensor scatter_reduce(const Tensor& x, int dim, const Tensor& index, const Tensor& source, ScatterReduction how,
                      bool include_self, Location where) {
  constexpr const char* op = "scatter_reduce";
  const Scattered s = checked_scatter(op, x, dim, index, source, where);
  const Tensor out = reduced_into(x, s, how, include_self, op, where);
  if (!should_record(x, s.source)) return out;
  ReduceFormula formula = reduce_formula(x, s, how, include_self);
  if (SavedOutput* const kept = formula.new_value()) *kept = SavedOutput(out);
  record(out, op, where, std::move(formula), x, s.source);
  return out;
}

const Tensor& scatter_reduce_(const Tensor& x, int dim, const Tensor& index, const Tensor& source, ScatterReduction how,
                              bool include_self, Location where) {
  constexpr const char* op = "scatter_reduce_";
  Scattered s = checked_scatter(op, x, dim, index, source, where);
  check_target(x, op, where);
  s.index = apart(s.index, x, where);
  if (s.source.shares_storage(x)) s.source = s.source.clone(where);
  const Tensor out = reduced_into(x, s, how, include_self, op, where);
  write_recorded(
      x, op, where,
      [&] {
        WEFT_KERNEL_FOR(copy, x, op, where)
        (x.raw_view(), out.raw_view());
      },
      [&] { return reduce_formula(x.clone(where), s, how, include_self); }, x, s.source);
  return x;
}

namespace {

// The source of a reduction, one element for each index.
Tensor for_each_index(const char* op, const Tensor& x, const Tensor& index, const Operand& source) {
  const Tensor value = one_value(op, x, source, source.where);
  return value.defined() ? value.expand(checked(index, op, source.where).shape(), source.where) : source.tensor();
}

}  // namespace

Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Operand& source, ScatterReduction reduction) {
  return scatter_reduce(x, dim, index, for_each_index("scatter", x, index, source), reduction, true, source.where);
}
const Tensor& scatter_(const Tensor& x, int dim, const Tensor& index, const Operand& source,
                       ScatterReduction reduction) {
  return scatter_reduce_(x, dim, index, for_each_index("scatter_", x, index, source), reduction, true, source.where);
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

// Without duplicates: the gradient of what is overwritten has no difference quotient.
std::vector<Values> scatter_samples(SampleMaker& make) {
  const Tensor index = tensor({{2, 0, 1, 2}, {0, 1, 2, 1}}).to(make.device());
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
  raise<ValueError>({.op = "scatter_reduce",
                     .problem = fmt::format("there is no reduction '{}'", name),
                     .remedy = "use sum, prod, mean, amax or amin"},
                    boxed_place());
}

Tensor call_scatter(const Tensor& x, int dim, const Tensor& index, const Operand& source,
                    const std::optional<std::string>& reduce) {
  if (!reduce) return scatter(x, dim, index, source);
  if (*reduce == "add") return scatter(x, dim, index, source, ScatterReduction::sum);
  if (*reduce == "multiply") return scatter(x, dim, index, source, ScatterReduction::prod);
  raise<ValueError>(
      {.op = "scatter", .problem = fmt::format("argument 'reduce' must be 'add' or 'multiply', not '{}'", *reduce)},
      source.where);
}
Tensor call_scatter_reduce(const Tensor& x, int dim, const Tensor& index, const Tensor& source, const std::string& how,
                           std::optional<bool> include_self) {
  return scatter_reduce(x, dim, index, source, reduction_of(how), include_self.value_or(true), boxed_place());
}

constexpr auto any_type = OpRecord::Domain::any;
constexpr OpRecord scatter_op_records[] = {
    {"gather", "gather(x, dim, index)", "out[i][j] = x[index[i][j]][j] for dim 0, and so on; shaped as index.", true,
     any_type, gather_samples, detail::boxed<&weft::gather>},
    {"take_along_dim", "take_along_dim(x, indices, dim=None)",
     "gather where x and indices broadcast outside dim; without one, both are seen flat.", true, any_type,
     take_along_dim_samples, detail::boxed<&weft::take_along_dim>},
    {"scatter", "scatter(x, dim, index, source, *, reduce=None)",
     "x with source[i][j], or one value, put at [index[i][j]][j] for dim 0, and so on; of duplicates the last wins. "
     "With reduce 'add' or 'multiply' it is combined with what stands there.",
     true, any_type, scatter_samples, detail::boxed<&call_scatter>},
    {"scatter_add", "scatter_add(x, dim, index, source)",
     "x with source[i][j] added at [index[i][j]][j] for dim 0, and so on; duplicates add, in order.", true, any_type,
     scatter_add_samples, detail::boxed<&weft::scatter_add>},
    {"scatter_reduce", "scatter_reduce(x, dim, index, source, reduce, include_self=True)",
     "x with the elements of source that index brings to a place combined into it by sum, prod, mean, amax or amin.",
     true, OpRecord::Domain::numeric, scatter_reduce_samples, detail::boxed<&call_scatter_reduce>},
};

}  // namespace

std::span<const OpRecord> scatter_records() { return scatter_op_records; }

}  // namespace weft
