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
  /// What the op should give, computed in another way: compared where it is set.
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
  /// What was checked, each by the number of calls: "values 4".
  std::vector<std::string> done;
  /// What was not, and why: "gradient: the op is not differentiable".
  std::vector<std::string> skipped;
  std::vector<Finding> findings;

  bool passed() const { return findings.empty(); }
  /// A line for each finding, then what was checked and what was not.
  WEFT_API std::string text() const;
};

/// Calls the op on its samples and compares: with the reference, twice the same, without changing what it is given and
/// is not said to write; gradients and second gradients with differences; shapes and dtypes with `infer`; operands with
/// gaps, transposed and expanded; samples cut to no elements; what is written in place with the tensor that comes back;
/// and every kind of device that is there with the CPU. ValueError where there is no such op or where it has no
/// samples. The op's own errors are findings.
WEFT_API CheckOpReport check_op(const char* name, const CheckOpOptions& options = {}, Location where = {});

}  // namespace weft::testing
