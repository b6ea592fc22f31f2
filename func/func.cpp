#include "func.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../autograd/engine.hpp"
#include "../autograd/mode.hpp"
#include "../autograd/node.hpp"
#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/join.hpp"
#include "../ops/reduce.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::func {

void detail::check_count(size_t given, size_t wanted, Location where) {
  if (given == wanted) return;
  raise<ValueError>({.op = "func", .problem = fmt::format("a function of {} tensors was given {}", wanted, given)},
                    where);
}

Tensor Function::operator()(std::initializer_list<Tensor> inputs, Location where) const {
  const Outputs out = call_(std::span(inputs.begin(), inputs.size()));
  if (out.tensors.empty()) raise<ValueError>({.op = "func", .problem = "the function returned no tensor"}, where);
  return out.tensors.front();
}

namespace {

/// A tensor in place of `x` inside a function: gradients are computed for it, and flow on to x if x requires one.
Tensor traced(const Tensor& x) {
  check_floating(checked(x));
  if (grad_mode().enabled && x.requires_grad()) return x.view(x.shape());
  return x.detach().requires_grad_();
}

struct Traced {
  std::vector<Tensor> inputs, outputs, aux;
  bool keeps_graph;
};

Traced trace(const Function& f, const std::vector<Tensor>& inputs, bool create_graph) {
  Traced t;
  t.keeps_graph = create_graph;
  for (const Tensor& x : inputs) {
    t.keeps_graph |= grad_mode().enabled && checked(x).requires_grad();
    t.inputs.push_back(traced(x));
  }
  if (inputs.empty()) raise<ValueError>({.problem = "there is no input to differentiate"});
  Outputs out = [&] {
    const EnableGradGuard recorded;
    const OutsideCalls users_code;
    return f(t.inputs);
  }();
  if (out.tensors.empty()) raise<ValueError>({.problem = "the function returned no tensor"});
  for (const Tensor& y : out.tensors) check_floating(checked(y));
  t.outputs = std::move(out.tensors);
  for (const Tensor& y : out.aux) t.aux.push_back(t.keeps_graph ? checked(y) : checked(y).detach());
  return t;
}

std::vector<Tensor> released(std::vector<Tensor> results, bool keeps_graph) {
  if (keeps_graph) return results;
  for (Tensor& t : results) t = t.detach();
  return results;
}

void check_like(const std::vector<Tensor>& given, const std::vector<Tensor>& wanted, const char* what) {
  if (given.size() != wanted.size()) {
    raise_value("", fmt::format("{} {}s", wanted.size(), what), given.size());
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (checked(given[i]).shape() == wanted[i].shape()) continue;
    raise_shape(fmt::format("{} {}", what, i), wanted[i].shape(), given[i]);
  }
}

/// Weighted gradients of the outputs that depend on an input; zeros for inputs that no output depends on.
std::vector<Tensor> weighted_gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                                       const std::vector<Tensor>& weights, bool create_graph, bool strict) {
  std::vector<Tensor> connected, seeds;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    connected.push_back(outputs[i]);
    seeds.push_back(weights[i].to(outputs[i].dtype()));
  }
  std::vector<Tensor> gradients(inputs.size());
  if (!connected.empty()) {
    const EnableGradGuard recorded;
    gradients = weft::grad(connected, inputs, seeds,
                           {.retain_graph = true, .create_graph = create_graph, .allow_unused = true});
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (gradients[i].defined()) continue;
    if (strict) raise<AutogradError>({.problem = fmt::format("no output depends on input {}", i)});
    gradients[i] = zeros_like(inputs[i].detach());
  }
  return gradients;
}

std::vector<Tensor> zeros_like_all(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) out.push_back(zeros_like(t.detach()).requires_grad_());
  return out;
}

/// The gradients as a function of the cotangents, in which they are linear: their derivative gives the tangents.
struct Transposed {
  std::vector<Tensor> cotangents, gradients;

  Transposed(const Traced& t, bool strict) : cotangents(zeros_like_all(t.outputs)) {
    gradients = weighted_gradients(t.outputs, t.inputs, cotangents, true, strict);
  }
  std::vector<Tensor> along(const std::vector<Tensor>& tangents, bool create_graph) const {
    return weighted_gradients(gradients, cotangents, tangents, create_graph, false);
  }
};

int64_t elements(const std::vector<Tensor>& tensors) {
  int64_t n = 0;
  for (const Tensor& t : tensors) n += t.numel();
  return n;
}

/// Basis vector: 1 at element `at`, else 0.
Tensor basis(const Tensor& like, int64_t at) {
  const NoGradGuard unrecorded;
  const Tensor out = zeros({like.numel()}, {like.dtype(), like.device()});
  out.narrow(0, at, 1).fill_(1);
  return out.reshape(like.shape());
}

Dims joined(const Dims& a, const Dims& b) {
  Dims out = a;
  for (const int64_t size : b) out.push_back(size);
  return out;
}

using Matrix = std::vector<std::vector<Tensor>>;

/// Matrix [of][by]: `pass(of, element)` returns the derivatives of that element with respect to all of `by`.
template <class Pass>
Matrix by_rows(const std::vector<Tensor>& of, const std::vector<Tensor>& by, Pass&& pass) {
  Matrix all;
  for (size_t i = 0; i < of.size(); ++i) {
    std::vector<std::vector<Tensor>> rows(by.size());
    for (int64_t at = 0; at < of[i].numel(); ++at) {
      const std::vector<Tensor> row = pass(i, at);
      for (size_t j = 0; j < by.size(); ++j) rows[j].push_back(row[j]);
    }
    std::vector<Tensor>& line = all.emplace_back();
    for (size_t j = 0; j < by.size(); ++j) {
      const Dims shape = joined(of[i].shape(), by[j].shape());
      line.push_back(rows[j].empty() ? zeros(shape, {by[j].dtype(), by[j].device()}) : stack(rows[j]).reshape(shape));
    }
  }
  return all;
}

Matrix reverse_jacobian(const Traced& t, bool strict) {
  return by_rows(t.outputs, t.inputs, [&](size_t i, int64_t at) {
    return weighted_gradients({t.outputs[i]}, t.inputs, {basis(t.outputs[i], at)}, t.keeps_graph, strict);
  });
}

Matrix forward_jacobian(const Traced& t, bool strict) {
  const Transposed transposed(t, strict);
  const Matrix by_input = by_rows(t.inputs, t.outputs, [&](size_t i, int64_t at) {
    std::vector<Tensor> tangents;
    for (size_t j = 0; j < t.inputs.size(); ++j) {
      tangents.push_back(j == i ? basis(t.inputs[j], at) : zeros_like(t.inputs[j].detach()));
    }
    return transposed.along(tangents, t.keeps_graph);
  });
  Matrix all(t.outputs.size());
  for (size_t i = 0; i < t.outputs.size(); ++i) {
    const int outer = t.outputs[i].dim();
    for (size_t j = 0; j < t.inputs.size(); ++j) {
      const int inner = t.inputs[j].dim();
      Dims order;
      for (int d = 0; d < outer; ++d) order.push_back(inner + d);
      for (int d = 0; d < inner; ++d) order.push_back(d);
      all[i].push_back(by_input[j][i].permute(order));
    }
  }
  return all;
}

Matrix released(Matrix matrix, bool keeps_graph) {
  for (auto& line : matrix) line = released(std::move(line), keeps_graph);
  return matrix;
}

const Tensor& only_output(const Traced& t) {
  if (t.outputs.size() == 1 && t.outputs[0].numel() == 1) return t.outputs[0];
  raise<ShapeError>(
      {.problem = "the function must return one tensor of one element",
       .details = fmt::format("it returned {}, the first of shape {}", t.outputs.size(), t.outputs[0].shape().text())});
}

std::vector<Tensor> gradients_of(const Traced& t, bool create_graph, bool strict) {
  const Tensor& y = only_output(t);
  return weighted_gradients({y}, t.inputs, {ones_like(y.detach())}, create_graph, strict);
}

}  // namespace

std::vector<Tensor> Vjp::operator()(const std::vector<Tensor>& cotangents, Location where) const {
  const CallScope call("func.vjp", where);
  check_like(cotangents, traced_outputs, "cotangent");
  bool keeps_graph = options.create_graph;
  for (const Tensor& t : cotangents) keeps_graph |= grad_mode().enabled && t.requires_grad();
  return released(weighted_gradients(traced_outputs, traced_inputs, cotangents, keeps_graph, options.strict),
                  keeps_graph);
}

Vjp vjp(const Function& f, const std::vector<Tensor>& inputs, Options options, Location where) {
  const CallScope call("func.vjp", where);
  Traced t = trace(f, inputs, options.create_graph);
  return {released(t.outputs, t.keeps_graph), t.aux, t.inputs, t.outputs, {t.keeps_graph, options.strict}};
}

Jvp jvp(const Function& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents, Options options,
        Location where) {
  const CallScope call("func.jvp", where);
  Traced t = trace(f, inputs, options.create_graph);
  check_like(tangents, t.inputs, "tangent");
  for (const Tensor& v : tangents) t.keeps_graph |= grad_mode().enabled && v.requires_grad();
  const Transposed transposed(t, options.strict);
  return {released(t.outputs, t.keeps_graph), released(transposed.along(tangents, t.keeps_graph), t.keeps_graph),
          t.aux};
}

std::vector<std::vector<Tensor>> jacobian(const Function& f, const std::vector<Tensor>& inputs, JacobianOptions options,
                                          Location where) {
  const CallScope call("func.jacobian", where);
  const Traced t = trace(f, inputs, options.create_graph);
  const bool fewer_inputs = elements(t.inputs) < elements(t.outputs);
  const bool forward =
      options.mode == JacobianMode::forward || (options.mode == JacobianMode::automatic && fewer_inputs);
  return released(forward ? forward_jacobian(t, options.strict) : reverse_jacobian(t, options.strict), t.keeps_graph);
}

std::vector<std::vector<Tensor>> hessian(const Function& f, const std::vector<Tensor>& inputs, Options options,
                                         Location where) {
  const CallScope call("func.hessian", where);
  Traced t = trace(f, inputs, options.create_graph);
  t.outputs = gradients_of(t, true, options.strict);
  return released(reverse_jacobian(t, options.strict), t.keeps_graph);
}

Hvp hvp(const Function& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& direction, Options options,
        Location where) {
  const CallScope call("func.hvp", where);
  Traced t = trace(f, inputs, options.create_graph);
  check_like(direction, t.inputs, "direction");
  for (const Tensor& v : direction) t.keeps_graph |= grad_mode().enabled && v.requires_grad();
  const std::vector<Tensor> slopes = gradients_of(t, true, options.strict);
  const std::vector<Tensor> products = weighted_gradients(slopes, t.inputs, direction, t.keeps_graph, options.strict);
  return {released({t.outputs[0]}, t.keeps_graph)[0], released(products, t.keeps_graph)};
}

namespace {

/// The gradients, preceded by the value if `with_value`.
Outputs gradients_at(const Function& f, const std::vector<int>& argnums, std::span<const Tensor> inputs,
                     bool with_value, Location where) {
  const CallScope call("func.grad", where);
  std::vector<Tensor> differentiated;
  std::vector<size_t> places;
  for (const int given : argnums) {
    const int count = static_cast<int>(inputs.size()), place = given < 0 ? given + count : given;
    if (place < 0 || place >= count) {
      raise<IndexError>({.problem = fmt::format("there is no argument {} among {}", given, count)});
    }
    places.push_back(static_cast<size_t>(place));
    differentiated.push_back(inputs[static_cast<size_t>(place)]);
  }
  bool create_graph = false;
  for (const Tensor& t : inputs) create_graph |= grad_mode().enabled && checked(t).requires_grad();
  const Traced t = trace(
      [&](std::span<const Tensor> x) {
        std::vector<Tensor> all(inputs.begin(), inputs.end());
        for (size_t i = 0; i < places.size(); ++i) all[places[i]] = x[i];
        return f(all);
      },
      differentiated, create_graph);
  std::vector<Tensor> results = gradients_of(t, t.keeps_graph, false);
  if (with_value) results.insert(results.begin(), t.outputs[0]);
  return {released(std::move(results), t.keeps_graph), t.aux};
}

}  // namespace

Function grad(const Function& f, std::vector<int> argnums, Location where) {
  return [f, argnums = std::move(argnums), where](std::span<const Tensor> x) {
    return gradients_at(f, argnums, x, false, where);
  };
}
Function grad_and_value(const Function& f, std::vector<int> argnums, Location where) {
  return [f, argnums = std::move(argnums), where](std::span<const Tensor> x) {
    return gradients_at(f, argnums, x, true, where);
  };
}

}  // namespace weft::func
