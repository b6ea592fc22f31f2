// Calls ops through their records, and compares results.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weft/autograd/engine.hpp>
#include <weft/ops/complex.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/record.hpp>
#include <weft/ops/reduce.hpp>

namespace weft::testing {

using Tensors = std::vector<Tensor>;

/// Largest difference that a comparison lets pass: absolute + relative * |expected|.
struct Tolerance {
  double relative, absolute;
};
inline Tolerance tolerance_of(DType dtype) {
  switch (real_type(dtype)) {
    case DType::f16:
      return {1e-3, 1e-4};
    case DType::bf16:
      return {1e-2, 1e-3};
    case DType::f32:
      return {1e-5, 1e-6};
    case DType::f64:
      return {1e-9, 1e-12};
    default:
      return {0, 0};
  }
}

/// Every tensor in `values`, lists included, in order, replaced by the result of `f`.
inline Values mapped(const Values& values, const std::function<Tensor(const Tensor&)>& f) {
  Values out = values;
  for (Value& v : out) {
    if (auto* t = std::get_if<Tensor>(&v)) {
      if (t->defined()) *t = f(*t);
    } else if (auto* list = std::get_if<Tensors>(&v)) {
      for (Tensor& t : *list) t = f(t);
    }
  }
  return out;
}
inline Tensors tensors_in(const Values& values) {
  Tensors found;
  mapped(values, [&](const Tensor& t) {
    found.push_back(t);
    return t;
  });
  return found;
}

/// Whether the result is deterministic.
inline bool sets_elements(const OpRecord& record) {
  return std::string_view(record.name) != "empty" && std::string_view(record.name) != "empty_like";
}

/// A call that sees the same random numbers every time, on every device, and leaves the random states as they were.
inline Tensors call(const OpRecord& record, const Values& values, Device device = {}) {
  const RngForkGuard guard({Device(), device});
  manual_seed(1);
  return tensors_in({record.call(values)});
}

inline Tensors detached(const Tensors& tensors) {
  Tensors out;
  for (const Tensor& t : tensors) out.push_back(t.detach());
  return out;
}

/// Whether a loss must not depend on the phase of this result, vectors that are found up to it.
inline bool has_any_phase(const OpRecord& record, const Tensor& out) {
  const std::string_view name = record.name;
  return is_complex(out.dtype()) && out.dim() >= 2 &&
         (name == "linalg_eig" || name == "linalg_eigh" || name == "linalg_svd");
}
/// A gradient of a result with different weights per element.
inline Tensor seed_of(const OpRecord& record, const Tensor& out, uint64_t number) {
  const bool turned = has_any_phase(record, out);
  const Tensor weights =
      SampleMaker(turned ? real_type(out.dtype()) : out.dtype(), out.device(), number).tensor(out.shape(), -1, 1);
  return turned ? weights * out.detach() : weights;
}

/// Gradients of the floating inputs, from weights that differ element by element.
inline Tensors gradients(const OpRecord& record, const Values& values, Device device = {}) {
  Tensors inputs;
  const Values leaves = mapped(values, [&](const Tensor& t) {
    if (!is_inexact(t.dtype())) return t;
    inputs.push_back(t.clone().detach().requires_grad_());
    return inputs.back();
  });
  Tensors outputs, seeds;
  for (const Tensor& out : call(record, leaves, device)) {
    if (!out.requires_grad()) continue;
    outputs.push_back(out);
    seeds.push_back(seed_of(record, out, 99 + outputs.size()));
  }
  if (outputs.empty()) return {};
  return grad(outputs, inputs, seeds, {.allow_unused = true});
}

/// The elements as doubles, also those of a device; of complex ones both parts.
inline std::vector<double> elements(const Tensor& t) {
  const Tensor host = t.detach().to(Device());
  return (is_complex(t.dtype()) ? view_as_real(host) : host).to_vector<double>();
}

inline ::testing::AssertionResult close(const Tensor& actual, const Tensor& expected, Tolerance tolerance) {
  if (!actual.defined() || !expected.defined()) {
    if (actual.defined() == expected.defined()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "one of two tensors is undefined";
  }
  if (!(actual.shape() == expected.shape())) {
    return ::testing::AssertionFailure() << "shape " << actual.shape().text() << " instead of "
                                         << expected.shape().text();
  }
  const std::vector<double> a = elements(actual), e = elements(expected);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]))) continue;
    if (std::fabs(a[i] - e[i]) <= tolerance.absolute + tolerance.relative * std::fabs(e[i])) continue;
    return ::testing::AssertionFailure() << "element " << i << " is " << a[i] << " instead of " << e[i];
  }
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult same(const Tensor& actual, const Tensor& expected) {
  if (actual.defined() && expected.defined() && actual.dtype() != expected.dtype()) {
    return ::testing::AssertionFailure() << "dtype " << name(actual.dtype()) << " instead of "
                                         << name(expected.dtype());
  }
  return close(actual, expected, {0, 0});
}

inline void expect_close(const Tensors& actual, const Tensors& expected, Tolerance tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_TRUE(close(actual[i], expected[i], tolerance)) << "output " << i;
}
inline void expect_same(const Tensors& actual, const Tensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_TRUE(same(actual[i], expected[i])) << "output " << i;
}

/// Whether a call takes numbers from the default generator.
inline bool draws(const OpRecord& record, const Values& values) {
  const GeneratorState before = default_generator().state();
  const RngForkGuard guard;
  record.call(values);
  return !(default_generator().state() == before);
}

}  // namespace weft::testing
