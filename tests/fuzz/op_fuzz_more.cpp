#include "op_fuzz_more.hpp"

#include <cstring>

#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/masked.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/scan.hpp>
#include <weft/ops/scatter.hpp>

namespace weft::fuzz {
namespace {

using Optional = std::optional<int64_t>;

template <class... V>
std::vector<Values> one(V... values) {
  return {{Value(values)...}};
}

/// `function` takes the arguments of its samples; views have gradients.
#define WEFT_FUZZ_OP(name, differentiable, sample, ...)                                           \
  OpRecord {                                                                                      \
    name, name, "", differentiable, OpRecord::Domain::any,                                        \
        [](SampleMaker& make) -> std::vector<Values> { return (void)make, one sample; }, nullptr, \
        detail::boxed<+__VA_ARGS__>                                                               \
  }

const OpRecord records[] = {
    WEFT_FUZZ_OP("view", true, (make.tensor({2, 3}), Dims{3, -1}),
                 [](const Tensor& x, const Dims& shape) { return x.view(shape); }),
    WEFT_FUZZ_OP("reshape", true, (make.tensor({2, 3, 2}), Dims{-1, 4}),
                 [](const Tensor& x, const Dims& shape) { return x.reshape(shape); }),
    WEFT_FUZZ_OP("expand", true, (make.tensor({2, 1, 3}), Dims{2, 2, 4, 3}),
                 [](const Tensor& x, const Dims& shape) { return x.expand(shape); }),
    WEFT_FUZZ_OP("permute", true, (make.tensor({2, 3, 4}), Dims{2, 0, -2}),
                 [](const Tensor& x, const Dims& dims) { return x.permute(dims); }),
    WEFT_FUZZ_OP("transpose", true, (make.tensor({2, 3}), int64_t{0}, int64_t{-1}),
                 [](const Tensor& x, int a, int b) { return x.transpose(a, b); }),
    WEFT_FUZZ_OP("t", true, (make.tensor({2, 3})), [](const Tensor& x) { return x.t(); }),
    WEFT_FUZZ_OP("slice", true, (make.tensor({7, 2}), int64_t{0}, int64_t{1}, int64_t{6}, int64_t{2}),
                 [](const Tensor& x, int dim, Optional start, Optional stop, Optional step) {
                   return x.slice(dim, start, stop, step.value_or(1));
                 }),
    WEFT_FUZZ_OP("narrow", true, (make.tensor({7, 2}), int64_t{0}, int64_t{1}, int64_t{3}),
                 [](const Tensor& x, int dim, Optional start, Optional length) {
                   return x.narrow(dim, start.value_or(0), length.value_or(1));
                 }),
    WEFT_FUZZ_OP("select", true, (make.tensor({5, 2}), int64_t{0}, int64_t{-2}),
                 [](const Tensor& x, int dim, Optional index) { return x.select(dim, index.value_or(0)); }),
    WEFT_FUZZ_OP("unsqueeze", true, (make.tensor({5, 2}), int64_t{1}),
                 [](const Tensor& x, int dim) { return x.unsqueeze(dim); }),
    WEFT_FUZZ_OP(
        "squeeze", true, (make.tensor({5, 1, 2}), int64_t{1}),
        [](const Tensor& x, Optional dim) { return dim ? x.squeeze(static_cast<int>(*dim % 9)) : x.squeeze(); }),
    WEFT_FUZZ_OP("diagonal", true, (make.tensor({4, 3}), int64_t{1}, int64_t{0}, int64_t{1}),
                 [](const Tensor& x, Optional offset, int a, int b) { return x.diagonal(offset.value_or(0), a, b); }),
    WEFT_FUZZ_OP("flatten", true, (make.tensor({2, 3, 2}), int64_t{0}, int64_t{-1}),
                 [](const Tensor& x, int first, int last) { return x.flatten(first, last); }),
    WEFT_FUZZ_OP("as_strided", false, (make.tensor({24}), Dims{2, 3}, Dims{3, 2}, int64_t{1}),
                 [](const Tensor& x, const Dims& shape, const Dims& strides, Optional offset) {
                   return x.clone().as_strided(shape, strides, offset);
                 }),
    WEFT_FUZZ_OP("split", true, (make.tensor({7, 2}), int64_t{3}, int64_t{0}),
                 [](const Tensor& x, Optional size, int dim) { return x.split(size.value_or(1), dim); }),
    WEFT_FUZZ_OP("chunk", true, (make.tensor({7, 2}), int64_t{3}, int64_t{0}),
                 [](const Tensor& x, Optional count, int dim) { return x.chunk(count.value_or(1), dim); }),
    WEFT_FUZZ_OP("unbind", true, (make.tensor({7, 2}), int64_t{1}),
                 [](const Tensor& x, int dim) { return x.unbind(dim); }),
    WEFT_FUZZ_OP("clone", true, (make.tensor({5, 2})), [](const Tensor& x) { return x.clone(); }),
    WEFT_FUZZ_OP("contiguous", true, (make.tensor({5, 2})), [](const Tensor& x) { return x.contiguous(); }),
    WEFT_FUZZ_OP("to", true, (make.tensor({5, 2}), f64),
                 [](const Tensor& x, std::optional<DType> t) { return x.to(t.value_or(f32)); }),
    WEFT_FUZZ_OP("text", false, (make.tensor({5, 2})),
                 [](const Tensor& x) { return tensor(static_cast<int64_t>(x.text().size() > 2)); }),
    WEFT_FUZZ_OP(
        "full", false, (Dims{2, 3}, int64_t{3}, make.dtype()),
        [](const Dims& shape, Scalar value, std::optional<DType> t) { return full(shape, value, t.value_or(f32)); }),
    WEFT_FUZZ_OP("empty_and_zero", false, (Dims{2, 3}, make.dtype()),
                 [](const Dims& shape, std::optional<DType> t) { return empty(shape, t.value_or(f32)).zero_(); }),
    WEFT_FUZZ_OP("arange", false, (int64_t{0}, int64_t{7}, int64_t{2}, make.dtype()),
                 [](Scalar start, Scalar stop, Scalar step, std::optional<DType> t) {
                   return arange(start, stop, step, t.value_or(i64));
                 }),
    WEFT_FUZZ_OP("linspace", false, (0.0, 1.0, int64_t{5}),
                 [](double first, double last, Optional count) { return linspace(first, last, count.value_or(3)); }),
    WEFT_FUZZ_OP("eye", false, (int64_t{3}, int64_t{4}, make.dtype()),
                 [](Optional rows, Optional columns, std::optional<DType> t) {
                   return eye(rows.value_or(2), columns, t.value_or(f32));
                 }),
};
#undef WEFT_FUZZ_OP

struct Form {
  const char* name;
  BoxedFunction run;
};
const Form forms[] = {
    {"cumsum",
     detail::boxed<+[](const Tensor& x, Optional dim, std::optional<bool> exclusive, std::optional<bool> reverse) {
       return cumsum_(x, dim.value_or(0), exclusive.value_or(false), reverse.value_or(false));
     }>},
    {"masked_fill", detail::boxed<+[](const Tensor& x, const Tensor& mask, const Operand& value) {
       return masked_fill_(x, mask, value);
     }>},
    {"masked_scatter", detail::boxed<+[](const Tensor& x, const Tensor& mask, const Tensor& source) {
       return masked_scatter_(x, mask, source);
     }>},
    {"index_add", detail::boxed<+[](const Tensor& x, int dim, const Tensor& index, const Tensor& source) {
       return index_add_(x, dim, index, source);
     }>},
    {"index_copy", detail::boxed<+[](const Tensor& x, int dim, const Tensor& index, const Tensor& source) {
       return index_copy_(x, dim, index, source);
     }>},
    {"index_fill", detail::boxed<+[](const Tensor& x, int dim, const Tensor& index, const Operand& value) {
       return index_fill_(x, dim, index, value);
     }>},
    {"put", detail::boxed<+[](const Tensor& x, const Tensor& index, const Tensor& source, std::optional<bool> add) {
       return put_(x, index, source, add.value_or(false));
     }>},
    {"scatter", detail::boxed<+[](const Tensor& x, int dim, const Tensor& index, const Operand& source) {
       return scatter_(x, dim, index, source);
     }>},
    {"scatter_add", detail::boxed<+[](const Tensor& x, int dim, const Tensor& index, const Tensor& source) {
       return scatter_add_(x, dim, index, source);
     }>},
};

}  // namespace

std::span<const OpRecord> more_records() { return records; }

const BoxedFunction* find_in_place(const char* name) {
  for (const Form& form : forms) {
    if (std::strcmp(form.name, name) == 0) return &form.run;
  }
  return nullptr;
}

}  // namespace weft::fuzz
