// Every method of Tensor and of x[…] gives the result of its op, and its kernels and nodes have the caller's location.
#include <algorithm>
#include <concepts>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "samples.hpp"
#include "values.hpp"

#include <weft/backends/watch/observe.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

using testing::nan;
using testing::spread;
using Tensors = std::vector<Tensor>;

Tensors parts(const Tensor& t) { return {t}; }
Tensors parts(bool b) { return {tensor(b)}; }
Tensors parts(const ValuesAndIndices& r) { return {r.values, r.indices}; }
Tensors parts(const Tensors& list) { return list; }
Tensors parts(const MinMax& r) { return {r.min, r.max}; }
Tensors parts(const MantissaAndExponent& r) { return {r.mantissa, r.exponent}; }
Tensors parts(const DispersionAndMean& r) { return {r.dispersion, r.mean}; }
Tensors parts(const HistogramResult& r) { return {r.hist, r.bin_edges}; }
Tensors parts(const Unique& u) { return {u.values, u.inverse, u.counts}; }

void expect_same(const Tensors& actual, const Tensors& expected, const char* what) {
  SCOPED_TRACE(what);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].defined(), expected[i].defined());
    if (!actual[i].defined()) continue;
    EXPECT_EQ(actual[i].dtype(), expected[i].dtype());
    EXPECT_EQ(actual[i].shape(), expected[i].shape());
    testing::expect_near(testing::values(actual[i]), testing::values(expected[i]), 0);
  }
}

// A tensor with x as row 1, so that row[…] selects x.
Tensor around(const Tensor& x) { return stack({zeros_like(x), x, zeros_like(x)}); }

struct Places final : KernelObserver {
  std::set<std::string> files;
  bool called = false;
  void add(Location where) {
    if (where.known()) files.insert(std::filesystem::path(where.file()).filename());
  }
  void before(const KernelCall& kernel) override {
    called = true;
    add(kernel.where);
  }
  void add_graph(const Tensor& result) {
    std::vector<const Node*> left{result.impl()->node};
    std::set<const Node*> met;
    while (!left.empty()) {
      const Node* node = left.back();
      left.pop_back();
      if (node == nullptr || !met.insert(node).second) continue;
      add(node->where);
      for (int i = 0; i < node->edge_count; ++i) left.push_back(node->edges[i].node());
    }
  }
};

// One way to write an op, as a function of its first operand that outlives no full expression.
template <class X>
class Form {
 public:
  template <class F>
  Form(const F& f)
      : f_(&f), call_([](const void* f, X x) { return (*static_cast<const F*>(f))(std::forward<X>(x)); }) {}
  Tensors operator()(X x) const { return call_(f_, std::forward<X>(x)); }

 private:
  const void* f_;
  Tensors (*call_)(const void*, X);
};

// Calls, nodes and two orders of backward name the user's file and no file of the library.
void expect_own_places(const Tensor& x, const Form<const Tensor&>& op, const char* what) {
  const Tensor leaf = is_inexact(x.dtype()) ? x.detach().clone().requires_grad_() : x;
  Places places;
  {
    const ObserverGuard watching(places);
    for (const Tensor& result : op(leaf)) {
      if (!result.defined() || !result.requires_grad()) continue;
      places.called = true;
      places.add_graph(result);
      Tensor first = grad({result}, {leaf}, {ones_like(result)}, {.create_graph = true, .allow_unused = true})[0];
      if (!first.defined() || !first.requires_grad()) continue;
      places.add_graph(first);
      try {
        grad({first}, {leaf}, {ones_like(first)}, {.allow_unused = true});
      } catch (const NotImplementedError&) {
      }
    }
  }
  const std::set<std::string> own{"methods_test.cpp"};
  EXPECT_EQ(places.files, places.called ? own : std::set<std::string>()) << what;
}

template <class Call>
auto drawn_alike(const Call& call) {
  manual_seed(7);
  return call();
}

// function is name(x, …), method x.name(…), part x[…].name(…).
void expect_same_forms(const char* name, const Tensor& x, Form<const Tensor&> function, Form<const Tensor&> method,
                       Form<Indexed&&> part) {
  const Tensors expected = drawn_alike([&] { return function(x); });
  const std::string what = name;
  expect_same(drawn_alike([&] { return method(x); }), expected, (what + " as a method").c_str());
  expect_same(drawn_alike([&] { return part(around(x)[1]); }), expected, (what + " as a method of x[i]").c_str());
  expect_same(drawn_alike([&] { return part(around(x)[{None, 1}][0]); }), expected, (what + " of x[i][j]").c_str());
  expect_own_places(x, method, name);
}

// The same for a method that writes; x[i] and x[list] must bring the new values into x.
void expect_same_writes(const char* name, const Tensor& x, Form<const Tensor&> function, Form<const Tensor&> method,
                        Form<Indexed&&> part) {
  const Tensor expected = x.clone();
  drawn_alike([&] { return function(expected); });
  expect_same(drawn_alike([&] { return method(x.clone()); }), {expected}, name);
  const Tensor row = around(x), listed = around(x)[{None}];
  const std::string what = name;
  drawn_alike([&] { return part(row[1]); });
  expect_same({row.select(0, 1)}, {expected}, (what + " of x[i]").c_str());
  const Tensors result = drawn_alike([&] { return part(listed[{0, tensor(int64_t{1})}]); });
  expect_same({listed.select(0, 0).select(0, 1), result[0]}, {expected, expected}, (what + " of x[{0, t}]").c_str());
  const auto on_a_copy = [&](const Tensor& leaf) {
    const Tensor copy = leaf.clone();
    method(copy);
    return Tensors{copy};
  };
  expect_own_places(x, on_a_copy, name);
}

// ---- methods of which the record's samples have the arguments ----

// Whether a Value becomes a T: all argument types but options, enumerators and lists in braces.
template <class T>
concept FromValue = std::same_as<T, Operand> || std::same_as<T, Scalar> || std::same_as<T, double> ||
    std::same_as<T, int64_t> || std::same_as<T, int> || std::same_as<T, bool> || std::same_as<T, Dims> ||
    std::same_as<T, Tensor> || std::same_as<T, DType> || std::same_as<T, Generator*> ||
    std::same_as<T, std::optional<double>> || std::same_as<T, std::optional<int64_t>> ||
    std::same_as<T, std::optional<Scalar>> || std::same_as<T, std::optional<DType>> || std::same_as<T, Location>;

// Operands and locations name this file.
template <FromValue T>
T from_value(const Value& value) {
  if constexpr (std::same_as<T, Location>) {
    return Location();
  } else if constexpr (std::same_as<T, Operand>) {
    const auto* t = std::get_if<Tensor>(&value);
    return t != nullptr ? Operand(*t) : Operand(detail::number_in(value));
  } else {
    return detail::Unbox<T>::from(value);
  }
}

// A row of methods.inc, with calls of its method on a tensor and on x[…]; null where a parameter is no FromValue.
struct Row {
  const char *name, *parameters;
  size_t parameter_count;
  Tensors (*of_tensor)(const Tensor& x, const Values& arguments);
  Tensors (*of_part)(Indexed&& x, const Values& arguments);
};

template <class Method, class... P, size_t... I>
Row row_of(const char* name, const char* parameters, std::index_sequence<I...>) {
  if constexpr ((... && FromValue<std::remove_cvref_t<P>>)) {
    return {name, parameters, sizeof...(P),
            [](const Tensor& x, [[maybe_unused]] const Values& v) {
              return parts(Method()(x, from_value<std::remove_cvref_t<P>>(v[I])...));
            },
            [](Indexed&& x, [[maybe_unused]] const Values& v) {
              return parts(Method()(std::move(x), from_value<std::remove_cvref_t<P>>(v[I])...));
            }};
  } else {
    return {name, parameters, sizeof...(P), nullptr, nullptr};
  }
}
template <class Method, class... P>
Row row_of(void (*)(P...), const char* name, const char* parameters, Method) {
  return row_of<Method, P...>(name, parameters, std::index_sequence_for<P...>());
}

// The sample's values for the parameters of the method, by name. None where a parameter is no argument of the op, or
// where another argument is given.
std::optional<Values> arguments_of(const OpRecord& record, const Values& sample, std::string_view parameters) {
  const std::vector<Argument>& arguments = record.signature().arguments;
  Values out;
  size_t given = 1;
  while (!parameters.empty()) {
    const size_t end = std::min(parameters.find(','), parameters.size());
    const Argument* argument = record.signature().find(parameters.substr(0, end));
    if (record.pointwise.binary != nullptr) argument = &arguments[1];
    parameters.remove_prefix(std::min(end + 2, parameters.size()));
    const size_t i = argument == nullptr ? 0 : static_cast<size_t>(argument - arguments.data());
    if (i == 0) return {};
    const bool in_sample = i < sample.size() && !std::holds_alternative<std::monostate>(sample[i]);
    out.push_back(in_sample ? sample[i] : argument->default_value);
    given += in_sample;
  }
  for (const Value& value : sample) given -= std::holds_alternative<std::monostate>(value) ? 0 : 1;
  return given == 0 ? std::optional(out) : std::nullopt;
}

class Methods : public ::testing::Test {
 protected:
  // Compares x.name(…) and x[…].name(…) with the op, for every sample that has the arguments.
  void check_row(const Row& row) {
    methods.insert(row.name);
    const bool writes = std::string_view(row.name).ends_with('_');
    const std::string op(row.name, std::strlen(row.name) - writes);
    const OpRecord* record = find_record(op.c_str());
    if (record == nullptr) record = find_record(("linalg_" + op).c_str());
    if (record == nullptr || row.of_tensor == nullptr) return;
    SampleMaker make(f64, {});
    for (const Values& sample : record->samples(make)) {
      const auto* x = sample.empty() ? nullptr : std::get_if<Tensor>(&sample[0]);
      std::optional<Values> arguments = arguments_of(*record, sample, row.parameters);
      if (x == nullptr || !x->defined() || !arguments) continue;
      const bool has_gaps = std::ranges::any_of(
          *arguments, [](const Value& value) { return std::holds_alternative<std::monostate>(value); });
      arguments->resize(row.parameter_count);  // the location is the last
      try {
        compare(*record, row, sample, *arguments, writes);
        covered.insert(row.name);
      } catch (const std::bad_variant_access&) {  // the sample is one of another overload
      } catch (const Error&) {
        if (!has_gaps) throw;
      }
    }
  }

  void compare(const OpRecord& record, const Row& row, const Values& sample, const Values& arguments, bool writes) {
    const Tensor& x = std::get<Tensor>(sample[0]);
    const auto function = [&](const Tensor& t) {
      Values values = sample;
      values[0] = t;
      const Value result = record.call(values);
      const auto* truth = std::get_if<bool>(&result);
      return truth != nullptr ? parts(*truth) : testing::tensors_in({result});
    };
    const auto method = [&](const Tensor& t) { return row.of_tensor(t, arguments); };
    const auto part = [&](Indexed&& t) { return row.of_part(std::move(t), arguments); };
    if (!writes) return expect_same_forms(row.name, x, function, method, part);
    const Tensors result = drawn_alike([&] { return function(x); });
    if (result.size() != 1 || result[0].dtype() != x.dtype() || !(result[0].shape() == x.shape())) return;
    expect_same_writes(
        row.name, x, [&](const Tensor& t) { return Tensors{t.copy_(function(t)[0])}; }, method, part);
  }

  std::set<std::string> methods, covered;
};

// x.name(…), x[…].name(…) and name(x, …).
#define SAME(name, x, ...)                                                                         \
  (covered.insert(#name),                                                                          \
   expect_same_forms(                                                                              \
       #name, x, [&](const Tensor& t) { return parts(weft::name(t __VA_OPT__(, ) __VA_ARGS__)); }, \
       [&](const Tensor& t) { return parts(t.name(__VA_ARGS__)); },                                \
       [&](Indexed&& t) { return parts(std::move(t).name(__VA_ARGS__)); }))
#define SAME_AS(expected, name, x, ...) \
  (covered.insert(#name), expect_same(parts(around(x)[1].name(__VA_ARGS__)), parts(expected), #name))
#define SAME_WRITE(name, x, ...)                                     \
  covered.insert(#name);                                             \
  expect_same_writes(                                                \
      #name, x,                                                      \
      [&](const Tensor& t) {                                         \
        weft::name(t __VA_OPT__(, ) __VA_ARGS__);                    \
        return Tensors{t};                                           \
      },                                                             \
      [&](const Tensor& t) { return Tensors{t.name(__VA_ARGS__)}; }, \
      [&](Indexed&& t) { return Tensors{std::move(t).name(__VA_ARGS__)}; })

TEST_F(Methods, GiveTheResultsOfTheirOps) {
#define WEFT_METHOD(result, name, parameters, location, ...)                      \
  check_row(row_of(static_cast<void(*) parameters>(nullptr), #name, #__VA_ARGS__, \
                   [](auto&& x, const auto&... a) { return static_cast<decltype(x)&&>(x).name(a...); }));
#define WEFT_WRITE(name, parameters, location, ...) WEFT_METHOD(Tensor, name, parameters, location, __VA_ARGS__)
#define WEFT_OWN_METHOD WEFT_METHOD
#include <weft_generated/methods.inc>
#define WEFT_UNARY_ROW(name, ...)                    \
  WEFT_METHOD(Tensor, name, (Location where), where) \
  WEFT_METHOD(Tensor, name##_, (Location where), where)
  WEFT_UNARY_OPS(WEFT_UNARY_ROW)
#define WEFT_BINARY_ROW(name, ...)                              \
  WEFT_METHOD(Tensor, name, (const Operand& b), other.where, b) \
  WEFT_METHOD(Tensor, name##_, (const Operand& b), other.where, b)
  WEFT_BINARY_OPS(WEFT_BINARY_ROW)
  WEFT_INTEGER_OPS(WEFT_BINARY_ROW)
#define WEFT_COMPARE_ROW(name, ...) WEFT_METHOD(Tensor, name, (const Operand& b), other.where, b)
  WEFT_COMPARE_OPS(WEFT_COMPARE_ROW)

  const Tensor x = spread({3, 4}), y = spread({3, 4}, 1), p = spread({3, 4}, 2, 0.1, 0.9), square = spread({3, 3}, 3);
  const Tensor v = spread({4}, 4), w = spread({4}, 5), batch = spread({2, 3, 4}, 6), mask = x > 0;
  const Tensor index = tensor({2, 0}), at = tensor({{0, 1}, {2, 0}}), whole = tensor({1, 3, 1, 0});

  SAME(cast, x, f16);
  SAME(cast, 100 * x, f8_e4m3fn, Overflow::ieee);
  SAME(clamp, x, y, y + 1);
  SAME(logical_not, x);
  SAME(isnan, x);
  SAME(isinf, x);
  SAME(isfinite, x);
  SAME(isposinf, x);
  SAME(isneginf, x);
  SAME(isreal, x);
  SAME(signbit, x);
  SAME(isclose, x, y);
  SAME(isclose, x, y, 0.5, 0.1, true);
  SAME(threshold, x, 0.1, p);
  SAME(ldexp, p, y);
  SAME(gelu, x, Approximate::tanh);

  SAME(mean, x, {1}, true);
  SAME(prod, x, {-1});
  SAME(amax, x, {0});
  SAME(amin, x, {1}, true);
  SAME(any, mask, {0});
  SAME(all, mask);
  SAME(logsumexp, x, {1});
  SAME(vector_norm, x, 1, {1}, true);
  SAME(cummax, x, 1);
  SAME(cummin, x, 0);
  SAME(quantile, x, 0.3, 1, true, QuantileInterpolation::lower);
  SAME(nanquantile, x, 0.3, 1, true, QuantileInterpolation::midpoint);
  SAME(nansum, x, {1});
  SAME(nanmean, x, {0}, true);
  SAME(var_mean, x, {1}, 0);
  SAME(std_mean, x);
  SAME(histc, x, 4, -1, 1);
  SAME(histogram, x, 4, {.range = {{-1, 1}}, .density = true});
  SAME(histogram, x, cumsum(p[0], 0), {.density = true});
  SAME(isin, x, 0.5);

  SAME(mm, x, y.t());
  SAME(bmm, batch, batch.transpose(1, 2));
  SAME(mv, x, v);
  SAME(dot, v, w);
  SAME(outer, v, w);
  SAME(rms_norm, x, {4}, v);
  SAME(scaled_dot_product_attention, batch, batch, batch, {.causal = true});

  const Tensor classes = tensor({1, 3, 0});
  SAME(cross_entropy, x, classes, {.reduction = LossReduction::none, .label_smoothing = 0.1});
  SAME(nll_loss, x, classes, {.reduction = LossReduction::sum});
  SAME(mse_loss, x, y, {.reduction = LossReduction::none});
  SAME(l1_loss, x, y, {.reduction = LossReduction::sum});
  SAME(huber_loss, x, y, {.delta = 0.3});
  SAME(smooth_l1_loss, x, y, {.beta = 0.3});
  SAME(binary_cross_entropy_with_logits, x, p, {.pos_weight = w});
  SAME(binary_cross_entropy, p, p, {.reduction = LossReduction::sum});
  SAME(kl_div, x, y, {.log_target = true});
  SAME(poisson_nll_loss, x, p, {.full = true});
  SAME(hinge_embedding_loss, x, y, {.margin = 0.3});
  SAME(soft_margin_loss, x, y, {.reduction = LossReduction::sum});
  SAME(multi_margin_loss, x, classes, {.p = 2});
  SAME(multilabel_margin_loss, x, zeros_like(x).to(i64), {.reduction = LossReduction::sum});
  SAME(multilabel_soft_margin_loss, x, p, {.reduction = LossReduction::sum});
  SAME(gaussian_nll_loss, x, y, 0.5);
  SAME(gaussian_nll_loss, x, y, p, {.full = true});
  SAME(cosine_embedding_loss, x, y, ones({x.size(0)}));
  SAME(cosine_embedding_loss, x, y, -ones({x.size(0)}), {.margin = -0.9});
  SAME(margin_ranking_loss, x, y, p);
  SAME(margin_ranking_loss, x, y, p, {.margin = 0.3});
  SAME(triplet_margin_loss, x, y, p, {.margin = 3, .swap = true});
  SAME(ctc_loss, x, tensor({1}), tensor(2), tensor(1), {.reduction = LossReduction::sum});
  SAME(normalize, x, {.dims = 0});
  SAME(cosine_similarity, x, y, 0);
  SAME(pairwise_distance, x, y, 3);
  SAME(cdist, x, y);
  SAME(cdist, x, y, 2, DistanceMode::product);

  SAME(index, x, {index, Slice(1)});
  SAME(index_put, x, {index}, v);
  SAME(scatter_reduce, x, 1, at, y[{Slice(0, 2), Slice(0, 2)}], ScatterReduction::amax, false);

  SAME(count_nonzero, mask, {0});
  SAME(unique, whole, {.return_inverse = true, .return_counts = true});
  SAME(unique_consecutive, whole, {.return_inverse = true});
  SAME(searchsorted, cumsum(p, 1), p, {.right = true});

  SAME(binomial, ones_like(p), p);
  SAME(multinomial, p, 2);
  SAME(new_zeros, x, {2});
  SAME(new_ones, x, {2, 1}, {.dtype = i64});
  SAME(new_full, x, {2}, 1.5);
  SAME(split_with_sizes, x, {1, 3}, 1);
  SAME(tensor_split, x, 3, 1);
  SAME(tensor_split, x, {1, 2}, 1);
  SAME(hsplit, x, 2);
  SAME(hsplit, x, {1});
  SAME(vsplit, x, 3);
  SAME(vsplit, x, {1, 2});
  SAME(dsplit, batch, 2);
  SAME(dsplit, batch, {3});
  SAME(pad, x, {1, -1});
  SAME(pad, x, {2, 1}, Padding::reflect);
  SAME(diagonal_scatter, x, v[{Slice(0, 3)}], 1);
  SAME(select_scatter, x, v, 0, 1);
  SAME(slice_scatter, x, y[{Slice(0, 2)}], 0, 1);
  SAME(vander, v, 3);
  SAME(tensordot, x, y);
  const Tensor both = complex(x, y);
  SAME(conj, both);
  SAME(view_as_complex, view_as_real(both));
  SAME(tensordot, x, y, {0}, {0});

  SAME_WRITE(index_put_, x, {index}, v, true);
  SAME_WRITE(scatter_reduce_, x, 1, at, y[{Slice(0, 2), Slice(0, 2)}], ScatterReduction::prod);
  SAME_WRITE(uniform_, x, -1, 1);
  SAME_WRITE(normal_, x);
  SAME_WRITE(exponential_, x, 2);
  SAME_WRITE(geometric_, x, 0.3);
  SAME_WRITE(cauchy_, x);
  SAME_WRITE(log_normal_, x, 0, 0.5);

  SAME(allclose, x, y, 0.5, 0.1);
  const auto clamped = [&](const Tensor& t) { return Tensors{t.copy_(weft::clip(t, -1, 1))}; };
  expect_same_writes(
      "clamp_", x, clamped, [](const Tensor& t) { return Tensors{t.clamp_(-1, 1)}; },
      [](Indexed&& t) { return Tensors{std::move(t).clamp_(-1, 1)}; });
  covered.insert("clamp_");
  const Tensor spd = matmul(square, square.t()) + square.new_ones({3}).diag(), factor = linalg::cholesky(spd);
  SAME_AS(linalg::inv(spd), inverse, spd);
  SAME_AS(linalg::pinv(spd, {}, 1e-15), pinverse, spd);
  SAME_AS(linalg::cholesky_solve(square, factor), cholesky_solve, square, factor);
  SAME_AS(polygamma(1, p), polygamma, p, 1);
  SAME_AS(where(mask, x, y), where, x, mask, y);
  SAME_AS(empty({2}, i32).zero_(), new_zeros, x, {2}, {.dtype = i32});
  EXPECT_EQ(x.new_empty({2}, {.dtype = i32}).dtype(), i32);
  covered.insert("new_empty");
  SAME_AS(x.as_strided({2}, {5}), as_strided, x, {2}, {5});
  SAME_AS(x.diagonal(1), diagonal, x, 1);
  SAME_AS(x.expand({2, 3, 4}), expand, x, {2, 3, 4});
  SAME_AS(x.view({2, 6}), view, x, {2, 6});
  SAME_AS(x.view_bytes(i64), view_bytes, x, i64);
  SAME_AS(x.split(3, 1), split, x, 3, 1);
  SAME_AS(x.to(f32), to, x, f32);
  SAME_AS(false, is_pinned, x);
  covered.insert("pin_memory");  // needs a device: tests/plugin
  for (const std::string& name : methods) EXPECT_TRUE(covered.contains(name)) << name << " is not compared";
}

TEST_F(Methods, NameTheirOwnCallInErrorsAndNodes) {
  const Tensor x = ones({2, 3}).requires_grad_();
  const unsigned line = __LINE__ + 1;
  EXPECT_EQ(x.exp().impl()->node->where.line(), line);
  EXPECT_EQ(x.maximum(0).impl()->node->where.line(), line + 1);
  EXPECT_EQ(Tensor(x[0].argmax().numel() == 1 ? x[0].square() : x).impl()->node->where.line(), line + 2);
  try {
    (void)x.mm(x);
    ADD_FAILURE() << "nothing was raised";
  } catch (const ShapeError& e) {
    EXPECT_NE(std::string(e.what()).find("methods_test.cpp:" + std::to_string(line + 4)), std::string::npos)
        << e.what();
  }
}

TEST_F(Methods, ClampLeavesOutABoundThatIsNotGiven) {
  const Tensor x = tensor({-2.0, 0.5, 3.0});
  EXPECT_EQ(x.clamp({}, 1).to_vector<double>(), (std::vector<double>{-2, 0.5, 1}));
  EXPECT_EQ(x.clamp(none, 1).to_vector<double>(), (std::vector<double>{-2, 0.5, 1}));
  EXPECT_EQ(x.clamp(0).to_vector<double>(), (std::vector<double>{0, 0.5, 3}));
  EXPECT_EQ(x.clamp(0, none).to_vector<double>(), (std::vector<double>{0, 0.5, 3}));
  EXPECT_EQ(x.clamp(tensor(0.0)).to_vector<double>(), (std::vector<double>{0, 0.5, 3}));
  EXPECT_EQ(x.clamp({}, tensor(1.0)).to_vector<double>(), (std::vector<double>{-2, 0.5, 1}));
  EXPECT_THROW((void)x.clamp(), ValueError);
  EXPECT_THROW((void)x.clamp(Tensor(), Tensor()), ValueError);
}

TEST_F(Methods, ThatWriteThroughAListReachTheTensorAndItsGradient) {
  const Tensor x = tensor({1.0, 2.0, 3.0}).requires_grad_();
  const Tensor y = x * 1;
  y[{tensor({2, 0})}].mul_(10);
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{10, 2, 30}));
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{10, 1, 10}));
}

TEST_F(Methods, OfATensorThatIndexesItselfReadTheIndexBeforeTheyWrite) {
  const Tensor x = tensor({1, 2, 0});
  x[x] += 1;
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{2, 3, 1}));
}

TEST_F(Methods, OfXOfIndexOutliveTheCallThatSelected) {
  const auto row = [](int64_t i) {
    const Tensor x = arange(6).view({2, 3});
    return x[i];
  };
  const Tensor r = row(1);
  EXPECT_EQ(r.to_vector<int64_t>(), (std::vector<int64_t>{3, 4, 5}));
  const auto part = [](const std::vector<int64_t>& list) {
    return arange(12).view({3, 4})[{list, Slice(none, none, 2), None, None, None}];
  };
  EXPECT_EQ(Tensor(part({2, 0})).to_vector<int64_t>(), (std::vector<int64_t>{8, 10, 0, 2}));
  const auto many = [](const Tensor& x) { return x[{None, None, None, None, None, None, true, true, true, true, 1}]; };
  EXPECT_EQ(Tensor(many(arange(3))).item<int64_t>(), 1);
}

}  // namespace
}  // namespace weft
