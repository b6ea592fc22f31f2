// Products of complex matrices by one of real ones: A's components are interleaved along k, [m, 2k], and each row of B
// is followed by that row times i, [2k, 2n]. The product is C with interleaved components. The cost is that of four
// real products and one copy of B.
//
// Neither oneDNN nor the own GEMM has a complex product.
#include "../complex.hpp"
#include "../detail/complex.hpp"
#include "../matmul.hpp"
#include "../pointwise.hpp"

namespace weft {

namespace {

Dims batch_of(const Tensor& t) { return Dims(t.sizes().first(static_cast<size_t>(t.dim() - 2))); }

Dims with(Dims shape, std::initializer_list<int64_t> more) {
  for (const int64_t n : more) shape.push_back(n);
  return shape;
}

// [..., m, k] as [..., m, 2k].
Tensor parts_along(const Tensor& a) {
  const Tensor dense = a.contiguous();
  return view_as_real(dense).reshape(with(batch_of(dense), {dense.size(-2), 2 * dense.size(-1)}));
}

// [..., k, n] as [..., 2k, 2n].
Tensor parts_below(const Tensor& b) {
  const int64_t k = b.size(-2), n = b.size(-1);
  const Tensor out = make(with(batch_of(b), {k, 2, n}), b.dtype(), b.device());
  out.select(-2, 0).copy_(b);
  const Tensor turned = out.select(-2, 1);
  real(turned).copy_(-imag(b));
  imag(turned).copy_(real(b));
  return view_as_real(out).reshape(with(batch_of(b), {2 * k, 2 * n}));
}

// Of rank 2 and more. Not recorded.
Tensor matrices(const Tensor& a, const Tensor& b) {
  const Tensor c = matmul(parts_along(a), parts_below(b));
  Dims shape = c.shape();
  shape[shape.size() - 1] /= 2;
  shape.push_back(2);
  return view_as_complex(c.view(shape));
}

Tensor adjoint(const Tensor& t) { return conjugate(t).transpose(-2, -1); }

// Sums over broadcast dimensions.
Tensor folded(Tensor g, const Tensor& like) { return sum_to(std::move(g), like.sizes()); }

struct ProductBackward {
  Saved a, b;
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor &g = incoming[0], &x = a.get(self), &y = b.get(self);
    const bool row = x.dim() == 1, column = y.dim() == 1;
    Tensor matrix = g;
    if (column) matrix = matrix.unsqueeze(-1);
    if (row) matrix = matrix.unsqueeze(-2);
    const Tensor left = row ? x.unsqueeze(0) : x, right = column ? y.unsqueeze(1) : y;
    if (self.wants(0)) outgoing[0] = folded(matmul(matrix, adjoint(right)), left).reshape(x.shape());
    if (self.wants(1)) outgoing[1] = folded(matmul(adjoint(left), matrix), right).reshape(y.shape());
  }
};

}  // namespace

Tensor complex_product(const Tensor& a, const Tensor& b) {
  Tensor out;
  {
    const NoGradGuard unrecorded;
    const bool row = a.dim() == 1, column = b.dim() == 1;
    out = matrices(row ? a.unsqueeze(0) : a, column ? b.unsqueeze(1) : b);
    if (column) out = out.squeeze(-1);
    if (row) out = out.squeeze(column ? -1 : -2);
    const View& view = out.raw_view();
    out = Tensor::adopt(detail::new_alias(out.impl(), view.layout, view.data));  // not a view to autograd
  }
  if (should_record(a, b)) record(out, ProductBackward{Saved(a), Saved(b)}, a, b);
  return out;
}

}  // namespace weft
