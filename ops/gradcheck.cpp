#include "gradcheck.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "detail/complex.hpp"
#include "../autograd/engine.hpp"
#include "../autograd/mode.hpp"

namespace weft {

namespace {

constexpr Device host{};

/// Copies of the inputs as leaves, made anew for every call of the function.
class Arguments {
 public:
  Arguments(const std::vector<Tensor>& inputs, const char* op, Location where) : where_(where) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& x = inputs[i];
      if (!x.defined()) raise<ValueError>({.op = op, .problem = fmt::format("input {} is undefined", i)}, where);
      checked_.push_back(x.requires_grad());
      devices_.push_back(x.device());
      values_.push_back(x.detach().to(host, where).clone(where));
      if (!checked_.back()) continue;
      any_ = true;
      if (x.dtype() == DType::f64) continue;
      raise<DTypeError>({.op = op,
                         .problem = fmt::format("input {} is {}; differences need float64", i, name(x.dtype())),
                         .remedy = "convert it with to(weft::f64) before requires_grad_()"},
                        where);
    }
    if (any_) return;
    raise<ValueError>(
        {.op = op, .problem = "no input requires a gradient", .remedy = "call requires_grad_() on those to check"},
        where);
  }

  size_t size() const { return values_.size(); }
  bool is_checked(size_t i) const { return checked_[i]; }
  /// The element of a checked input: for shifting and putting back.
  double& element(size_t i, int64_t k) const { return values_[i].data<double>()[k]; }
  int64_t numel(size_t i) const { return values_[i].numel(); }

  std::vector<Tensor> fresh() const {
    std::vector<Tensor> out;
    for (size_t i = 0; i < values_.size(); ++i) {
      Tensor x = values_[i].clone(where_).to(devices_[i], where_);
      if (checked_[i]) x.requires_grad_(true, where_);
      out.push_back(std::move(x));
    }
    return out;
  }

 private:
  Location where_;
  bool any_ = false;
  std::vector<Tensor> values_;
  std::vector<bool> checked_;
  std::vector<Device> devices_;
};

/// d output[j] / d input[k] in row-major order [j][k], for one pair.
using Jacobian = std::vector<double>;

std::vector<std::vector<double>> values_of(const std::vector<Tensor>& outputs, Location where) {
  std::vector<std::vector<double>> values;
  for (const Tensor& y : outputs) {
    values.push_back(is_floating(y.dtype()) ? y.detach().to_vector<double>(where) : std::vector<double>());
  }
  return values;
}

// Numbers without pattern in [-1, 1], away from 0: incoming gradients of a second derivative.
Tensor arbitrary_seed(const Tensor& like, uint64_t& state, Location where) {
  const Tensor seed = like.detach().to(host, where).clone(where);
  double* data = seed.data<double>(where);
  for (int64_t i = 0; i < seed.numel(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double unit = static_cast<double>(state >> 40) / static_cast<double>(1 << 24);
    data[i] = unit < 0.5 ? -1 + 1.6 * unit : 0.2 + 1.6 * (unit - 0.5);
  }
  return seed.to(like.device(), where);
}

bool takes_part(const Tensor& output) { return output.requires_grad() && output.dtype() == DType::f64; }

/// The comparison of one function's gradients.
class Checker {
 public:
  Checker(const GradcheckFunction& function, const std::vector<Tensor>& inputs, const GradcheckOptions& options,
          const char* op, Location where)
      : function_(function), options_(options), op_(op), where_(where), arguments_(inputs, op, where) {}

  GradcheckResult run() {
    EnableGradGuard record;
    const std::vector<Tensor> inputs = arguments_.fresh();
    const std::vector<Tensor> outputs = function_(inputs);
    std::vector<std::vector<Jacobian>> numeric(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!arguments_.is_checked(i)) continue;
      numeric[i] = differences(i, outputs);
      for (size_t o = 0; o < outputs.size(); ++o) {
        if (!is_floating(outputs[o].dtype())) continue;
        compare(o, i, outputs[o].numel(), analytic(outputs[o], inputs[i], o, i), numeric[i][o]);
        if (!result_.passed) return result_;
      }
    }
    check_together(inputs, outputs, numeric);
    return result_;
  }

 private:
  std::vector<std::vector<double>> evaluate() const { return values_of(function_(arguments_.fresh()), where_); }

  std::vector<Jacobian> differences(size_t input, const std::vector<Tensor>& outputs) const {
    const int64_t columns = arguments_.numel(input);
    std::vector<Jacobian> jacobians;
    for (const Tensor& y : outputs) jacobians.emplace_back(static_cast<size_t>(y.numel() * columns));
    for (int64_t k = 0; k < columns; ++k) {
      double& x = arguments_.element(input, k);
      const double kept = x;
      x = kept + options_.step;
      const auto above = evaluate();
      x = kept - options_.step;
      const auto below = evaluate();
      x = kept;
      for (size_t o = 0; o < outputs.size(); ++o) {
        for (size_t j = 0; j < above[o].size(); ++j) {
          jacobians[o][j * static_cast<size_t>(columns) + static_cast<size_t>(k)] =
              (above[o][j] - below[o][j]) / (2 * options_.step);
        }
      }
    }
    return jacobians;
  }

  // One backward pass for each element of the output.
  Jacobian analytic(const Tensor& output, const Tensor& input, size_t output_number, size_t input_number) {
    Jacobian rows;
    const auto columns = static_cast<size_t>(input.numel());
    if (!output.requires_grad()) return Jacobian(static_cast<size_t>(output.numel()) * columns, 0.0);
    for (int64_t j = 0; j < output.numel(); ++j) {
      const Tensor seed = output.detach().to(host, where_).clone(where_).zero_(where_);
      seed.view({-1}, where_).narrow(0, j, 1, where_).fill_(1, where_);
      const Tensor seeds[] = {seed.to(output.device(), where_)};
      const Tensor g = grad({&output, 1}, {&input, 1}, seeds, {.retain_graph = true, .allow_unused = true}, where_)[0];
      if (g.defined() && (!(g.shape() == input.shape()) || g.dtype() != input.dtype())) {
        fail(fmt::format("output {}, input {}: the gradient is {} {}, the input {} {}", output_number, input_number,
                         name(g.dtype()), g.shape().text(), name(input.dtype()), input.shape().text()));
        return {};
      }
      const std::vector<double> row = g.defined() ? g.to_vector<double>(where_) : std::vector<double>(columns, 0.0);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    return rows;
  }

  // All outputs and inputs in one pass, in both orders, since some may be ancestors of others.
  void check_together(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                      const std::vector<std::vector<Jacobian>>& numeric) {
    std::vector<Tensor> roots, seeds, wanted;
    std::vector<size_t> numbers;
    uint64_t state = 2;
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (!takes_part(outputs[o])) continue;
      roots.push_back(outputs[o]);
      seeds.push_back(arbitrary_seed(outputs[o], state, where_));
      numbers.push_back(o);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (arguments_.is_checked(i)) wanted.push_back(inputs[i]);
    }
    if (roots.size() < 2) return;
    for (int order = 0; order < 2; ++order) {
      const std::vector<Tensor> found =
          grad(roots, wanted, seeds, {.retain_graph = true, .allow_unused = true}, where_);
      for (size_t i = 0, next = 0; i < inputs.size(); ++i) {
        if (arguments_.is_checked(i)) compare_sum(i, inputs[i], found[next++], numbers, seeds, numeric[i]);
      }
      std::ranges::reverse(roots);
      std::ranges::reverse(seeds);
      std::ranges::reverse(numbers);
    }
  }

  void compare_sum(size_t input, const Tensor& x, const Tensor& found, const std::vector<size_t>& numbers,
                   const std::vector<Tensor>& seeds, const std::vector<Jacobian>& numeric) {
    const auto columns = static_cast<size_t>(x.numel());
    std::vector<double> expected(columns), size(columns);
    for (size_t r = 0; r < numbers.size(); ++r) {
      const std::vector<double> seed = seeds[r].to_vector<double>(where_);
      for (size_t at = 0; at < numeric[numbers[r]].size(); ++at) {
        const double term = seed[at / columns] * numeric[numbers[r]][at];
        expected[at % columns] += term;
        size[at % columns] += std::fabs(term);
      }
    }
    const std::vector<double> sum = found.defined() ? found.to_vector<double>(where_) : std::vector<double>(columns);
    for (size_t k = 0; k < columns && result_.passed; ++k) {
      if (std::fabs(sum[k] - expected[k]) <=
          options_.absolute * static_cast<double>(numbers.size()) + options_.relative * size[k]) {
        continue;
      }
      fail(
          fmt::format("the gradient of all {} outputs together for input {}, element {}, is {:.9g}; differences give "
                      "{:.9g}",
                      numbers.size(), input, k, sum[k], expected[k]));
    }
  }

  void compare(size_t output, size_t input, int64_t rows, const Jacobian& found, const Jacobian& expected) {
    if (!result_.passed || rows == 0) return;
    const size_t columns = expected.size() / static_cast<size_t>(rows);
    for (size_t at = 0; at < expected.size(); ++at) {
      const double bound = options_.absolute + options_.relative * std::fabs(expected[at]);
      if (std::fabs(found[at] - expected[at]) <= bound) continue;
      fail(
          fmt::format("the gradient of output {}, element {}, for input {}, element {}, is {:.9g}; differences give "
                      "{:.9g}",
                      output, at / columns, input, at % columns, found[at], expected[at]));
      return;
    }
  }

  void fail(std::string message) {
    result_ = {false, std::move(message)};
    if (!options_.raise_exception) return;
    raise<AutogradError>({.op = op_, .problem = result_.message}, where_);
  }

  const GradcheckFunction& function_;
  const GradcheckOptions& options_;
  const char* op_;
  Location where_;
  Arguments arguments_;
  GradcheckResult result_;
};

/// A function of pairs of real numbers where an input is complex, with pairs for complex outputs: the gradient of a
/// complex number is those of its parts.
struct OfReals {
  GradcheckFunction function;
  std::vector<Tensor> inputs;

  OfReals(const GradcheckFunction& given, const std::vector<Tensor>& of, Location where) {
    std::vector<bool> pairs;
    for (const Tensor& x : of) {
      const bool complex = x.defined() && is_complex(x.dtype());
      pairs.push_back(complex);
      inputs.push_back(complex ? detail::as_real(x.detach()).requires_grad_(x.requires_grad(where), where) : x);
    }
    function = [&given, pairs](std::span<const Tensor> x) {
      std::vector<Tensor> as_given(x.begin(), x.end());
      for (size_t i = 0; i < pairs.size(); ++i) {
        if (pairs[i]) as_given[i] = detail::as_complex(x[i]);
      }
      std::vector<Tensor> outputs = given(as_given);
      for (Tensor& y : outputs) y = detail::as_real(y);
      return outputs;
    };
  }
};

}  // namespace

GradcheckResult gradcheck(const GradcheckFunction& function, const std::vector<Tensor>& inputs,
                          GradcheckOptions options, Location where) {
  const OfReals reals(function, inputs, where);
  return Checker(reals.function, reals.inputs, options, "gradcheck", where).run();
}

GradcheckResult gradgradcheck(const GradcheckFunction& given, const std::vector<Tensor>& of, GradcheckOptions options,
                              Location where) {
  const OfReals reals(given, of, where);
  const GradcheckFunction& function = reals.function;
  const std::vector<Tensor>& inputs = reals.inputs;
  EnableGradGuard record;
  const Arguments arguments(inputs, "gradgradcheck", where);
  std::vector<Tensor> all = inputs;
  uint64_t state = 1;
  for (const Tensor& output : function(arguments.fresh())) {
    if (takes_part(output)) all.push_back(arbitrary_seed(output, state, where).requires_grad_(true, where));
  }
  const size_t count = inputs.size();
  const GradcheckFunction first_derivative = [&](std::span<const Tensor> x) {
    std::vector<Tensor> outputs, wanted;
    for (Tensor& output : function(x.first(count))) {
      if (takes_part(output)) outputs.push_back(std::move(output));
    }
    for (size_t i = 0; i < count; ++i) {
      if (x[i].requires_grad()) wanted.push_back(x[i]);
    }
    std::vector<Tensor> gradients =
        grad(outputs, wanted, x.subspan(count), {.create_graph = true, .allow_unused = true}, where);
    std::erase_if(gradients, [](const Tensor& g) { return !g.defined(); });
    std::ranges::move(outputs, std::back_inserter(gradients));  // what they lie below, or beside
    return gradients;
  };
  return Checker(first_derivative, all, options, "gradgradcheck", where).run();
}

}  // namespace weft
