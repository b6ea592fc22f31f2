#include <fmt/format.h>

#include "func.hpp"
#include "../ops/axes.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/join.hpp"
#include "../tensor/generator.hpp"

namespace weft::func {

namespace {

/// What stands at `i`, or the only one.
template <class T>
const T& at(const std::vector<T>& list, size_t i, size_t count, const char* what) {
  if (list.size() == 1) return list[0];
  if (list.size() == count) return list[i];
  raise<ValueError>({.problem = fmt::format("{} {} for {} tensors", list.size(), what, count)});
}

/// How many examples there are.
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
  if (count == 0) raise<ValueError>({.problem = "there are no examples, so that outputs have no shape"});
  return count;
}

/// Keeps to what was said of random draws, from one example to the next.
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

/// Stacks the i-th of every example's tensors.
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
    out.push_back(stack(each, at(out_dims, i, count, "out_dims")));
  }
  return out;
}

Outputs mapped(const Function& f, const VmapOptions& options, std::span<const Tensor> inputs, Location where) {
  const CallScope call("func.vmap", where);
  const int64_t count = count_examples(inputs, options.in_dims);
  std::vector<std::vector<Tensor>> outputs, aux;
  Draws draws(options.randomness);
  for (int64_t n = 0; n < count; ++n) {
    std::vector<Tensor> example;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::optional<int> dim = at(options.in_dims, i, inputs.size(), "in_dims");
      example.push_back(dim ? inputs[i].select(*dim, n) : inputs[i]);
    }
    draws.before_example();
    Outputs out = [&] {
      const OutsideCalls users_code;
      return f(example);
    }();
    draws.after_example();
    outputs.push_back(std::move(out.tensors));
    aux.push_back(std::move(out.aux));
  }
  return {stacked(outputs, options.out_dims, "tensors"), stacked(aux, {0}, "aux")};
}

}  // namespace

Function vmap(const Function& f, VmapOptions options, Location where) {
  return [f, options = std::move(options), where](std::span<const Tensor> x) { return mapped(f, options, x, where); };
}

}  // namespace weft::func
