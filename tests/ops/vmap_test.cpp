// Every op under func::vmap, forward and backward, with some of its tensors or all of them differing from example to
// example: results agree with a loop, and all but the listed ops run for all examples at once.
#include "samples.hpp"

#include <weft/autograd/mode.hpp>
#include <weft/func/func.hpp>
#include <weft/weft.hpp>

namespace weft::testing {
namespace {

constexpr int64_t examples = 3;

Values samples_of(const OpRecord& record, size_t number, uint64_t seed) {
  SampleMaker make(f64, Device(), seed);
  return record.samples(make)[number];
}

Values with_tensors(const Values& values, std::span<const Tensor> tensors) {
  size_t next = 0;
  return mapped(values, [&](const Tensor& t) { return t.defined() ? tensors[next++] : t; });
}
Tensors defined_in(const Values& values) {
  Tensors all;
  for (const Tensor& t : tensors_in(values)) {
    if (t.defined()) all.push_back(t);
  }
  return all;
}

/// The results of a call and, where they are wanted, the gradients of their sum.
Tensors call(const OpRecord& record, const Values& arguments, bool gradients) {
  Tensors leaves;
  const Values own = mapped(arguments, [&](const Tensor& t) {
    const bool wanted =
        gradients && record.facts.differentiable && t.defined() && is_inexact(t.dtype()) && !is_storage_only(t.dtype());
    if (!wanted) return t;
    return leaves.emplace_back(t.detach().requires_grad_());
  });
  const EnableGradGuard recorded;
  Tensors results;
  const Value made = record.call(own);
  if (auto* one = std::get_if<Tensor>(&made)) results = {*one};
  if (auto* several = std::get_if<Tensors>(&made)) results = *several;
  Tensors sums, out;
  for (const Tensor& y : results) {
    if (!y.defined()) continue;
    out.push_back(y.detach());
    if (!y.requires_grad()) continue;
    sums.push_back((is_complex(y.dtype()) ? abs(y) : y).sum());  // of vectors the phase may be any
  }
  if (sums.empty() || leaves.empty()) return out;
  for (const Tensor& g : weft::grad(sums, leaves, {}, {.allow_unused = true})) {
    if (g.defined()) out.push_back(g.detach());
  }
  return out;
}

/// Which of n tensors have examples: all of them, the first alone, the last alone.
std::vector<std::vector<std::optional<int>>> choices(size_t n) {
  std::vector<std::vector<std::optional<int>>> all = {std::vector<std::optional<int>>(n, 0)};
  for (const size_t only : {size_t{0}, n - 1}) {
    if (n > 1) all.emplace_back(n)[only] = 0;
  }
  return all;
}

bool is_close(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  if (is_complex(a.dtype())) return is_close(view_as_real(a), view_as_real(b));
  const DType wide = is_storage_only(a.dtype()) ? f32 : a.dtype();
  return allclose(a.to(wide).to(f64), b.to(wide).to(f64), 1e-9, 1e-9, true);
}

/// How often the op was called for all examples.
int compare(const OpRecord& record, size_t number, const std::vector<std::optional<int>>& in_dims, bool gradients) {
  std::vector<Tensors> each;
  for (uint64_t n = 0; n < examples; ++n) each.push_back(defined_in(samples_of(record, number, n)));
  const Values shape = samples_of(record, number, 0);
  Tensors inputs;
  for (size_t i = 0; i < in_dims.size(); ++i) {
    Tensors of_input;
    for (const Tensors& e : each) of_input.push_back(e[i].detach());
    inputs.push_back(in_dims[i] ? stack(of_input) : each[0][i]);
  }
  std::vector<Tensors> expected;
  for (size_t n = 0; n < examples; ++n) {
    Tensors own;
    for (size_t i = 0; i < in_dims.size(); ++i) own.push_back(each[in_dims[i] ? n : 0][i].detach().clone());
    manual_seed(7);
    expected.push_back(call(record, with_tensors(shape, own), gradients));
  }
  int calls = 0;
  const auto f = [&](std::span<const Tensor> x) {
    ++calls;
    return func::Outputs({zeros({})}, call(record, with_tensors(shape, x), gradients));
  };
  manual_seed(7);
  const func::Function mapped = func::vmap(f, {.in_dims = in_dims, .randomness = func::Randomness::same});
  const Tensors made = mapped(std::span<const Tensor>(inputs)).aux;
  EXPECT_EQ(made.size(), expected[0].size());
  for (size_t i = 0; i < std::min(made.size(), expected[0].size()); ++i) {
    for (size_t n = 0; n < examples; ++n) {
      EXPECT_TRUE(is_close(made[i].select(0, static_cast<int64_t>(n)), expected[n][i]))
          << record.name << ", sample " << number << ", result " << i << ", example " << n
          << (gradients ? ", back" : "");
    }
  }
  return calls;
}

TEST(Vmap, OfEveryOpEqualsALoop) {
  std::set<const OpRecord*> looped, refused, tried;
  for (const OpRecord& record : op_records()) {
    const std::string_view name = record.name;
    if (name == "empty" || name == "empty_like") continue;  // elements are not set
    SampleMaker make(f64, Device(), 0);
    const size_t count = record.samples(make).size();
    for (size_t i = 0; i < count; ++i) {
      const size_t tensors = defined_in(samples_of(record, i, 0)).size();
      if (tensors == 0) continue;
      tried.insert(&record);
      for (const auto& in_dims : choices(tensors)) {
        for (const bool gradients : {false, true}) {
          try {
            if (compare(record, i, in_dims, gradients) > 1) looped.insert(&record);
          } catch (const ShapeError& e) {
            EXPECT_EQ(record.facts.reads, OpFacts::reads_values) << record.name << ", sample " << i << ": " << e.what();
            refused.insert(&record);  // its results have different shapes
          }
        }
      }
    }
  }
  for (const OpRecord* record : tried) {
    EXPECT_EQ(looped.contains(record) || refused.contains(record), record->facts.reads == OpFacts::reads_values)
        << record->name;
  }
}

}  // namespace
}  // namespace weft::testing
