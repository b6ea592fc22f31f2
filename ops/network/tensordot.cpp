// Products summed over any dimensions.
#include "../detail/autocast.hpp"
#include "../detail/common.hpp"
#include "../detail/records.hpp"
#include "../matmul.hpp"
#include "../reduce.hpp"
#include "../../tensor/checked.hpp"
#include "../detail/parts.hpp"

namespace weft {

namespace {

// The dimensions that are summed over, from 0 on, then as bits.
struct Contracted {
  Dims dims;
  uint32_t bits = 0;
};
Contracted contracted(const Tensor& t, const Dims& dims) {
  Contracted c;
  for (const int64_t dim : dims) {
    if (checked(t).dim() == 0) raise<IndexError>({.problem = fmt::format("a 0-d tensor has no dimension {}", dim)});
    const int d = wrap_dim(dim, t.dim());
    if ((c.bits >> d & 1) != 0) raise<ValueError>({.problem = fmt::format("dimension {} is named twice", d)});
    c.bits |= 1u << d;
    c.dims.push_back(d);
  }
  return c;
}

Dims free_dims(const Tensor& t, const Contracted& c) {
  Dims dims;
  for (int d = 0; d < t.dim(); ++d) {
    if ((c.bits >> d & 1) == 0) dims.push_back(d);
  }
  return dims;
}

Dims joined(const Dims& a, const Dims& b) {
  Dims all = a;
  for (const int64_t n : b) all.push_back(n);
  return all;
}

Dims sizes_along(const Tensor& t, const Dims& dims) {
  Dims sizes;
  for (const int64_t d : dims) sizes.push_back(t.sizes()[static_cast<size_t>(d)]);
  return sizes;
}

// A dimension of one element meets one of n: the sum of the n is taken first.
void sum_repeated(Tensor& a, Tensor& b, const Contracted& of_a, const Contracted& of_b) {
  Dims summed_a, summed_b;
  for (int i = 0; i < of_a.dims.size(); ++i) {
    const int64_t m = a.sizes()[static_cast<size_t>(of_a.dims[i])], n = b.sizes()[static_cast<size_t>(of_b.dims[i])];
    if (m == n) continue;
    if (m == 1) {
      summed_b.push_back(of_b.dims[i]);
    } else if (n == 1) {
      summed_a.push_back(of_a.dims[i]);
    } else {
      raise<ShapeError>({.problem = fmt::format("dimension {} of {} and {} of {} differ in size", of_a.dims[i],
                                                a.shape().text(), of_b.dims[i], b.shape().text())});
    }
  }
  if (!summed_a.empty()) a = sum(a, summed_a, true, a.dtype());
  if (!summed_b.empty()) b = sum(b, summed_b, true, b.dtype());
}

Tensor contraction(Tensor a, Tensor b, const Dims& dims_a, const Dims& dims_b) {
  check_same_device({&checked(a), &checked(b)});
  if (a.dtype() != b.dtype()) {
    raise<DTypeError>({.problem = fmt::format("{} and {} have no product", name(a.dtype()), name(b.dtype())),
                       .remedy = "convert one of them with to()"});
  }
  if (dims_a.size() != dims_b.size()) {
    raise<ValueError>(
        {.problem = fmt::format("{} dimensions of one tensor, {} of the other", dims_a.size(), dims_b.size())});
  }
  const Contracted of_a = contracted(a, dims_a), of_b = contracted(b, dims_b);
  const Dims rows = free_dims(a, of_a), columns = free_dims(b, of_b);
  const Dims shape = joined(sizes_along(a, rows), sizes_along(b, columns));
  sum_repeated(a, b, of_a, of_b);
  check_sizes(shape, a.dtype());
  const int64_t inner = sizes_along(a, of_a.dims).product();
  const int64_t m = sizes_along(a, rows).product(), n = sizes_along(b, columns).product();
  const Tensor left = a.permute(joined(rows, of_a.dims)).reshape({m, inner});
  const Tensor right = b.permute(joined(of_b.dims, columns)).reshape({inner, n});
  return mm(left, right).reshape(shape);
}

}  // namespace

Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& dims_a, const Dims& dims_b, Location where) {
  const CallScope call("tensordot", where);
  WEFT_IN_LOWER(tensordot, a, b, dims_a, dims_b, where);
  return contraction(a, b, dims_a, dims_b);
}

Tensor tensordot(const Tensor& a, const Tensor& b, int64_t count, Location where) {
  const CallScope call("tensordot", where);
  WEFT_IN_LOWER(tensordot, a, b, count, where);
  if (count < 0) raise<ValueError>({.problem = fmt::format("cannot sum over {} dimensions", count)});
  if (count > checked(a).dim() || count > checked(b).dim()) {
    raise<ShapeError>({.problem = fmt::format("{} and {} do not both have {} dimensions", a.shape().text(),
                                              b.shape().text(), count)});
  }
  Dims dims_a, dims_b;
  for (int i = 0; i < static_cast<int>(count); ++i) {
    dims_a.push_back(a.dim() - static_cast<int>(count) + i);
    dims_b.push_back(i);
  }
  return contraction(a, b, dims_a, dims_b);
}

namespace {

Tensor call_tensordot(const Tensor& a, const Tensor& b, const Value& dims, std::optional<Dims> dims_b) {
  if (!dims_b) return tensordot(a, b, detail::unboxed<int64_t>(dims, 2));
  return tensordot(a, b, detail::unboxed<Dims>(dims, 2), *dims_b);
}

std::vector<Values> tensordot_samples(SampleMaker& make) {
  return {{make.tensor({2, 3, 4}), make.tensor({3, 4, 2})},
          {make.tensor({2, 3}), make.tensor({3, 2}), int64_t{1}},
          {make.tensor({2}), make.tensor({3}), int64_t{0}},
          {make.tensor({2, 3, 4}), make.tensor({4, 2}), Dims{0, -1}, Dims{1, 0}},
          {make.tensor({2, 1}), make.tensor({3, 2}), Dims{1}, Dims{0}},
          {make.tensor({3}), make.tensor({3}), int64_t{1}},
          {make.tensor({}), make.tensor({}), int64_t{0}},
          {make.tensor({2, 0}), make.tensor({0, 3}), int64_t{1}}};
}

Partition contracted(const WholeCall& call) {
  const Tensor &a = call.inputs()[0], &b = call.inputs()[1];
  Dims of_a, of_b;
  if (std::holds_alternative<std::monostate>(call["dims_b"])) {
    const int64_t count = detail::integer_in(call["dims"]);
    for (int64_t i = 0; i < count; ++i) of_a.push_back(a.dim() - count + i), of_b.push_back(i);
  } else {
    for (const int64_t d : detail::dims_in(call["dims"])) of_a.push_back(wrap_dim(d, a.dim()));
    for (const int64_t d : detail::dims_in(call["dims_b"])) of_b.push_back(wrap_dim(d, b.dim()));
  }
  std::string left = parts::letters(a.dim()), right = parts::letters(b.dim(), 'A'), out;
  for (int i = 0; i < of_a.size(); ++i) {
    // A size of 1 is stretched.
    const bool alike = a.size(static_cast<int>(of_a[i])) == b.size(static_cast<int>(of_b[i]));
    char& letter = left[static_cast<size_t>(of_a[i])];
    letter = alike ? letter : '1';
    right[static_cast<size_t>(of_b[i])] = letter;
  }
  for (int d = 0; d < a.dim(); ++d) {
    if (std::ranges::find(of_a, d) == of_a.end()) out += left[static_cast<size_t>(d)];
  }
  for (int d = 0; d < b.dim(); ++d) {
    if (std::ranges::find(of_b, d) == of_b.end()) out += right[static_cast<size_t>(d)];
  }
  return {.letters = left + "," + right + "->" + out, .linearity = Linearity::each};
}

constexpr OpRecord tensordot_op_records[] = {
    {"tensordot", "tensordot(a, b|other, dims=2, dims_b=None)",
     "Sums of products over the last `dims` dimensions of a and the first of b, or over dims of a and dims_b of b.",
     OpFacts(true, Autocast::lower), OpRecord::Domain::numeric, tensordot_samples, contracted,
     detail::boxed<call_tensordot>},
};

}  // namespace

std::span<const OpRecord> tensordot_records() { return tensordot_op_records; }

}  // namespace weft
