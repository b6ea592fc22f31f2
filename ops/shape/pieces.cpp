// A tensor in pieces along one dimension.
#include "../pieces.hpp"

#include "../detail/common.hpp"
#include "../detail/records.hpp"
#include "../../tensor/checked.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

// The dimension, counted from 0.
int checked_dim(const Tensor& x, int dim) {
  const int d = wrap_dim(dim, checked(x).dim());
  if (x.dim() == 0) raise<ValueError>({.problem = "a 0-d tensor cannot be split"});
  return d;
}

std::vector<Tensor> of_sizes(const Tensor& x, std::span<const int64_t> sizes, int dim) {
  const int d = checked_dim(x, dim);
  const int64_t n = x.sizes()[static_cast<size_t>(d)];
  Checked total = 0;
  for (const int64_t size : sizes) {
    if (size < 0) raise<ValueError>({.problem = fmt::format("a piece cannot have {} elements", size)});
    total += size;
  }
  if (!total.fits() || total.value() != n) {
    raise<ShapeError>({.problem = fmt::format("the sizes of {} pieces do not add up to dimension {} of size {}",
                                              sizes.size(), d, n)});
  }
  std::vector<Tensor> parts;
  int64_t first = 0;
  for (const int64_t size : sizes) {
    parts.push_back(x.narrow(d, first, size));
    first += size;
  }
  return parts;
}

std::vector<Tensor> in_sections(const Tensor& x, int64_t sections, int dim) {
  const int d = checked_dim(x, dim);
  const int64_t n = x.sizes()[static_cast<size_t>(d)];
  if (sections <= 0) raise<ValueError>({.problem = fmt::format("cannot make {} pieces", sections)});
  if (sections > int64_t{1} << 24) {
    raise<ShapeError>({.problem = fmt::format("{} tensors are too many", sections)});
  }
  std::vector<Tensor> parts;
  int64_t first = 0;
  for (int64_t i = 0; i < sections; ++i) {
    const int64_t size = n / sections + (i < n % sections ? 1 : 0);
    parts.push_back(x.narrow(d, first, size));
    first += size;
  }
  return parts;
}

std::vector<Tensor> between(const Tensor& x, std::span<const int64_t> indices, int dim) {
  const int d = checked_dim(x, dim);
  std::vector<Tensor> parts;
  int64_t first = 0;
  for (const int64_t index : indices) {
    parts.push_back(x.slice(d, first, index));
    first = index;
  }
  parts.push_back(x.slice(d, first));
  return parts;
}

// Where hsplit (1), vsplit (2) and dsplit (3) cut.
int own_dim(const Tensor& x, int rank) {
  expect_rank_at_least("x", checked(x), rank);
  if (rank == 1) return x.dim() == 1 ? 0 : 1;
  return rank == 2 ? 0 : 2;
}

std::vector<Tensor> equal_sections(const Tensor& x, int64_t sections, int rank) {
  const int d = own_dim(x, rank);
  const int64_t n = x.sizes()[static_cast<size_t>(d)];
  if (sections > 0 && n % sections != 0) {
    raise<ShapeError>({.problem = fmt::format("dimension {} of size {} does not make {} equal pieces", d, n, sections),
                       .remedy = "use tensor_split for pieces of two sizes"});
  }
  return in_sections(x, sections, d);
}

std::span<const int64_t> span_of(std::initializer_list<int64_t> list) { return {list.begin(), list.size()}; }

}  // namespace

std::vector<Tensor> split_with_sizes(const Tensor& x, std::span<const int64_t> sizes, int dim, Location where) {
  const CallScope call("split_with_sizes", where);
  return of_sizes(x, sizes, dim);
}
std::vector<Tensor> split_with_sizes(const Tensor& x, std::initializer_list<int64_t> sizes, int dim, Location where) {
  return split_with_sizes(x, span_of(sizes), dim, where);
}

std::vector<Tensor> tensor_split(const Tensor& x, int64_t sections, int dim, Location where) {
  const CallScope call("tensor_split", where);
  return in_sections(x, sections, dim);
}
std::vector<Tensor> tensor_split(const Tensor& x, std::span<const int64_t> indices, int dim, Location where) {
  const CallScope call("tensor_split", where);
  return between(x, indices, dim);
}
std::vector<Tensor> tensor_split(const Tensor& x, std::initializer_list<int64_t> indices, int dim, Location where) {
  return tensor_split(x, span_of(indices), dim, where);
}

#define WEFT_SPLIT_ALONG(name, rank)                                                                  \
  std::vector<Tensor> name(const Tensor& x, int64_t sections, Location where) {                       \
    const CallScope call(#name, where);                                                               \
    return equal_sections(x, sections, rank);                                                         \
  }                                                                                                   \
  std::vector<Tensor> name(const Tensor& x, std::span<const int64_t> indices, Location where) {       \
    const CallScope call(#name, where);                                                               \
    return between(x, indices, own_dim(x, rank));                                                     \
  }                                                                                                   \
  std::vector<Tensor> name(const Tensor& x, std::initializer_list<int64_t> indices, Location where) { \
    return name(x, span_of(indices), where);                                                          \
  }
WEFT_SPLIT_ALONG(hsplit, 1)
WEFT_SPLIT_ALONG(vsplit, 2)
WEFT_SPLIT_ALONG(dsplit, 3)
#undef WEFT_SPLIT_ALONG

namespace {

// One integer, or a list.
bool is_one(const Value& v) {
  const auto* t = std::get_if<Tensor>(&v);
  return std::holds_alternative<int64_t>(v) || (t != nullptr && t->defined() && t->dim() == 0);
}

std::vector<Tensor> call_split(const Tensor& x, const Value& sizes, int dim) {
  if (is_one(sizes)) return checked(x).split(detail::unboxed<int64_t>(sizes, 1), dim);
  return of_sizes(x, integers_in(sizes, 1), dim);
}
std::vector<Tensor> call_split_with_sizes(const Tensor& x, const Value& sizes, int dim) {
  return of_sizes(x, integers_in(sizes, 1), dim);
}
std::vector<Tensor> call_tensor_split(const Tensor& x, const Value& cuts, int dim) {
  if (is_one(cuts)) return in_sections(x, detail::unboxed<int64_t>(cuts, 1), dim);
  return between(x, integers_in(cuts, 1), dim);
}
template <int rank>
std::vector<Tensor> call_split_along(const Tensor& x, const Value& cuts) {
  if (is_one(cuts)) return equal_sections(x, detail::unboxed<int64_t>(cuts, 1), rank);
  return between(x, integers_in(cuts, 1), own_dim(x, rank));
}

std::vector<Values> split_samples(SampleMaker& make) {
  return {{make.tensor({5, 2}), int64_t{2}},
          {make.tensor({2, 5}), Dims{1, 4}, int64_t{1}},
          {make.tensor({2, 3}), Dims{0, 2}},
          {make.tensor({0, 2}), int64_t{3}, int64_t{-1}}};
}
std::vector<Values> sizes_samples(SampleMaker& make) {
  return {{make.tensor({2, 5}), Dims{1, 4}, int64_t{-1}},
          {make.tensor({3}), Dims{1, 0, 2}},
          {make.tensor({0, 2}), Dims{0}}};
}
std::vector<Values> tensor_split_samples(SampleMaker& make) {
  return {{make.tensor({5, 2}), int64_t{3}},
          {make.tensor({2, 5}), Dims{1, 4}, int64_t{-1}},
          {make.tensor({4}), Dims{3, 1, -1}},
          {make.tensor({0, 2}), int64_t{2}, int64_t{1}}};
}
std::vector<Values> along_samples(SampleMaker& make) {
  return {
      {make.tensor({4, 2, 2}), int64_t{2}}, {make.tensor({2, 4, 3}), Dims{1, 2}}, {make.tensor({2, 2, 0}), Dims{1}}};
}

template <int dim>
Partition split_along(const WholeCall& call) {
  return parts::aligned(call, Dims(std::min(dim, call.inputs()[0].dim() - 1)));
}

constexpr auto any = OpRecord::Domain::any;
constexpr OpRecord pieces_op_records[] = {
    {"split", "split(x|tensor, split_size|split_size_or_sections, dim=0)",
     "Views of split_size along dim, or of a list of sizes.", true, any, split_samples, parts::along,
     detail::boxed<call_split>},
    {"split_with_sizes", "split_with_sizes(x, split_sizes, dim=0)", "Views of these sizes along dim.", true, any,
     sizes_samples, parts::along, detail::boxed<call_split_with_sizes>},
    {"tensor_split", "tensor_split(x, indices_or_sections|indices|sections|tensor_indices_or_sections, dim=0)",
     "That many views along dim, the first ones longer by one where the size is no multiple; or the views between a "
     "list of indices, with bounds as in Python.",
     true, any, tensor_split_samples, parts::along, detail::boxed<call_tensor_split>},
    {"hsplit", "hsplit(x, indices_or_sections|indices|sections)",
     "Equal views along dimension 1, or 0 of a 1-d tensor; or those between a list of indices.", true, any,
     along_samples, split_along<1>, detail::boxed<call_split_along<1>>},
    {"vsplit", "vsplit(x, indices_or_sections|indices|sections)",
     "Equal views along dimension 0, or those between a list of indices.", true, any, along_samples, parts::along_first,
     detail::boxed<call_split_along<2>>},
    {"dsplit", "dsplit(x, indices_or_sections|indices|sections)",
     "Equal views along dimension 2, or those between a list of indices.", true, any, along_samples, split_along<2>,
     detail::boxed<call_split_along<3>>},
};

}  // namespace

std::span<const OpRecord> pieces_records() { return pieces_op_records; }

}  // namespace weft
