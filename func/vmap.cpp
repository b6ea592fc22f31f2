#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "batch.hpp"
#include "func.hpp"
#include "../autograd/mode.hpp"
#include "../ops/axes.hpp"
#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/join.hpp"
#include "../ops/pointwise.hpp"
#include "../ops/reduce.hpp"
#include "../tensor/generator.hpp"

namespace weft::func {

namespace {

/// The entry at `i`, or the only one.
template <class T>
const T& at(const std::vector<T>& list, size_t i, size_t count, const char* what) {
  if (list.size() == 1) return list[0];
  if (list.size() == count) return list[i];
  raise<ValueError>({.problem = fmt::format("{} {} for {} tensors", list.size(), what, count)});
}

int64_t count_examples(std::span<const Tensor> inputs, const std::vector<std::optional<int>>& in_dims) {
  int64_t count = -1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::optional<int> dim = at(in_dims, i, inputs.size(), "in_dims");
    if (!dim) continue;
    const int64_t own = checked(inputs[i]).size(*dim);
    if (count >= 0 && own != count) {
      raise<ValueError>({.problem = fmt::format("input {} has {} examples, those before have {}", i, own, count),
                         .details = fmt::format("it is {}, dimension {}", describe(inputs[i]), *dim)});
    }
    count = own;
  }
  if (count < 0) raise<ValueError>({.problem = "no input has examples: in_dims has no dimension"});
  return count;
}

/// Enforces the randomness option from one example to the next.
class Draws {
 public:
  explicit Draws(Randomness randomness) : randomness_(randomness) {
    for (const Device device : devices_with_generators()) {
      generators_.emplace_back(&default_generator(device), default_generator(device).state());
    }
  }
  void before_example() {
    if (randomness_ != Randomness::same) return;
    for (auto& [generator, state] : generators_) generator->set_state(state);
  }
  void after_example() {
    if (randomness_ != Randomness::error) return;
    for (auto& [generator, state] : generators_) {
      if (generator->state() == state) continue;
      raise<ValueError>(
          {.problem = "the function draws random numbers", .remedy = "say Randomness::different or Randomness::same"});
    }
  }

 private:
  Randomness randomness_;
  std::vector<std::pair<Generator*, GeneratorState>> generators_;
};

/// Restores the states of the default generators at destruction.
class RestoreGenerators {
 public:
  RestoreGenerators() {
    for (const Device device : devices_with_generators()) {
      generators_.emplace_back(&default_generator(device), default_generator(device).state());
    }
  }
  ~RestoreGenerators() {
    for (auto& [generator, state] : generators_) {
      if (!(generator->state() == state)) generator->set_state(state);
    }
  }
  RestoreGenerators(const RestoreGenerators&) = delete;

 private:
  std::vector<std::pair<Generator*, GeneratorState>> generators_;
};

/// A dimension for each output, then one for each aux.
std::pair<std::vector<int>, std::vector<int>> dims_of_outputs(const std::vector<int>& out_dims, size_t outputs,
                                                              size_t aux) {
  std::pair<std::vector<int>, std::vector<int>> dims;
  for (size_t i = 0; i < outputs + aux; ++i) {
    (i < outputs ? dims.first : dims.second).push_back(at(out_dims, i, outputs + aux, "out_dims"));
  }
  return dims;
}

std::vector<Tensor> stacked(const std::vector<std::vector<Tensor>>& examples, const std::vector<int>& out_dims,
                            const char* what) {
  std::vector<Tensor> out;
  const size_t count = examples[0].size();
  for (size_t i = 0; i < count; ++i) {
    std::vector<Tensor> each;
    for (const auto& example : examples) {
      if (example.size() == count) {
        each.push_back(example[i]);
        continue;
      }
      raise<ValueError>({.problem = fmt::format("the function returned {} {} for one example and {} for another", count,
                                                what, example.size())});
    }
    out.push_back(stack(each, out_dims[i]));
  }
  return out;
}

struct Call {
  const Function& f;
  const VmapOptions& options;
  std::span<const Tensor> inputs;
  int64_t count;
  Draws draws;

  std::optional<int> dim(size_t i) const { return at(options.in_dims, i, inputs.size(), "in_dims"); }
  /// Calls f with one example.
  Outputs of(const std::vector<Tensor>& example) {
    draws.before_example();
    Outputs out = [&] {
      const OutsideCalls users_code;
      return f(example);
    }();
    draws.after_example();
    return out;
  }
};

/// Whether f may run once for all examples: no gradient flows to the inputs, and no step is being recorded.
bool may_run_at_once(const Call& call) {
  if (call.count == 1 || weft::detail::capture_recorder != nullptr) return false;
  return std::ranges::all_of(
      call.inputs, [](const Tensor& x) { return x.device().is_cpu() && !(grad_mode().enabled && x.requires_grad()); });
}

std::vector<Tensor> of_all(detail::Batch& batch, const std::vector<Tensor>& examples,
                           const std::vector<int>& out_dims) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < examples.size(); ++i) {
    out.push_back(batch.all_of(examples[i]).movedim(0, out_dims[i]));
  }
  return out;
}

bool has_graph(const std::vector<Tensor>& tensors) {
  return std::ranges::any_of(tensors, [](const Tensor& t) { return checked(t).requires_grad(); });
}

/// The result of f for all examples if `complete`, otherwise for the first one. No outputs if f must run again.
struct BatchedResult {
  bool complete = false;
  std::optional<Outputs> outputs;
};
BatchedResult run_at_once(Call& call) {
  detail::Batch batch(call.count, call.options.randomness == Randomness::same);
  std::vector<Tensor> example;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const std::optional<int> dim = call.dim(i);
    example.push_back(dim ? batch.example_of(call.inputs[i], *dim) : call.inputs[i]);
  }
  Outputs first = call.of(example);
  if (batch.wrote_inputs()) return {};
  if (batch.refused() || has_graph(first.tensors) || has_graph(first.aux)) return {false, std::move(first)};
  const auto [dims, aux_dims] = dims_of_outputs(call.options.out_dims, first.tensors.size(), first.aux.size());
  return {true, Outputs(of_all(batch, first.tensors, dims), of_all(batch, first.aux, aux_dims))};
}

/// A placeholder example on the graph of x. Ones, identity matrices and index 0 are valid for most functions.
Tensor stand_in(const Tensor& x, int dim) {
  const Tensor zero = sum(x, dim).to(x.dtype());
  if (!is_floating(x.dtype()) && !is_complex(x.dtype())) return zero;
  const auto sizes = zero.sizes();
  if (sizes.size() < 2) return zero + 1;
  return zero + eye(sizes[sizes.size() - 2], sizes.back(), {zero.dtype(), zero.device()});
}

/// Result for a batch without examples, with the shapes of a placeholder's outputs. The generators' states are
/// restored.
Outputs mapped_of_none(Call& call) {
  const RestoreGenerators draws;
  std::vector<Tensor> example;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const std::optional<int> dim = call.dim(i);
    example.push_back(dim ? stand_in(call.inputs[i], *dim) : call.inputs[i]);
  }
  const Outputs one = call.of(example);
  const auto none_of = [](const std::vector<Tensor>& tensors, const std::vector<int>& out_dims) {
    std::vector<Tensor> out;
    for (size_t i = 0; i < tensors.size(); ++i) {
      out.push_back(tensors[i].unsqueeze(out_dims[i]).narrow(out_dims[i], 0, 0));
    }
    return out;
  };
  const auto [dims, aux_dims] = dims_of_outputs(call.options.out_dims, one.tensors.size(), one.aux.size());
  return {none_of(one.tensors, dims), none_of(one.aux, aux_dims)};
}

Outputs mapped(const Function& f, const VmapOptions& options, std::span<const Tensor> inputs, Location where) {
  const CallScope scope("func.vmap", where);
  const int64_t count = count_examples(inputs, options.in_dims);
  Call call{f, options, inputs, count, Draws(options.randomness)};
  if (count == 0) return mapped_of_none(call);
  BatchedResult begun;
  if (may_run_at_once(call)) begun = run_at_once(call);
  if (begun.complete) return std::move(*begun.outputs);
  std::vector<std::vector<Tensor>> outputs, aux;
  for (int64_t n = 0; n < count; ++n) {
    std::vector<Tensor> example;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::optional<int> dim = call.dim(i);
      example.push_back(dim ? inputs[i].select(*dim, n) : inputs[i]);
    }
    Outputs out = n == 0 && begun.outputs ? std::move(*begun.outputs) : call.of(example);
    outputs.push_back(std::move(out.tensors));
    aux.push_back(std::move(out.aux));
  }
  const auto [dims, aux_dims] = dims_of_outputs(options.out_dims, outputs[0].size(), aux[0].size());
  return {stacked(outputs, dims, "tensors"), stacked(aux, aux_dims, "aux")};
}

}  // namespace

Function vmap(const Function& f, VmapOptions options, Location where) {
  return [f, options = std::move(options), where](std::span<const Tensor> x) { return mapped(f, options, x, where); };
}

}  // namespace weft::func
