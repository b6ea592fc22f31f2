// Records of views, and of copies that are none where nothing changes.
#include <algorithm>
#include <functional>

#include "../../tensor/layout.hpp"
#include "../detail/records.hpp"
#include "../detail/parts.hpp"

namespace weft {

namespace {

Tensor call_squeeze(const Tensor& x, std::optional<Dims> dims) {
  if (!dims) return x.squeeze();
  std::vector<int> order;
  for (const int64_t d : *dims) order.push_back(wrap_dim(d, x.dim()));
  std::ranges::sort(order, std::greater<>());
  Tensor result = x;
  for (const int d : order) result = result.squeeze(d);
  return result;
}

// to(device, dtype, non_blocking, copy), to(dtype, non_blocking, copy) and to(other, non_blocking, copy).
Tensor call_to(const Tensor& x, const Value& target, const Value& second, bool third, bool copy,
               std::optional<Device> device) {
  std::optional<DType> dtype;
  CopyOptions options{.non_blocking = third};
  if (auto* non_blocking = std::get_if<bool>(&second)) {
    options.non_blocking = *non_blocking;
    copy = third || copy;
  } else {
    dtype = detail::unboxed<std::optional<DType>>(second, 2);
  }
  if (auto* like = std::get_if<Tensor>(&target)) {
    device = like->device();
    dtype = like->dtype();
  } else if (auto* type = std::get_if<DType>(&target)) {
    dtype = *type;
  } else if (std::holds_alternative<std::string>(target)) {
    device = detail::Unbox<Device>::from(target);
  } else if (!std::holds_alternative<std::monostate>(target)) {
    throw BadArgument(1);
  }
  Tensor result = x;
  if (device) result = result.to(*device, options);
  if (dtype) result = result.to(*dtype);
  return copy && result.shares_storage(x) ? result.clone() : result;
}

std::vector<Values> sizes_samples(SampleMaker& make) {
  return {{make.tensor({2, 6}), Dims{3, -1}}, {make.tensor({}), Dims{1, 1}}, {make.tensor({0, 2}), Dims{2, 0}}};
}
std::vector<Values> pair_samples(SampleMaker& make) {
  return {{make.tensor({2, 3, 4}), int64_t{0}, int64_t{-1}}, {make.tensor({0, 2}), int64_t{1}, int64_t{0}}};
}
std::vector<Values> matrix_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})}, {make.tensor({3})}, {make.tensor({})}, {make.tensor({0, 2})}};
}
std::vector<Values> order_samples(SampleMaker& make) {
  return {{make.tensor({2, 3, 4}), Dims{2, 0, -2}}, {make.tensor({}), Dims()}, {make.tensor({0, 2}), Dims{1, 0}}};
}
std::vector<Values> select_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), int64_t{0}, int64_t{1}},
          {make.tensor({2, 3}), int64_t{-1}, int64_t{1} - 3},
          {make.tensor({0, 2}), int64_t{1}, int64_t{0}}};
}
std::vector<Values> narrow_samples(SampleMaker& make) {
  return {{make.tensor({2, 5}), int64_t{1}, int64_t{1}, int64_t{3}},
          {make.tensor({2, 5}), int64_t{0}, int64_t{2}, int64_t{0}},
          {make.tensor({0, 2}), int64_t{-1}, int64_t{0}, int64_t{2}}};
}
std::vector<Values> dim_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), int64_t{1}}, {make.tensor({3}), int64_t{0}}, {make.tensor({0, 2}), int64_t{1} - 2}};
}
std::vector<Values> squeeze_samples(SampleMaker& make) {
  return {{make.tensor({1, 3, 1})},
          {make.tensor({1, 3, 1}), Dims(2)},
          {make.tensor({1, 3, 1}), Dims{0, 1}},
          {make.tensor({})},
          {make.tensor({0, 1}), Dims(-1)}};
}
std::vector<Values> expand_samples(SampleMaker& make) {
  return {{make.tensor({2, 1}), Dims{4, 2, 3}}, {make.tensor({}), Dims{2}}, {make.tensor({0, 1}), Dims{0, 2}}};
}
std::vector<Values> diagonal_samples(SampleMaker& make) {
  return {{make.tensor({3, 4})},
          {make.tensor({3, 4}), int64_t{1}},
          {make.tensor({2, 3, 2}), int64_t{1} - 2, int64_t{0}, int64_t{2}},
          {make.tensor({0, 2})}};
}
std::vector<Values> flatten_samples(SampleMaker& make) {
  return {{make.tensor({2, 3, 2})},
          {make.tensor({2, 3, 2}), int64_t{1}, int64_t{2}},
          {make.tensor({})},
          {make.tensor({0, 2})}};
}
std::vector<Values> chunk_samples(SampleMaker& make) {
  return {{make.tensor({5, 2}), int64_t{2}}, {make.tensor({2, 5}), int64_t{3}, int64_t{1}}};
}
std::vector<Values> unbind_samples(SampleMaker& make) {
  return {{make.tensor({3, 2})}, {make.tensor({2, 3}), int64_t{1} - 2}, {make.tensor({2, 0})}};
}
std::vector<Values> to_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), DType::f64}, {make.tensor({2, 3}), make.tensor({})}, {make.tensor({3})}};
}

/// A part may have a size of 1 where the whole has not.
Partition squeezed(const WholeCall& call) {
  Partition rule = parts::reordered(call);
  rule.on_parts = [](PartCall& part) -> Value { return part.tensor("x").reshape(part.results[0].sizes); };
  return rule;
}

Partition diagonal_part(const WholeCall& call) {
  const int rank = call.inputs()[0].dim();
  return {.letters = parts::beside_diagonal(call, rank) + "->" + parts::letters(rank - 2) + "1",
          .linearity = Linearity::together};
}

/// The second tensor tells a dtype alone.
Partition converted(const WholeCall& call) {
  const std::string word = parts::letters(call.inputs()[0].dim());
  if (call.inputs().size() == 1) return parts::copy(call);
  return {.letters = parts::notation({word, parts::uncut(call.inputs()[1])}, {word})};
}

#define WEFT_VIEW " The result is a view: it shares the elements."
constexpr auto any = OpRecord::Domain::any;
constexpr OpRecord records[] = {
    {"reshape", "reshape(x, *shape|size)",
     "x with other sizes, one of which may be -1: a view where the strides allow it.", true, any, sizes_samples,
     parts::reshaped, detail::boxed<+[](const Tensor& x, const Dims& shape) { return x.reshape(shape); }>},
    {"transpose", "transpose(x, dim0, dim1)", "x with two dimensions exchanged." WEFT_VIEW, true, any, pair_samples,
     parts::reordered, detail::boxed<+[](const Tensor& x, int a, int b) { return x.transpose(a, b); }>},
    {"t", "t(x)", "The transpose of a tensor of rank 2 or less." WEFT_VIEW, true, any, matrix_samples, parts::reordered,
     detail::boxed<+[](const Tensor& x) { return x.t(); }>},
    {"permute", "permute(x, *dims)", "x with its dimensions in another order." WEFT_VIEW, true, any, order_samples,
     parts::reordered, detail::boxed<+[](const Tensor& x, const Dims& dims) { return x.permute(dims); }>},
    {"select", "select(x, dim, index)", "x[index] along dim." WEFT_VIEW, true, any, select_samples, parts::along,
     detail::boxed<+[](const Tensor& x, int dim, int64_t index) { return x.select(dim, index); }>},
    {"narrow", "narrow(x, dim, start, length)", "x[start:start + length] along dim." WEFT_VIEW, true, any,
     narrow_samples, parts::along, detail::boxed<+[](const Tensor& x, int dim, int64_t start, int64_t length) {
       return x.narrow(dim, start, length);
     }>},
    {"unsqueeze", "unsqueeze(x, dim)", "x with a dimension of size 1 more." WEFT_VIEW, true, any, dim_samples,
     parts::reordered, detail::boxed<+[](const Tensor& x, int dim) { return x.unsqueeze(dim); }>},
    {"squeeze", "squeeze(x, dim=None)", "x without its dimensions of size 1, or those of dim." WEFT_VIEW, true, any,
     squeeze_samples, squeezed, detail::boxed<call_squeeze>},
    {"expand", "expand(x, *sizes|size)", "x repeated along dimensions of size 1 without a copy." WEFT_VIEW, true, any,
     expand_samples, parts::expanded,
     detail::boxed<+[](const Tensor& x, const Dims& sizes) { return x.expand(sizes); }>},
    {"diagonal", "diagonal(x, offset=0, dim1=0, dim2=1)", "The diagonal, as the last dimension." WEFT_VIEW, true, any,
     diagonal_samples, diagonal_part,
     detail::boxed<+[](const Tensor& x, int64_t offset, int a, int b) { return x.diagonal(offset, a, b); }>},
    {"flatten", "flatten(x, start_dim=0, end_dim=-1)",
     "Dimensions start_dim ... end_dim as one: a view where the strides allow it.", true, any, flatten_samples,
     parts::reshaped, detail::boxed<+[](const Tensor& x, int from, int to) { return x.flatten(from, to); }>},
    {"chunk", "chunk(x, chunks, dim=0)", "At most `chunks` views of about one size along dim.", true, any,
     chunk_samples, parts::along, detail::boxed<+[](const Tensor& x, int64_t n, int dim) { return x.chunk(n, dim); }>},
    {"unbind", "unbind(x, dim=0)", "Views x[0], x[1], ... along dim.", true, any, unbind_samples, parts::along,
     detail::boxed<+[](const Tensor& x, int dim) { return x.unbind(dim); }>},
    {"clone", "clone(x)", "A copy; recorded by autograd.", true, any, matrix_samples, parts::copy,
     detail::boxed<+[](const Tensor& x) { return x.clone(); }>},
    {"contiguous", "contiguous(x)", "x itself where it is row-major without gaps, else a copy.", true, any,
     matrix_samples, parts::copy, detail::boxed<+[](const Tensor& x) { return x.contiguous(); }>},
    {"detach", "detach(x)", "The same elements outside the graph." WEFT_VIEW, false, any, matrix_samples, parts::copy,
     detail::boxed<+[](const Tensor& x) { return x.detach(); }>},
    {"to", "to(x, other=None, dtype=None, non_blocking=False, copy=False, *, device=None)",
     "x as another dtype or on another device, or like another tensor; x itself where nothing changes.", true, any,
     to_samples, converted, detail::boxed<call_to>},
};
#undef WEFT_VIEW

}  // namespace

std::span<const OpRecord> view_records() { return records; }

}  // namespace weft
