#include "../join.hpp"

#include <algorithm>
#include <iterator>

#include "../detail/common.hpp"
#include "../detail/complex.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../../tensor/checked.hpp"
#include "../detail/parts.hpp"

namespace weft {

namespace {

// The region of one operand in the result.
struct Part {
  int64_t first, length;
  DType dtype;
};

bool is_passed_over(const Tensor& t) { return t.dim() == 1 && t.numel() == 0; }

[[noreturn]] void raise_parts(const Tensor& a, const Tensor& b, size_t position) {
  raise<ShapeError>(
      {.problem = fmt::format("tensor {} has shape {}, the first {}", position, b.shape().text(), a.shape().text()),
       .remedy = "all sizes but the joined one must be equal"});
}

// Everything defined and on one device; the common dtype.
DType check_parts(std::span<const Tensor> tensors) {
  if (tensors.empty()) raise<ValueError>({.problem = "there is nothing to join: no tensors were given"});
  const Tensor& first = checked(tensors[0]);
  bool alike = !first.impl()->wrapped_number;
  for (const Tensor& t : tensors.subspan(1)) {
    if (WEFT_UNLIKELY(checked(t).device() != first.device())) check_same_device({&first, &t});
    alike &= t.dtype() == first.dtype() && !t.impl()->wrapped_number;
  }
  if (WEFT_LIKELY(alike)) return first.dtype();
  std::vector<const TensorImpl*> impls;
  for (const Tensor& t : tensors) impls.push_back(t.impl());
  return result_type(impls);
}

// The region of `out` that one part fills.
View region(const View& out, int dim, int64_t first, int64_t length, bool drop_dim) {
  View part = out;
  Layout& l = part.layout;
  part.data = static_cast<char*>(out.data) + first * l.strides[dim];
  l.sizes[dim] = length;
  if (drop_dim) {
    for (int i = dim; i + 1 < l.rank; ++i) {
      l.sizes[i] = l.sizes[i + 1];
      l.strides[i] = l.strides[i + 1];
    }
    --l.rank;
  }
  finish_layout(l);
  return part;
}

// The node of a join: each operand's gradient is its part of g, a view where the dtype is the same.
void record_join(const Tensor& out, std::span<const Tensor> tensors, int dim, bool drop_dim) {
  std::vector<Part> parts;
  int64_t first = 0;
  for (const Tensor& t : tensors) {
    parts.push_back({first, drop_dim ? 1 : t.sizes()[static_cast<size_t>(dim)], t.dtype()});
    first += parts.back().length;
  }
  const auto backward = [parts = std::move(parts), dim, drop_dim](Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor& g = incoming[0];
    for (int i = 0; i < self.edge_count; ++i) {
      if (!self.wants(i)) continue;
      const Part& part = parts[static_cast<size_t>(i)];
      const Tensor piece = drop_dim ? g.select(dim, part.first) : g.narrow(dim, part.first, part.length);
      outgoing[i] = in_dtype(piece, part.dtype);
    }
  };
  set_history(out.impl(), make_general_node(tensors, 1, backward));
}

bool should_record_any(std::span<const Tensor> tensors) {
  if (!recording()) return false;
  return std::ranges::any_of(tensors, [](const Tensor& t) { return needs_gradient(t.impl()); });
}

Tensor joined(std::span<const Tensor> tensors, const Dims& shape, DType dtype, int dim, bool drop_dim) {
  Tensor out = make(shape, dtype, tensors[0].device());
  const auto copy = WEFT_KERNEL(copy, out);
  int64_t first = 0;
  for (const Tensor& t : tensors) {
    const int64_t length = drop_dim ? 1 : t.sizes()[static_cast<size_t>(dim)];
    if (t.numel() != 0) copy(region(out.raw_view(), dim, first, length, drop_dim), t.raw_view());
    first += length;
  }
  if (is_inexact(dtype) && should_record_any(tensors)) record_join(out, tensors, dim, drop_dim);
  return out;
}

}  // namespace

Tensor cat(std::span<const Tensor> tensors, int dim, Location where) {
  const CallScope call("cat", where);
  const DType dtype = check_parts(tensors);
  const auto first = std::ranges::find_if_not(tensors, is_passed_over);
  if (first == tensors.end()) return joined(tensors, Dims{0}, dtype, 0, false);
  if (first->dim() == 0) {
    raise<ShapeError>({.problem = "0-d tensors cannot be joined", .remedy = "use stack"});
  }
  const int d = wrap_dim(dim, first->dim());
  Checked length = 0;
  bool passed_over = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    if (is_passed_over(t) && first->dim() != 1) {
      passed_over = true;
      continue;
    }
    bool fits = t.dim() == first->dim();
    for (int k = 0; fits && k < t.dim(); ++k) fits = k == d || t.sizes()[k] == first->sizes()[k];
    if (WEFT_UNLIKELY(!fits)) raise_parts(*first, t, i);
    length += t.sizes()[static_cast<size_t>(d)];
  }
  if (WEFT_UNLIKELY(!length.fits())) {
    raise<ShapeError>({.problem = fmt::format("dimension {} has more elements than 63 bits can count", d)});
  }
  Dims shape = first->shape();
  shape[d] = length.value();
  if (WEFT_LIKELY(!passed_over)) return joined(tensors, shape, dtype, d, false);
  std::vector<Tensor> kept;
  std::ranges::remove_copy_if(tensors, std::back_inserter(kept), is_passed_over);
  return joined(kept, shape, dtype, d, false);
}

Tensor cat(std::initializer_list<Tensor> tensors, int dim, Location where) {
  return cat(std::span(tensors.begin(), tensors.size()), dim, where);
}

Tensor stack(std::span<const Tensor> tensors, int dim, Location where) {
  const CallScope call("stack", where);
  const DType dtype = check_parts(tensors);
  const int d = wrap_dim(dim, tensors[0].dim() + 1);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (WEFT_UNLIKELY(!std::ranges::equal(tensors[i].sizes(), tensors[0].sizes()))) {
      raise_parts(tensors[0], tensors[i], i);
    }
  }
  Dims shape = tensors[0].shape();
  shape.insert(d, static_cast<int64_t>(tensors.size()));
  return joined(tensors, shape, dtype, d, true);
}

Tensor stack(std::initializer_list<Tensor> tensors, int dim, Location where) {
  return stack(std::span(tensors.begin(), tensors.size()), dim, where);
}

Tensor repeat(const Tensor& x, const Dims& repeats, Location where) {
  const CallScope call("repeat", where);
  checked(x);
  if (WEFT_UNLIKELY(repeats.size() < x.dim())) {
    raise<ShapeError>(
        {.problem = fmt::format("{} repeats for the {} dimensions of {}", repeats.size(), x.dim(), x.shape().text()),
         .remedy = "give one for each dimension, or use tile"});
  }
  for (int64_t r : repeats) {
    if (r < 0) raise<ValueError>({.problem = fmt::format("cannot repeat {} times", r)});
  }
  Dims shape = x.shape();
  while (shape.size() < repeats.size()) shape.insert(0, 1);
  Dims whole = shape;
  for (int i = 0; i < repeats.size(); ++i) {
    const Checked size = Checked(whole[i]) * repeats[i];
    if (WEFT_UNLIKELY(!size.fits())) {
      raise<ShapeError>({.problem = fmt::format("{} repeated {} times along dimension {} has too many elements",
                                                x.shape().text(), repeats[i], i)});
    }
    whole[i] = size.value();
  }
  check_sizes(whole, x.dtype());
  Tensor out = x.reshape(shape);
  for (int i = 0; i < repeats.size(); ++i) {
    if (repeats[i] == 1) continue;
    Dims wide = out.shape();
    wide.insert(i, repeats[i]);
    shape[i] = whole[i];
    out = out.unsqueeze(i).expand(wide).reshape(shape);
  }
  return out.is_contiguous() && !out.shares_storage(x) ? out : out.clone();
}

Tensor tile(const Tensor& x, const Dims& repeats, Location where) {
  const CallScope call("tile", where);
  Dims all = repeats;
  while (all.size() < checked(x).dim()) all.insert(0, 1);
  return repeat(x, all);
}

namespace {

std::vector<Values> cat_samples(SampleMaker& make) {
  using List = std::vector<Tensor>;
  return {{List{make.tensor({2, 3}), make.tensor({2, 1}), make.tensor({2, 2})}, int64_t{1}},
          {List{make.tensor({2, 3}), make.tensor({0}), make.tensor({1, 3})}, int64_t{0}},
          {List{make.tensor({3}), make.tensor({0})}, int64_t{-1}},
          {List{make.tensor({0, 2}), make.tensor({0, 2})}, int64_t{0}},
          {List{make.tensor({0})}, int64_t{0}}};
}

std::vector<Values> stack_samples(SampleMaker& make) {
  using List = std::vector<Tensor>;
  return {{List{make.tensor({2, 3}), make.tensor({2, 3})}, int64_t{1}},
          {List{make.tensor({}), make.tensor({}), make.tensor({})}, int64_t{0}},
          {List{make.tensor({2}), make.tensor({2})}, int64_t{-1}},
          {List{make.tensor({0, 2}), make.tensor({0, 2})}, int64_t{0}}};
}

std::vector<Values> repeat_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), Dims{2, 2}},
          {make.tensor({2}), Dims{3, 1}},
          {make.tensor({}), Dims{2}},
          {make.tensor({2, 3}), Dims{0, 1}}};
}

using Join = Tensor (*)(std::span<const Tensor>, int, Location);

Partition stacked(const WholeCall& call) {
  const std::vector<Tensor>& inputs = call.inputs();
  const std::string word = parts::letters(inputs[0].dim());
  const int dim = wrap_dim(detail::integer_in(call["dim"]), inputs[0].dim() + 1);
  std::string out = word;
  out.insert(static_cast<size_t>(dim), 1, '1');
  return {.letters = parts::notation(std::vector(inputs.size(), word), std::vector{out}),
          .linearity = Linearity::together};
}

/// Dimensions that are laid once.
Partition repeated(const WholeCall& call) {
  const Tensor &x = call.inputs()[0], &y = call.results().at(0);
  std::string in = parts::uncut(x), out = parts::uncut(y);
  for (int d = 1; d <= x.dim(); ++d) {
    if (x.size(-d) != y.size(-d) || x.size(-d) == 0) continue;
    in[in.size() - static_cast<size_t>(d)] = out[out.size() - static_cast<size_t>(d)] = static_cast<char>('a' + d);
  }
  return {.letters = in + "->" + out, .linearity = Linearity::together};
}

constexpr auto any = OpRecord::Domain::any;
constexpr OpRecord join_op_records[] = {
    {"cat", "cat(tensors, dim=0)",
     "The tensors one after the other along dim, in their common dtype; 1-d tensors without elements are passed over.",
     true, any, cat_samples, parts::along, detail::boxed<static_cast<Join>(&weft::cat)>},
    {"stack", "stack(tensors, dim=0)", "Tensors of one shape side by side along a new dimension.", true, any,
     stack_samples, stacked, detail::boxed<static_cast<Join>(&weft::stack)>},
    {"repeat", "repeat(x, repeats)", "x laid side by side repeats[i] times along dimension i.", true, any,
     repeat_samples, repeated, detail::boxed<&weft::repeat>},
    {"tile", "tile(x, repeats|dims)", "As repeat, where missing leading repeats are 1.", true, any, repeat_samples,
     repeated, detail::boxed<&weft::tile>},
};

}  // namespace

std::span<const OpRecord> join_records() { return join_op_records; }

}  // namespace weft
