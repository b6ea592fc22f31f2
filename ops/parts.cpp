// Rules of families of ops: how each works on parts of its tensors.
#include "detail/parts.hpp"

#include <algorithm>
#include <numeric>

#include "../autograd/mode.hpp"
#include "../tensor/layout.hpp"
#include "create.hpp"
#include "detail/common.hpp"
#include "pointwise.hpp"
#include "reduce.hpp"

namespace weft::parts {

// ---- building blocks of rules ----

std::string letters(int n, char first) {
  std::string word(static_cast<size_t>(n), first);
  std::iota(word.begin(), word.end(), first);
  return word;
}

std::string uncut(const Tensor& t) { return std::string(static_cast<size_t>(t.dim()), '1'); }

std::string notation(std::span<const std::string> inputs, std::span<const std::string> results) {
  std::string text;
  for (size_t i = 0; i < inputs.size(); ++i) text += (i == 0 ? "" : ",") + inputs[i];
  text += "->";
  for (size_t i = 0; i < results.size(); ++i) text += (i == 0 ? "" : ",") + results[i];
  return text;
}
std::string notation(std::initializer_list<std::string> inputs, std::initializer_list<std::string> results) {
  return notation(std::span(inputs.begin(), inputs.size()), std::span(results.begin(), results.size()));
}

std::string beside_diagonal(const WholeCall& call, int rank) {
  std::string word(static_cast<size_t>(rank), '2');
  for (const char* dim : {"dim1", "dim2"})
    word[static_cast<size_t>(wrap_dim(detail::integer_in(call[dim]), rank))] = '1';
  char letter = 'a';
  for (char& c : word) c = c == '2' ? letter++ : c;
  return word;
}

Dims dims_of(const Value& v, int rank) {
  Dims dims;
  if (rank == 0) return dims;
  // var and std take `unbiased` in the place of dim.
  if (!std::holds_alternative<std::monostate>(v) && !std::holds_alternative<bool>(v)) {
    for (const int64_t d : detail::dims_in(v)) dims.push_back(wrap_dim(d, rank));
  }
  if (dims.empty()) {
    for (int d = 0; d < rank; ++d) dims.push_back(d);
  }
  return dims;
}

namespace {

/// The name of this op's argument for dimensions, or nullptr.
const char* dims_argument(const WholeCall& call) {
  for (const char* name : {"dim", "dims", "axis", "axes"}) {
    const std::vector<Argument>& all = call.record().signature().arguments;
    if (std::ranges::find(all, name, &Argument::name) != all.end()) return name;
  }
  return nullptr;
}

/// The word of x without dimensions that are never cut.
std::string without(const std::string& word, const std::vector<bool>& fixed) {
  std::string out;
  for (size_t d = 0; d < word.size(); ++d) {
    if (!fixed[d]) out += word[d];
  }
  return out;
}

/// The result of the call with every element of a loss.
Tensor unreduced(const WholeCall& call) {
  Values arguments = call.arguments();
  const std::vector<Argument>& all = call.record().signature().arguments;
  const auto at = std::ranges::find(all, "reduction", &Argument::name) - all.begin();
  arguments[static_cast<size_t>(at)] = std::string("none");
  return WholeCall(call.record(), arguments).results().at(0);
}

/// A loss of these words without a reduction, with the one that was asked for.
Partition with_reduction(const WholeCall& call, const std::vector<std::string>& inputs, const std::string& result) {
  const std::string& reduction = std::get<std::string>(call["reduction"]);
  if (reduction == "none") return {.letters = notation(inputs, std::vector{result})};
  Partition rule{.letters = notation(inputs, std::vector<std::string>{""})};
  if (reduction == "sum") return rule;
  const Tensor losses = unreduced(call);
  const int64_t count = reduction != "batchmean" ? losses.numel() : losses.dim() == 0 ? 1 : losses.size(0);
  rule.on_parts = [count](PartCall& part) -> Value {
    part["reduction"] = std::string("sum");
    return share_of_mean(std::get<Tensor>(part.run()), count);
  };
  return rule;
}

std::vector<Dims> shapes_of(const std::vector<Tensor>& tensors) {
  std::vector<Dims> shapes;
  for (const Tensor& t : tensors) shapes.push_back(t.shape());
  return shapes;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ',') words.emplace_back();
    else words.back() += c;
  }
  return words;
}

Partition broadcasting(const WholeCall& call, Linearity linearity) {
  const std::string text = broadcast_notation(shapes_of(call.inputs()));
  const std::string output = text.substr(text.find("->") + 2);
  Dims shape;
  for (const Tensor& t : call.inputs()) broadcast_in_place(shape, t.shape());
  if (!std::ranges::all_of(call.results(), [&](const Tensor& t) { return t.shape() == shape; })) return whole(call);
  Partition rule{.letters = text, .linearity = linearity};
  for (size_t i = 1; i < call.results().size(); ++i) rule.letters += "," + output;
  return rule;
}

bool are_floating(const std::vector<Tensor>& tensors) {
  return std::ranges::all_of(tensors, [](const Tensor& t) { return is_floating(t.dtype()); });
}

/// Every argument of that name is a tensor, and all are floating.
bool are_operands(const WholeCall& call, std::initializer_list<const char*> names) {
  return are_floating(call.inputs()) &&
         std::ranges::all_of(names, [&](const char* name) { return call.tensor(name).defined(); });
}

Partition along_dimension(const WholeCall& call, int dim) {
  const int rank = call.inputs()[0].dim();
  return aligned(call, rank == 0 ? Dims() : Dims(wrap_dim(dim, rank)));
}

}  // namespace

Partition aligned(const WholeCall& call, const Dims& dims) {
  const std::vector<Tensor>&inputs = call.inputs(), &results = call.results();
  const Tensor& x = inputs[0];
  std::vector<bool> fixed(static_cast<size_t>(x.dim()));
  for (const int64_t d : dims) fixed[static_cast<size_t>(d)] = true;
  const size_t dropped = static_cast<size_t>(std::ranges::count(fixed, true));
  const std::vector<bool> named = fixed;
  for (const auto* tensors : {&inputs, &results}) {
    for (const Tensor& t : *tensors) {
      for (int d = 0; d < x.dim() && t.dim() == x.dim(); ++d) {
        if (t.size(d) != x.size(d)) fixed[static_cast<size_t>(d)] = true;
      }
    }
  }
  std::string word = letters(x.dim());
  for (size_t d = 0; d < fixed.size(); ++d) word[d] = fixed[d] ? '1' : word[d];
  std::vector<std::string> in, out;
  for (const Tensor& t : inputs) in.push_back(t.dim() == x.dim() ? word : uncut(t));
  for (const Tensor& t : results) {
    const bool lacks = static_cast<size_t>(t.dim()) + dropped == word.size();
    out.push_back(t.dim() == x.dim() ? word : lacks ? without(word, named) : uncut(t));
  }
  for (const Tensor& t : results) {
    if (t.dim() != x.dim() && static_cast<size_t>(t.dim()) + dropped != word.size()) return whole(call);
  }
  return {.letters = notation(in, out)};
}

Tensor share_of_mean(const Tensor& sum, int64_t count) { return sum * (1 / static_cast<double>(count)); }

Tensor added_once(const PartCall& call, const Tensor& x, size_t i, int axis) {
  return call.inputs[i].begin[axis] == 0 ? x : x * 0;
}

// ---- whole families ----

Partition whole(const WholeCall&) { return {.letters = {}, .whole = true}; }

Partition pointwise(const WholeCall& call) { return broadcasting(call, Linearity::none); }

Partition copy(const WholeCall& call) {
  const bool linear = call.inputs().size() == 1 && are_floating(call.inputs()) && are_floating(call.results());
  return broadcasting(call, linear ? Linearity::together : Linearity::none);
}

Partition sum_of_operands(const WholeCall& call) {
  return broadcasting(call, are_operands(call, {"a", "b"}) ? Linearity::together : Linearity::none);
}

Partition product(const WholeCall& call) {
  return broadcasting(call, are_floating(call.inputs()) ? Linearity::each : Linearity::none);
}

Partition quotient(const WholeCall& call) {
  const bool linear = are_floating(call.inputs()) && call.tensor("a").defined() &&
                      std::holds_alternative<std::monostate>(call["rounding_mode"]);
  return broadcasting(call, linear ? Linearity::first : Linearity::none);
}

Partition each_of_lists(const WholeCall& call) {
  const auto& list = std::get<std::vector<Tensor>>(call.arguments()[0]);
  return list.size() == 1 ? pointwise(call) : Partition{.letters = {}, .each = true};
}

template <ReduceOp op>
Partition reduced(const WholeCall& call) {
  const Tensor& x = call.inputs()[0];
  const std::string word = letters(x.dim());
  std::string result = word;
  for (const int64_t d : dims_of(call["dim"], x.dim())) result[static_cast<size_t>(d)] = '1';
  if (!call.flag("keepdim")) std::erase(result, '1');
  if (static_cast<int>(result.size()) != call.results().at(0).dim()) return whole(call);
  const bool linear = op == ReduceOp::sum && are_floating(call.inputs()) && are_floating(call.results());
  return {
      .letters = word + "->" + result, .reduction = op, .linearity = linear ? Linearity::together : Linearity::none};
}
template Partition reduced<ReduceOp::sum>(const WholeCall&);
template Partition reduced<ReduceOp::prod>(const WholeCall&);
template Partition reduced<ReduceOp::max>(const WholeCall&);
template Partition reduced<ReduceOp::min>(const WholeCall&);
template Partition reduced<ReduceOp::any>(const WholeCall&);
template Partition reduced<ReduceOp::all>(const WholeCall&);

Partition averaged(const WholeCall& call) {
  Partition rule = reduced<ReduceOp::sum>(call);
  const int64_t results = call.results()[0].numel(), count = results == 0 ? 1 : call.inputs()[0].numel() / results;
  if (rule.whole) return rule;
  rule.on_parts = [count](PartCall& part) -> Value {
    const Tensor mean = std::get<Tensor>(part.run());
    const int64_t elements = part.inputs[0].sizes.product();
    const int64_t here = mean.numel() == 0 ? count : elements / mean.numel();
    if (here == count) return mean;
    // The mean of no elements is NaN.
    return here == 0 ? zeros_like(mean) : mean * (static_cast<double>(here) / static_cast<double>(count));
  };
  return rule;
}

Partition along(const WholeCall& call) {
  return aligned(call, dims_of(call[dims_argument(call)], call.inputs()[0].dim()));
}
Partition along_first(const WholeCall& call) { return along_dimension(call, 0); }
Partition along_second(const WholeCall& call) {
  return call.inputs()[0].dim() < 2 ? whole(call) : along_dimension(call, 1);
}

namespace {
Partition alike_before(const WholeCall& call, int n) {
  const Tensor& x = call.inputs()[0];
  std::vector<std::string> in, out;
  for (const auto* tensors : {&call.inputs(), &call.results()}) {
    for (const Tensor& t : *tensors) {
      for (int d = 0; d < n; ++d) {
        if (d >= t.dim() || t.size(d) != x.size(d)) return whole(call);
      }
      (tensors == &call.inputs() ? in : out).push_back(letters(n) + uncut(t).substr(static_cast<size_t>(n)));
    }
  }
  return {.letters = notation(in, out)};
}
}  // namespace

template <int n>
Partition leading(const WholeCall& call) {
  return alike_before(call, std::min(n, call.inputs()[0].dim()));
}
template Partition leading<2>(const WholeCall&);
template <int n>
Partition all_but_last(const WholeCall& call) {
  return alike_before(call, std::max(0, call.inputs()[0].dim() - n));
}
template Partition all_but_last<1>(const WholeCall&);
template Partition all_but_last<2>(const WholeCall&);
template Partition all_but_last<3>(const WholeCall&);

Partition reordered(const WholeCall& call) {
  const Tensor& x = call.inputs()[0];
  if (call.inputs().size() > 1) return whole(call);
  // Strides that all differ tell which dimension is which.
  constexpr int64_t first = 1000;
  Layout layout = x.raw_view().layout;
  for (int d = 0; d < x.dim(); ++d) layout.strides[d] = itemsize(x.dtype()) * (first + d);
  finish_layout(layout);
  Values arguments = call.arguments();
  const Tensor nothing = empty(Dims(), {x.dtype(), Device(DeviceType::meta)});
  const Tensor probe = Tensor::adopt(detail::new_alias(nothing.impl(), layout, nullptr));
  for (Value& argument : arguments) {
    if (auto* t = std::get_if<Tensor>(&argument); t != nullptr && t->defined()) *t = probe;
    if (auto* list = std::get_if<std::vector<Tensor>>(&argument)) std::ranges::fill(*list, probe);
  }
  const NoGradGuard unrecorded;
  const Value result = call.record().function(arguments);
  const auto* list = std::get_if<std::vector<Tensor>>(&result);
  const Tensor view = list != nullptr ? list->at(0) : std::get<Tensor>(result);
  std::string in = uncut(x), out = uncut(view);
  for (int d = 0; d < view.dim(); ++d) {
    const int64_t from = view.raw_view().layout.strides[d] / itemsize(x.dtype()) - first;
    if (from < 0 || from >= x.dim() || view.size(d) != x.size(static_cast<int>(from))) continue;
    char& letter = in[static_cast<size_t>(from)];
    if (letter != '1') continue;
    letter = out[static_cast<size_t>(d)] = static_cast<char>('a' + from);
  }
  return {.letters = in + "->" + out, .linearity = Linearity::together};
}

Partition expanded(const WholeCall& call) {
  Partition rule = reordered(call);
  rule.on_parts = [](PartCall& part) {
    part.arguments[1] = part.results[0].sizes;
    return part.run();
  };
  return rule;
}

Partition reshaped(const WholeCall& call) {
  const Dims from = call.inputs()[0].shape(), to = call.results().at(0).shape();
  std::string in = uncut(call.inputs()[0]), out = uncut(call.results()[0]);
  Partition rule{.letters = {}, .linearity = Linearity::together};
  int i = 0, j = 0;
  char letter = 'a';
  while (from.product() != 0) {
    while (i < from.size() && from[i] == 1) ++i;
    while (j < to.size() && to[j] == 1) ++j;
    if (i == from.size() || j == to.size()) break;
    // Dimensions that become dimensions together: their first ones are cut alike, where the parts are equal.
    in[static_cast<size_t>(i)] = out[static_cast<size_t>(j)] = letter;
    int64_t a = from[i++], b = to[j++];
    if (a != b) rule.units.emplace_back(letter, std::gcd(a, b));
    while (a != b) (a < b ? a *= from[i++] : b *= to[j++]);
    ++letter;
  }
  rule.letters = in + "->" + out;
  rule.on_parts = [](PartCall& part) -> Value { return part.tensor("x").reshape(part.results[0].sizes); };
  return rule;
}

Partition pointwise_loss(const WholeCall& call) {
  const std::string text = broadcast_notation(shapes_of(call.inputs()));
  const size_t arrow = text.find("->");
  const std::string result = text.substr(arrow + 2);
  if (unreduced(call).dim() != static_cast<int>(result.size())) return whole(call);
  return with_reduction(call, words_of(text.substr(0, arrow)), result);
}

Partition row_loss(const WholeCall& call) {
  const Tensor& x = call.inputs()[0];
  const Tensor rows = unreduced(call);
  if (x.dim() < 2 || rows.dim() == 0 || rows.size(0) != x.size(0)) return whole(call);
  const Tensor weight = call.record().signature().find("weight") != nullptr ? call.tensor("weight") : Tensor();
  std::vector<std::string> words;
  for (const Tensor& t : call.inputs()) {
    words.push_back(uncut(t));
    const bool is_weight = weight.defined() && t.impl() == weight.impl();
    if (!is_weight && t.dim() > 0 && t.size(0) == x.size(0)) words.back()[0] = 'n';
    else if (!is_weight) return whole(call);
  }
  std::string result = uncut(rows);
  result[0] = 'n';
  return with_reduction(call, words, result);
}

}  // namespace weft::parts
