// Checks an op from its record alone, one of the library's own or a registered one, without a test framework:
//
//   const auto report = weft::testing::check_op("my::cube");
//   if (!report.passed()) std::cerr << report.text();
#pragma once

#include <string>
#include <vector>

#include "record.hpp"
#include "../tensor/callback.hpp"

namespace weft::testing {

struct CheckOpOptions {
  /// Expected results, computed independently of the op. Compared if set.
  Callback<std::vector<Tensor>(std::span<const Value> arguments)> reference = {};
  /// The largest difference between two ways to compute f32: absolute + relative * |expected|; f64 is held to a
  /// thousandth of both.
  double relative = 1e-5, absolute = 1e-6;
};

struct CheckOpReport {
  struct Finding {
    /// "gradient", "strides", "meta", …
    std::string check;
    std::string problem;
  };
  std::string op;
  /// The checks made, with the number of calls: "values 4".
  std::vector<std::string> done;
  /// Checks left out, with the reason: "gradient: the op is not differentiable".
  std::vector<std::string> skipped;
  std::vector<Finding> findings;

  bool passed() const { return findings.empty(); }
  /// One line per finding, then the lists of checks made and left out.
  WEFT_API std::string text() const;
};

/// Calls the op on its samples and compares: with the reference, equal results of two calls; no writes to arguments
/// that are not declared as written; gradients and second gradients with finite differences; shapes and dtypes with
/// `infer`; operands with gaps, transposed and expanded; samples cut to no elements; the tensor written in place with
/// the returned one; and each available device with the CPU. Raises ValueError if the op does not exist or has no
/// samples. The op's own errors are findings.
WEFT_API CheckOpReport check_op(const char* name, const CheckOpOptions& options = {}, Location where = {});

}  // namespace weft::testing
