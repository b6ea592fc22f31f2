#include "../foreach.hpp"

#include "../../autograd/autocast.hpp"
#include "../create.hpp"
#include "../detail/common.hpp"
#include "../detail/records.hpp"
#include "../detail/write.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../detail/parts.hpp"

namespace weft {

namespace {

void check_lengths(TensorList first, std::initializer_list<TensorList> others) {
  for (const TensorList& other : others) {
    if (other.size() == first.size()) continue;
    raise<ValueError>({.problem = fmt::format("lists of {} and {} tensors", first.size(), other.size())});
  }
}

template <class Op>
std::vector<Tensor> each(TensorList tensors, std::initializer_list<TensorList> others, Op&& op) {
  check_lengths(tensors, others);
  std::vector<Tensor> results;
  results.reserve(tensors.size());
  const detail::AutocastModeGuard as_given({});
  for (size_t i = 0; i < tensors.size(); ++i) results.push_back(op(i));
  return results;
}

// Without elements, except for host scalars, whose value is checked.
Tensor without_elements(const Tensor& operand) {
  return operand.dim() == 0 && operand.device().is_cpu() ? operand : on_meta(operand);
}

// Runs write(target, operands) on each tensor, after all of them have been tried without elements.
template <size_t n, class Write>
void write_each(TensorList targets, const TensorList (&others)[n], Write&& write) {
  const detail::AutocastModeGuard as_given({});
  for (const TensorList& other : others) check_lengths(targets, {other});
  for (size_t i = 0; i < targets.size(); ++i) {
    check_target(targets[i]);
    Tensor operands[n];
    for (size_t k = 0; k < n; ++k) {
      check_in_place_device(targets[i], checked(others[k][i]));
      operands[k] = without_elements(others[k][i]);
    }
    const NoGradGuard unrecorded;
    write(on_meta(targets[i]), operands);
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    Tensor operands[n];
    for (size_t k = 0; k < n; ++k) operands[k] = others[k][i];
    write(targets[i], operands);
  }
}
// The same where the op takes nothing from a second list.
template <class Write>
void write_each(TensorList targets, Write&& write) {
  const detail::AutocastModeGuard as_given({});
  for (const Tensor& target : targets) {
    check_target(target);
    const NoGradGuard unrecorded;
    write(on_meta(target));
  }
  for (const Tensor& target : targets) write(target);
}

// ---- records --------------------------------------------------------------------------------------------------------

std::vector<Tensor> sample_list(SampleMaker& make, double low, double high) {
  return {make.tensor({2, 3}, low, high), make.tensor({}, low, high), make.tensor({0, 2}), make.tensor({4}, low, high)};
}
std::vector<Values> unary_samples(SampleMaker& make) { return {{sample_list(make, 0.2, 3)}}; }
std::vector<Values> binary_samples(SampleMaker& make) {
  const Value number = is_inexact(make.dtype()) ? Value(1.5) : Value(int64_t{2});
  return {{sample_list(make, 0.2, 3), sample_list(make, 0.5, 3)}, {sample_list(make, 0.2, 3), number}};
}
std::vector<Values> scaled_samples(SampleMaker& make) {
  std::vector<Values> samples = binary_samples(make);
  const Value factor = is_inexact(make.dtype()) ? Value(-1.5) : Value(int64_t{2});
  samples.push_back({sample_list(make, -3, 3), sample_list(make, -3, 3), factor});
  return samples;
}
std::vector<Values> ternary_samples(SampleMaker& make) {
  const Value factor = is_inexact(make.dtype()) ? Value(-1.5) : Value(int64_t{2});
  return {{sample_list(make, -3, 3), sample_list(make, -3, 3), sample_list(make, 0.5, 3)},
          {sample_list(make, -3, 3), sample_list(make, -3, 3), sample_list(make, 0.5, 3), factor}};
}
std::vector<Values> lerp_samples(SampleMaker& make) {
  return {{sample_list(make, -3, 3), sample_list(make, -3, 3), 0.25}};
}

// A list of tensors, or one operand for all.
template <class OfLists, class OfOne>
auto either(const Value& other, OfLists&& of_lists, OfOne&& of_one) {
  if (const auto* list = std::get_if<std::vector<Tensor>>(&other)) return of_lists(TensorList(*list));
  if (const auto* tensor = std::get_if<Tensor>(&other)) return of_one(Operand(*tensor, Location::none()));
  const bool number = std::holds_alternative<bool>(other) || std::holds_alternative<int64_t>(other) ||
                      std::holds_alternative<double>(other);
  if (!number) throw BadArgument(1);
  return of_one(Operand(detail::number_in(other), Location::none()));
}
using WithLists = std::vector<Tensor> (*)(TensorList, TensorList, Location);
using WithOne = std::vector<Tensor> (*)(TensorList, const Operand&);
using Scaled = std::vector<Tensor> (*)(TensorList, TensorList, Scalar, Location);
template <WithLists lists, WithOne one>
std::vector<Tensor> call_binary(const std::vector<Tensor>& tensors, const Value& other) {
  return either(
      other, [&](TensorList others) { return lists(tensors, others, {}); },
      [&](const Operand& number) { return one(tensors, number); });
}
template <Scaled lists, WithOne one>
std::vector<Tensor> call_scaled(const std::vector<Tensor>& tensors, const Value& other, Scalar alpha) {
  return either(
      other, [&](TensorList others) { return lists(tensors, others, alpha, {}); },
      [&](const Operand& number) { return one(tensors, number); });
}

constexpr auto numeric = OpRecord::Domain::numeric;
constexpr auto floating = OpRecord::Domain::floating;
#define WEFT_FOREACH_RECORD(name)                                                                                     \
  {"foreach_" #name,     "foreach_" #name "(tensors)",        #name " of each tensor.", true, numeric, unary_samples, \
   parts::each_of_lists, detail::boxed<&weft::foreach_##name>},
#define WEFT_FOREACH_BINARY_RECORD(name)                    \
  {"foreach_" #name,                                        \
   "foreach_" #name "(tensors, other)",                     \
   #name " of each tensor and its partner, or one number.", \
   true,                                                    \
   numeric,                                                 \
   binary_samples,                                          \
   parts::each_of_lists,                                    \
   detail::boxed<&call_binary<&weft::foreach_##name, &weft::foreach_##name>>},
constexpr OpRecord records[] = {
    WEFT_FOREACH_UNARY(WEFT_FOREACH_RECORD) WEFT_FOREACH_BINARY(WEFT_FOREACH_BINARY_RECORD){
        "foreach_add", "foreach_add(tensors, other, *, alpha=1)", "Each tensor + alpha * its partner, or one number.",
        true, numeric, scaled_samples, parts::each_of_lists,
        detail::boxed<&call_scaled<&weft::foreach_add, &weft::foreach_add>>},
    {"foreach_sub", "foreach_sub(tensors, other, *, alpha=1)", "Each tensor - alpha * its partner, or one number.",
     true, numeric, scaled_samples, parts::each_of_lists,
     detail::boxed<&call_scaled<&weft::foreach_sub, &weft::foreach_sub>>},
    {"foreach_addcmul", "foreach_addcmul(a, b, c, value=1)", "a + value * b * c of each three tensors.", true, numeric,
     ternary_samples, parts::each_of_lists, detail::boxed<&weft::foreach_addcmul>},
    {"foreach_addcdiv", "foreach_addcdiv(a, b, c, value=1)", "a + value * b / c of each three tensors.", true, floating,
     ternary_samples, parts::each_of_lists, detail::boxed<&weft::foreach_addcdiv>},
    {"foreach_lerp", "foreach_lerp(a, b, weight)", "a + weight * (b - a) of each two tensors.", true, floating,
     lerp_samples, parts::each_of_lists, detail::boxed<&weft::foreach_lerp>},
    {"foreach_norm", "foreach_norm(tensors, order|ord=2.0)", "The norm of each tensor.", true, floating, unary_samples,
     parts::whole, detail::boxed<&weft::foreach_norm>},
};

}  // namespace

std::span<const OpRecord> foreach_records() { return records; }

#define WEFT_DEFINE_FOREACH(name)                                               \
  std::vector<Tensor> foreach_##name(TensorList tensors, Location where) {      \
    const CallScope call("foreach_" #name, where);                              \
    return each(tensors, {}, [&](size_t i) { return weft::name(tensors[i]); }); \
  }                                                                             \
  void foreach_##name##_(TensorList tensors, Location where) {                  \
    const CallScope call("foreach_" #name "_", where);                          \
    write_each(tensors, [](const Tensor& target) { weft::name##_(target); });   \
  }
WEFT_FOREACH_UNARY(WEFT_DEFINE_FOREACH)
#undef WEFT_DEFINE_FOREACH

// With one operand for all.
#define WEFT_DEFINE_FOREACH(name)                                                      \
  std::vector<Tensor> foreach_##name(TensorList tensors, const Operand& other) {       \
    const CallScope call("foreach_" #name, other.where);                               \
    return each(tensors, {}, [&](size_t i) { return weft::name(tensors[i], other); }); \
  }                                                                                    \
  void foreach_##name##_(TensorList tensors, const Operand& other) {                   \
    const CallScope call("foreach_" #name "_", other.where);                           \
    write_each(tensors, [&](const Tensor& target) { weft::name##_(target, other); });  \
  }
WEFT_FOREACH_BINARY(WEFT_DEFINE_FOREACH)
WEFT_DEFINE_FOREACH(add)
WEFT_DEFINE_FOREACH(sub)
#undef WEFT_DEFINE_FOREACH

#define WEFT_DEFINE_FOREACH(name)                                                                              \
  std::vector<Tensor> foreach_##name(TensorList tensors, TensorList others, Location where) {                  \
    const CallScope call("foreach_" #name, where);                                                             \
    return each(tensors, {others}, [&](size_t i) { return weft::name(tensors[i], others[i]); });               \
  }                                                                                                            \
  void foreach_##name##_(TensorList tensors, TensorList others, Location where) {                              \
    const CallScope call("foreach_" #name "_", where);                                                         \
    write_each(tensors, {others}, [](const Tensor& target, const Tensor* b) { weft::name##_(target, b[0]); }); \
  }
WEFT_FOREACH_BINARY(WEFT_DEFINE_FOREACH)
#undef WEFT_DEFINE_FOREACH

#define WEFT_DEFINE_FOREACH(name)                                                                               \
  std::vector<Tensor> foreach_##name(TensorList tensors, TensorList others, Scalar alpha, Location where) {     \
    const CallScope call("foreach_" #name, where);                                                              \
    return each(tensors, {others}, [&](size_t i) { return weft::name(tensors[i], others[i], alpha); });         \
  }                                                                                                             \
  void foreach_##name##_(TensorList tensors, TensorList others, Scalar alpha, Location where) {                 \
    const CallScope call("foreach_" #name "_", where);                                                          \
    write_each(tensors, {others}, [&](const Tensor& target, const Tensor* b) { target.name##_(b[0], alpha); }); \
  }
WEFT_DEFINE_FOREACH(add)
WEFT_DEFINE_FOREACH(sub)
#undef WEFT_DEFINE_FOREACH

#define WEFT_DEFINE_FOREACH(name)                                                                              \
  std::vector<Tensor> foreach_##name(TensorList a, TensorList b, TensorList c, Scalar value, Location where) { \
    const CallScope call("foreach_" #name, where);                                                             \
    return each(a, {b, c}, [&](size_t i) { return weft::name(a[i], b[i], c[i], value); });                     \
  }                                                                                                            \
  void foreach_##name##_(TensorList a, TensorList b, TensorList c, Scalar value, Location where) {             \
    const CallScope call("foreach_" #name "_", where);                                                         \
    write_each(a, {b, c}, [&](const Tensor& target, const Tensor* of) {                                        \
      write_computed(                                                                                          \
          target, [&](const Tensor& old) { return weft::name(old, of[0], of[1], value); }, of[0], of[1]);      \
    });                                                                                                        \
  }
WEFT_DEFINE_FOREACH(addcmul)
WEFT_DEFINE_FOREACH(addcdiv)
#undef WEFT_DEFINE_FOREACH

std::vector<Tensor> foreach_lerp(TensorList a, TensorList b, Scalar weight, Location where) {
  const CallScope call("foreach_lerp", where);
  return each(a, {b}, [&](size_t i) { return lerp(a[i], b[i], weight); });
}
void foreach_lerp_(TensorList a, TensorList b, Scalar weight, Location where) {
  const CallScope call("foreach_lerp_", where);
  write_each(a, {b}, [&](const Tensor& target, const Tensor* of) {
    write_computed(
        target, [&](const Tensor& old) { return lerp(old, of[0], weight); }, of[0]);
  });
}

std::vector<Tensor> foreach_norm(TensorList tensors, double order, Location where) {
  const CallScope call("foreach_norm", where);
  return each(tensors, {}, [&](size_t i) { return vector_norm(tensors[i], order); });
}
void foreach_zero_(TensorList tensors, Location where) {
  const CallScope call("foreach_zero_", where);
  write_each(tensors, [](const Tensor& target) { target.zero_(); });
}
void foreach_copy_(TensorList tensors, TensorList sources, Location where) {
  const CallScope call("foreach_copy_", where);
  check_lengths(tensors, {sources});
  for (size_t i = 0; i < tensors.size(); ++i) {
    check_target(tensors[i]);
    on_meta(tensors[i]).copy_(on_meta(checked(sources[i])));
  }
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(sources[i]);
}

}  // namespace weft
