// Matrix products and their gradients. Operands go to the kernel as strided views; a transpose is never a copy.
#include "../matmul.hpp"

#include <algorithm>

#include "../detail/autocast.hpp"
#include "../detail/complex.hpp"
#include "../detail/common.hpp"
#include "../detail/linear.hpp"
#include "../fused/activate-inl.hpp"
#include "../pointwise.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../reduce.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

View transposed(View view) {
  Layout& l = view.layout;
  std::swap(l.sizes[l.rank - 2], l.sizes[l.rank - 1]);
  std::swap(l.strides[l.rank - 2], l.strides[l.rank - 1]);
  l.contiguous = 0;
  return view;
}

Tensor matrix_transpose(const Tensor& t) { return t.transpose(-2, -1); }

// Dense rows of the last dimension: [..., n] seen as [rows, n].
View as_rows(const View& view) {
  View rows = view;
  Layout& l = rows.layout;
  const int64_t n = l.rank == 0 ? 1 : l.sizes[l.rank - 1];
  int64_t count = 1;
  for (int i = 0; i + 1 < l.rank; ++i) count *= l.sizes[i];
  l.rank = 2;
  l.sizes[0] = count;
  l.sizes[1] = n;
  l.strides[1] = itemsize(l.dtype);
  l.strides[0] = n * l.strides[1];
  return rows;
}

[[noreturn]] void raise_inner(const Tensor& a, const Tensor& b) {
  raise<ShapeError>(
      {.problem = fmt::format("shapes {} and {} cannot be multiplied", a.shape().text(), b.shape().text()),
       .remedy = "the last size of the left operand must be the last but one of the right"});
}

[[noreturn]] void raise_ranks(const char* expected, const Tensor& a, const Tensor& b) {
  raise_mismatch<ShapeError>("a and b", expected, fmt::format("shapes {} and {}", a.shape().text(), b.shape().text()),
                             "matmul takes operands of any rank from 1");
}

[[gnu::noinline]] void raise_pair(const Tensor& a, const Tensor& b) {
  checked(a);
  checked(b);
  check_same_device({&a, &b});
  const DType bad = a.dtype() == DType::boolean || is_storage_only(a.dtype()) ? a.dtype() : b.dtype();
  expect_one_dtype("a and b", a, b, "convert one with to(dtype)");
  raise<DTypeError>(
      {.problem = fmt::format("{} cannot be multiplied", name(bad)), .remedy = "convert the operands with to(dtype)"});
}

// Defined, on one device, of one dtype that can be computed with.
inline void check_pair(const Tensor& a, const Tensor& b) {
  if (WEFT_UNLIKELY(!a.defined() || !b.defined())) raise_pair(a, b);
  const Layout& x = a.raw_view().layout;
  const Layout& y = b.raw_view().layout;
  if (WEFT_UNLIKELY(x.device_type != y.device_type || x.device_index != y.device_index || x.dtype != y.dtype ||
                    x.dtype == DType::boolean || is_storage_only(x.dtype))) {
    raise_pair(a, b);
  }
}

void multiply(const Tensor& out, const View& a, const View& b) {
  WEFT_KERNEL(matmul, out)(out.raw_view(), a, b, View{});
}

// ---- two matrices ---------------------------------------------------------------------------------------------------

// Each operand is kept only for the other one's gradient.
struct MatrixBackward {
  Saved a, b;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor& g = incoming[0];
    if (WEFT_UNLIKELY(recording())) {
      if (self.wants(0)) outgoing[0] = mm(g, b.get(self).t());
      if (self.wants(1)) outgoing[1] = mm(a.get(self).t(), g);
      return;
    }
    if (self.wants(0)) {
      const Tensor& right = b.get(self);
      const int64_t sizes[] = {g.sizes()[0], right.sizes()[0]};
      outgoing[0] = make(sizes, g.dtype(), g.device());
      multiply(outgoing[0], g.raw_view(), transposed(right.raw_view()));
    }
    if (self.wants(1)) {
      const Tensor& left = a.get(self);
      const int64_t sizes[] = {left.sizes()[1], g.sizes()[1]};
      outgoing[1] = make(sizes, g.dtype(), g.device());
      multiply(outgoing[1], transposed(left.raw_view()), g.raw_view());
    }
  }
};

// Both of rank 2, checked by check_pair.
Tensor matrix_product(const Tensor& a, const Tensor& b) {
  const Layout& x = a.raw_view().layout;
  const Layout& y = b.raw_view().layout;
  if (WEFT_UNLIKELY(x.sizes[1] != y.sizes[0])) raise_inner(a, b);
  if (WEFT_UNLIKELY(is_complex(x.dtype))) return complex_product(a, b);
  const int64_t sizes[] = {x.sizes[0], y.sizes[1]};
  Tensor out = make(sizes, x.dtype, a.device());
  multiply(out, a.raw_view(), b.raw_view());
  if (!recording()) return out;
  const bool left = needs_gradient(a.impl()), right = needs_gradient(b.impl());
  if (left || right) record(out, MatrixBackward{right ? Saved(a) : Saved(), left ? Saved(b) : Saved()}, a, b);
  return out;
}

// ---- batches --------------------------------------------------------------------------------------------------------

Dims batch_of(const Tensor& t) { return Dims(t.sizes().first(static_cast<size_t>(t.dim() - 2))); }

Dims with_matrix(const Dims& batch, int64_t rows, int64_t columns) {
  Dims shape = batch;
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}

// The last two sizes stay, the others become `batch`.
View batch_view(const View& view, const Dims& batch) {
  const Layout& l = view.layout;
  return broadcast_view(view, with_matrix(batch, l.sizes[l.rank - 2], l.sizes[l.rank - 1]));
}

// Products of operands of rank 2 or more with broadcast batches.
Dims product_shape(const Tensor& a, const Tensor& b) {
  if (a.sizes()[static_cast<size_t>(a.dim()) - 1] != b.sizes()[static_cast<size_t>(b.dim()) - 2]) {
    raise_inner(a, b);
  }
  const auto batch = broadcast(batch_of(a), batch_of(b));
  if (!batch) {
    raise<ShapeError>(
        {.problem = fmt::format("the batch sizes of {} and {} do not broadcast", a.shape().text(), b.shape().text()),
         .remedy = "all sizes but the last two must be equal or 1, counted from the right"});
  }
  return with_matrix(*batch, a.sizes()[static_cast<size_t>(a.dim()) - 2], b.sizes()[static_cast<size_t>(b.dim()) - 1]);
}

Tensor batch_product(const Tensor& a, const Tensor& b);

int64_t row_count(const Tensor& t) { return Dims(t.sizes().first(static_cast<size_t>(t.dim() - 1))).product(); }

// [..., n] as [rows, n], recorded where gradients are.
Tensor flat_rows(const Tensor& t) { return t.dim() == 2 ? t : t.reshape({row_count(t), t.sizes().back()}); }

struct BatchBackward {
  Saved a, b;
  Dims a_shape, b_shape;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const CallScope call("matmul");  // its products, whichever op it is of
    const Tensor& g = incoming[0];
    if (self.wants(0)) {
      outgoing[0] = sum_to(batch_product(g, matrix_transpose(b.get(self))), a_shape);
    }
    if (!self.wants(1)) return;
    const Tensor& left = a.get(self);
    if (b_shape.size() == 2 && g.dim() == left.dim()) {
      // One product over all rows, rather than a sum of products.
      outgoing[1] = matrix_product(flat_rows(left).t(), flat_rows(g));
    } else {
      outgoing[1] = sum_to(batch_product(matrix_transpose(left), g), b_shape);
    }
  }
};

// Both of rank 2 or more.
Tensor batch_product(const Tensor& a, const Tensor& b) {
  if (a.dim() == 2 && b.dim() == 2) return matrix_product(a, b);
  const Dims shape = product_shape(a, b);
  if (is_complex(a.dtype())) return complex_product(a, b);
  const Dims batch(std::span<const int64_t>(shape).first(static_cast<size_t>(shape.size() - 2)));
  Tensor out = make(shape, a.dtype(), a.device());
  multiply(out, batch_view(a.raw_view(), batch), batch_view(b.raw_view(), batch));
  if (!recording()) return out;
  const bool left = needs_gradient(a.impl()), right = needs_gradient(b.impl());
  if (left || right) {
    record(out, BatchBackward{right ? Saved(a) : Saved(), left ? Saved(b) : Saved(), a.shape(), b.shape()}, a, b);
  }
  return out;
}

// 1-d operands as a row or a column; the added dimension is dropped from the result.
[[gnu::noinline]] Tensor general_product(const Tensor& a, const Tensor& b) {
  if (a.dim() == 0 || b.dim() == 0) {
    raise<ShapeError>(
        {.problem = fmt::format("shapes {} and {}: a 0-d tensor is no matrix", a.shape().text(), b.shape().text()),
         .remedy = "use a * b"});
  }
  const bool row = a.dim() == 1, column = b.dim() == 1;
  if (!row && !column) return batch_product(a, b);
  const size_t inner = static_cast<size_t>(column ? 0 : b.dim() - 2);
  if (a.sizes().back() != b.sizes()[inner]) raise_inner(a, b);
  Tensor out = batch_product(row ? a.unsqueeze(0) : a, column ? b.unsqueeze(1) : b);
  Dims shape = out.shape();
  if (column) shape.erase(shape.size() - 1);
  if (row) shape.erase(shape.size() - (column ? 1 : 2));
  return out.view(shape);
}

Tensor product(const Tensor& a, const Tensor& b) {
  check_pair(a, b);
  if (WEFT_LIKELY(a.dim() == 2 && b.dim() == 2)) return matrix_product(a, b);
  return general_product(a, b);
}

const Tensor& product_into(const Tensor& out, const Tensor& a, const Tensor& b) {
  checked(out);
  check_pair(a, b);
  check_out_unrecorded({&out, &a, &b});
  const bool apart = !out.shares_storage(a) && !out.shares_storage(b);
  if (WEFT_LIKELY(apart && a.dim() == 2 && b.dim() == 2 && !is_complex(a.dtype()))) {
    if (a.sizes()[1] != b.sizes()[0]) raise_inner(a, b);
    const int64_t sizes[] = {a.sizes()[0], b.sizes()[1]};
    check_out(out, sizes, a.dtype(), a.device(), {&a, &b});
    note_write(out);  // before: memory may be short in the midst of it
    multiply(out, a.raw_view(), b.raw_view());
  } else {
    NoGradGuard unrecorded;
    const Tensor result = product(a, b);
    check_out(out, result.sizes(), result.dtype(), result.device(), {&a, &b});
    note_write(out);
    WEFT_KERNEL(copy, out)(out.raw_view(), result.raw_view());
  }
  return out;
}

// ---- linear ---------------------------------------------------------------------------------------------------------

}  // namespace

void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_pair(x, weight);
  const bool fits = x.dim() >= 1 && weight.dim() == 2 && x.sizes().back() == weight.sizes()[1];
  if (WEFT_UNLIKELY(!fits)) {
    raise<ShapeError>({.problem = fmt::format("an input of shape {} does not fit a weight of shape {}",
                                              x.shape().text(), weight.shape().text()),
                       .remedy = "the weight is [out, in], the input [..., in]"});
  }
  if (!bias.defined()) return;
  check_pair(weight, bias);
  if (WEFT_UNLIKELY(bias.dim() != 1 || bias.sizes()[0] != weight.sizes()[0])) {
    raise<ShapeError>({.problem = fmt::format("a bias of shape {} does not fit a weight of shape {}",
                                              bias.shape().text(), weight.shape().text()),
                       .remedy = "the bias is [out]"});
  }
}

namespace {

// A weight [in] has one output without a dimension of its own.
Tensor single_output(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (!bias.defined()) return product(x, weight);
  check_pair(weight, bias);
  if (WEFT_UNLIKELY(bias.numel() != 1 || bias.dim() > 1)) {
    raise<ShapeError>({.problem = fmt::format("a bias of shape {} does not fit a weight of shape {}",
                                              bias.shape().text(), weight.shape().text()),
                       .remedy = "one output has one bias"});
  }
  return linear(x, weight.unsqueeze(0), bias.reshape({1})).squeeze(-1);
}

// A bias [n] seen with the sizes of [rows, n].
View bias_rows(const Tensor& bias, const View& out) {
  View wide = bias.raw_view();
  Layout& l = wide.layout;
  l.rank = 2;
  l.strides[1] = l.strides[0];
  l.strides[0] = 0;
  l.sizes[0] = out.layout.sizes[0];
  l.sizes[1] = out.layout.sizes[1];
  l.numel = out.layout.numel;
  l.contiguous = 0;
  return wide;
}

// As flat_rows, for kernels: a view wherever the strides allow it, else `t` becomes a copy.
View row_view(Tensor& t) {
  if (t.dim() == 2) return t.raw_view();
  if (!t.is_contiguous()) {
    const int64_t sizes[] = {row_count(t), t.sizes().back()};
    if (const auto strides = view_strides(t.raw_view().layout, sizes)) {
      View rows = as_rows(t.raw_view());
      std::copy(strides->begin(), strides->end(), rows.layout.strides);
      rows.layout.contiguous = 0;
      return rows;
    }
    t = t.contiguous();
  }
  return as_rows(t.raw_view());
}

struct LinearBackward {
  Saved x, weight;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const bool by_bias = self.edge_count > 2 && self.wants(2);
    if (WEFT_UNLIKELY(recording())) by_ops(self, incoming[0], outgoing, by_bias);
    else by_kernels(self, std::move(incoming[0]), outgoing, by_bias);
  }

  void by_ops(Node& self, const Tensor& g, Tensor* outgoing, bool by_bias) {
    if (self.wants(0)) outgoing[0] = matmul(g, weight.get(self));
    if (self.wants(1)) outgoing[1] = mm(flat_rows(g).t(), flat_rows(x.get(self)));
    if (by_bias) outgoing[2] = sum_to(Tensor(g), g.sizes().last(1));
  }

  void by_kernels(Node& self, Tensor g, Tensor* outgoing, bool by_bias) {
    Dims shape = g.shape();
    const int64_t n = shape[shape.size() - 1];
    const View rows = row_view(g);
    if (self.wants(0)) {
      const Tensor& w = weight.get(self);
      shape[shape.size() - 1] = w.sizes()[1];
      outgoing[0] = make(shape, g.dtype(), g.device());
      WEFT_KERNEL(matmul, g)(as_rows(outgoing[0].raw_view()), rows, w.raw_view(), View{});
    }
    if (self.wants(1)) {
      Tensor input = x.get(self);
      const int64_t sizes[] = {n, input.sizes().back()};
      outgoing[1] = make(sizes, g.dtype(), g.device());
      multiply(outgoing[1], transposed(rows), row_view(input));
    }
    if (by_bias) {
      outgoing[2] = make({&n, 1}, g.dtype(), g.device());
      WEFT_KERNEL(reduce, g)(Reduction::sum, as_rows(outgoing[2].raw_view()), rows);
    }
  }
};

// ---- records --------------------------------------------------------------------------------------------------------

std::vector<Values> matmul_samples(SampleMaker& make) {
  const auto t = [&](const Dims& shape) { return make.tensor(shape); };
  return {
      {t({2, 3}), t({3, 4})},          {t({3}), t({3})},          {t({3}), t({2, 3, 4})},    {t({2, 4, 3}), t({3})},
      {t({2, 1, 2, 3}), t({4, 3, 5})}, {t({2, 2, 3}), t({3, 2})}, {t({3, 2}), t({2, 2, 3})}, {t({0, 2, 3}), t({3, 4})},
      {t({2, 0}), t({0, 3})}};
}
std::vector<Values> mm_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.tensor({3, 4})}, {make.tensor({2, 0}), make.tensor({0, 3})}};
}
std::vector<Values> bmm_samples(SampleMaker& make) {
  return {{make.tensor({2, 3, 4}), make.tensor({2, 4, 2})}, {make.tensor({0, 3, 4}), make.tensor({0, 4, 2})}};
}
std::vector<Values> mv_samples(SampleMaker& make) { return {{make.tensor({2, 3}), make.tensor({3})}}; }
std::vector<Values> dot_samples(SampleMaker& make) {
  return {{make.tensor({3}), make.tensor({3})}, {make.tensor({0}), make.tensor({0})}};
}
std::vector<Values> outer_samples(SampleMaker& make) {
  return {{make.tensor({2}), make.tensor({3})}, {make.tensor({0}), make.tensor({3})}};
}
std::vector<Values> addmm_samples(SampleMaker& make) {
  std::vector<Values> samples = {{make.tensor({4}), make.tensor({2, 3}), make.tensor({3, 4})}};
  if (is_inexact(make.dtype())) {
    samples.push_back({make.tensor({2, 4}), make.tensor({2, 3}), make.tensor({3, 4}), 0.5, 2.0});
  }
  return samples;
}
std::vector<Values> linear_samples(SampleMaker& make) {
  const auto t = [&](const Dims& shape) { return make.tensor(shape); };
  return {{t({2, 3}), t({4, 3}), t({4})},
          {t({2, 2, 3}), t({4, 3})},
          {t({3}), t({2, 3}), t({2})},
          {t({0, 3}), t({4, 3}), t({4})},
          {t({2, 0}), t({4, 0}), t({4})}};
}

Partition multiplied(const WholeCall& call) {
  const Tensor &a = call.inputs()[0], &b = call.inputs()[1];
  const auto with = [](const char* letters) { return Partition{.letters = letters, .linearity = Linearity::each}; };
  if (a.dim() == 1 && b.dim() == 1) return with("k,k->");
  if (a.dim() > 1 && b.dim() > 1) return with(matmul_notation(a.shape(), b.shape()).c_str());
  const std::string batch = parts::letters(std::max(a.dim(), b.dim()) - 2);
  if (b.dim() == 1) return with((batch + "mk,k->" + batch + "m").c_str());
  return with(("k," + batch + "kn->" + batch + "n").c_str());
}

Partition outer_product(const WholeCall&) { return {.letters = "m,n->mn", .linearity = Linearity::each}; }

Partition added_product(const WholeCall& call) {
  const Tensor input = call.tensor("input");
  std::string word = std::string("mn").substr(static_cast<size_t>(2 - input.dim()));
  for (int d = 0; d < input.dim(); ++d) {
    if (input.size(d) == 1) word[static_cast<size_t>(d)] = '1';
  }
  return {.letters = word + ",mk,kn->mn", .on_parts = [](PartCall& part) {
            part["input"] = parts::added_once(part, part.tensor("input"), 1, 1);
            return part.run();
          }};
}

/// A sum of parts would be activated too early.
Partition activated_map(const WholeCall& call) {
  const std::string rows = parts::letters(call.tensor("x").dim() - 1), n = call.tensor("weight").dim() == 1 ? "" : "n";
  return {.letters = rows + "1," + n + "1" + (call.tensor("bias").defined() ? "," + n : "") + "->" + rows + n};
}

Tensor call_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const std::string& activation) {
  if (WEFT_LIKELY(activation == "none")) return weft::linear(x, weight, bias);
  return weft::linear(x, weight, bias, activation_named(activation));
}

Partition linear_map(const WholeCall& call) {
  if (const auto* name = std::get_if<std::string>(&call["activation"]); name != nullptr && *name != "none") {
    return activated_map(call);
  }
  const std::string rows = parts::letters(call.tensor("x").dim() - 1), n = call.tensor("weight").dim() == 1 ? "" : "n";
  const bool has_bias = call.tensor("bias").defined();
  Partition rule{.letters = rows + "k," + n + "k" + (has_bias ? "," + n : "") + "->" + rows + n,
                 .linearity = has_bias ? Linearity::none : Linearity::each};
  if (has_bias) {
    rule.on_parts = [](PartCall& part) {
      part["bias"] = parts::added_once(part, part.tensor("bias"), 0, part.inputs[0].sizes.size() - 1);
      return part.run();
    };
  }
  return rule;
}

constexpr auto numeric = OpRecord::Domain::numeric;
constexpr OpRecord matmul_op_records[] = {
    {"matmul",
     "matmul(a, b|other)",
     "The matrix product [..., m, k] x [..., k, n]; batch dimensions broadcast, 1-d operands are a row or a "
     "column.",
     OpFacts(true, Autocast::lower),
     numeric,
     matmul_samples,
     multiplied,
     detail::boxed<&weft::matmul>,
     {},
     {},
     detail::boxed<&weft::matmul_out>},
    {"mm",
     "mm(a, b|mat2)",
     "[m, k] x [k, n]",
     OpFacts(true, Autocast::lower),
     numeric,
     mm_samples,
     multiplied,
     detail::boxed<&weft::mm>,
     {},
     {},
     detail::boxed<&weft::mm_out>},
    {"bmm", "bmm(a, b|mat2)", "[b, m, k] x [b, k, n], with equal batch sizes", OpFacts(true, Autocast::lower), numeric,
     bmm_samples, multiplied, detail::boxed<&weft::bmm>},
    {"mv", "mv(a, b|vec)", "[m, k] x [k]", OpFacts(true, Autocast::lower), numeric, mv_samples, multiplied,
     detail::boxed<&weft::mv>},
    {"dot", "dot(a, b|tensor)", "The sum of products of two 1-d tensors, 0-d.", true, numeric, dot_samples, multiplied,
     detail::boxed<&weft::dot>},
    {"outer", "outer(a, b|vec2)",
     "Every product of an element of a [m] and one of b [n]: [m, n], in their common dtype.", true, numeric,
     outer_samples, outer_product, detail::boxed<&weft::outer>},
    {"addmm", "addmm(input, a|mat1, b|mat2, beta=1, alpha=1)",
     "beta * input + alpha * (a x b); input broadcasts to [m, n].", OpFacts(true, Autocast::lower), numeric,
     addmm_samples, added_product, detail::boxed<&weft::addmm>},
    {"linear", "linear(x, weight, bias=None, *, activation='none')",
     "x [..., in] times the transpose of weight [out, in], plus bias [out]; a weight [in] gives [...]. The activation, "
     "relu, gelu, gelu_tanh, silu or selu, follows where the product is still in the cache.",
     OpFacts(true, Autocast::lower), numeric, linear_samples, linear_map, detail::boxed<&call_linear>},
};

}  // namespace

std::span<const OpRecord> matmul_records() { return matmul_op_records; }

Tensor matmul(const Tensor& a, const Tensor& b, Location where) {
  const CallScope call("matmul", where);
  WEFT_IN_LOWER(matmul, a, b, where);
  return product(a, b);
}

const Tensor& matmul_out(const Tensor& out, const Tensor& a, const Tensor& b, Location where) {
  const CallScope call("matmul_out", where);
  return product_into(out, a, b);
}

Tensor mm(const Tensor& a, const Tensor& b, Location where) {
  const CallScope call("mm", where);
  WEFT_IN_LOWER(mm, a, b, where);
  check_pair(a, b);
  if (WEFT_UNLIKELY(a.dim() != 2 || b.dim() != 2)) raise_ranks("two matrices", a, b);
  return matrix_product(a, b);
}

const Tensor& mm_out(const Tensor& out, const Tensor& a, const Tensor& b, Location where) {
  const CallScope call("mm_out", where);
  check_pair(a, b);
  if (WEFT_UNLIKELY(a.dim() != 2 || b.dim() != 2)) raise_ranks("two matrices", a, b);
  return product_into(out, a, b);
}

Tensor bmm(const Tensor& a, const Tensor& b, Location where) {
  const CallScope call("bmm", where);
  WEFT_IN_LOWER(bmm, a, b, where);
  check_pair(a, b);
  if (WEFT_UNLIKELY(a.dim() != 3 || b.dim() != 3 || a.sizes()[0] != b.sizes()[0])) {
    raise_ranks("shapes [b, m, k] and [b, k, n]", a, b);
  }
  return batch_product(a, b);
}

Tensor mv(const Tensor& a, const Tensor& b, Location where) {
  const CallScope call("mv", where);
  WEFT_IN_LOWER(mv, a, b, where);
  check_pair(a, b);
  if (WEFT_UNLIKELY(a.dim() != 2 || b.dim() != 1)) raise_ranks("shapes [m, k] and [k]", a, b);
  return general_product(a, b);
}

Tensor dot(const Tensor& a, const Tensor& b, Location where) {
  const CallScope call("dot", where);
  check_pair(a, b);
  if (WEFT_UNLIKELY(a.dim() != 1 || b.dim() != 1)) raise_ranks("two 1-d tensors", a, b);
  return general_product(a, b);
}

Tensor outer(const Tensor& a, const Tensor& b, Location where) {
  const CallScope call("outer", where);
  checked(a);
  checked(b);
  if (WEFT_UNLIKELY(a.dim() != 1 || b.dim() != 1)) raise_ranks("two 1-d tensors", a, b);
  return a.unsqueeze(1) * b;
}

Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha, Location where) {
  const CallScope call("addmm", where);
  WEFT_IN_LOWER(addmm, input, a, b, beta, alpha, where);
  checked(input);
  check_pair(a, b);
  check_pair(a, input);
  if (WEFT_UNLIKELY(a.dim() != 2 || b.dim() != 2)) raise_ranks("two matrices", a, b);
  if (a.sizes()[1] != b.sizes()[0]) raise_inner(a, b);
  const Dims shape{a.sizes()[0], b.sizes()[1]};
  const auto joined = broadcast(input.sizes(), shape);
  if (WEFT_UNLIKELY(!joined || !(*joined == shape))) {
    raise<ShapeError>(
        {.problem = fmt::format("an input of shape {} does not broadcast to {}", input.shape().text(), shape.text())});
  }
  if (a.itemsize() == 2 && is_floating(a.dtype())) {  // what is added up is rounded once
    const bool is_linear =
        beta.is_one() && alpha.is_one() && input.dim() > 0 && input.numel() == shape[1] && input.size(-1) == shape[1];
    if (is_linear) return linear(a, b.t(), input.reshape({shape[1]}));
    return addmm(to_compute_type(input), to_compute_type(a), to_compute_type(b), beta, alpha).to(a.dtype());
  }
  const auto scaled = [&](const Tensor& t, Scalar factor) {
    // Terms with coefficient 0 are skipped, so that NaN there does not spread.
    const Scalar own = whole_among_integers(factor, t.dtype());
    return own.is_zero() ? masked_fill(t, true, 0) : times(t, own);
  };
  Tensor product = scaled(matrix_product(a, b), alpha);
  if (beta.is_zero() && !should_record(input)) return product;
  const Tensor start = scaled(input, beta);
  return start + std::move(product);
}

void record_linear(const Tensor& out, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const bool by_x = needs_gradient(x.impl()), by_weight = needs_gradient(weight.impl());
  const bool by_bias = bias.defined() && needs_gradient(bias.impl());
  if (!by_x && !by_weight && !by_bias) return;
  LinearBackward backward{by_weight ? Saved(x) : Saved(), by_x ? Saved(weight) : Saved()};
  if (bias.defined()) record(out, std::move(backward), x, weight, bias);
  else record(out, std::move(backward), x, weight);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Location where) {
  const CallScope call("linear", where);
  WEFT_IN_LOWER(linear, x, weight, bias, where);
  if (WEFT_UNLIKELY(weight.defined() && weight.dim() == 1)) return single_output(x, weight, bias);
  check_linear(x, weight, bias);
  if (WEFT_UNLIKELY(is_complex(x.dtype()))) {
    const Tensor y = product(x, weight.t());
    return bias.defined() ? y + bias : y;
  }
  Dims shape = x.shape();
  shape[shape.size() - 1] = weight.sizes()[0];
  Tensor out = make(shape, x.dtype(), x.device());
  const auto kernel = WEFT_KERNEL(matmul, out);
  const View w = transposed(weight.raw_view());
  if (WEFT_LIKELY(x.dim() == 2)) {
    kernel(out.raw_view(), x.raw_view(), w, bias.defined() ? bias_rows(bias, out.raw_view()) : View{});
  } else if (x.dim() == 1 || x.is_contiguous()) {
    const View rows = as_rows(out.raw_view());
    Tensor held = x;
    const View input = row_view(held);
    kernel(rows, input, w, bias.defined() ? bias_rows(bias, rows) : View{});
  } else {
    kernel(out.raw_view(), x.raw_view(), batch_view(w, batch_of(x)),
           bias.defined() ? broadcast_view(bias.raw_view(), shape) : View{});
  }
  if (recording()) record_linear(out, x, weight, bias);
  return out;
}

}  // namespace weft
