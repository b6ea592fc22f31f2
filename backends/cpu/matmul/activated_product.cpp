// Products that are not stored before their activation, their product with another or their rotation is computed.
#include "../kernels.hpp"

#include "../../functors/lists.hpp"
#include "../lines.hpp"
#include "../pointwise/loops.hpp"
#include "../rows/rotary.hpp"
#include "matrix_view.hpp"
#include "product_tiles.hpp"

namespace weft::cpu {
namespace {

template <class A>
constexpr int slot = std::is_same_v<A, double> ? slot_f64 : slot_f32;

template <class A>
void apply(UnaryOp op, A* x, int64_t n) {
  unary_loops.loop[static_cast<int>(op)][slot<A>][0](x, x, n);
}
template <class A>
void apply(BinaryOp op, A* x, const A* y, int64_t n) {
  binary_loops.loop[static_cast<int>(op)][slot<A>][0](x, x, y, n);
}

template <class A>
void activate(Activation activation, A* x, int64_t n) {
  switch (activation) {
    case Activation::none:
      return;
    case Activation::relu:
      return apply(UnaryOp::relu, x, n);
    case Activation::gelu:
      return apply(UnaryOp::gelu_erf, x, n);
    case Activation::gelu_tanh:
      return apply(UnaryOp::gelu_tanh, x, n);
    case Activation::silu:
      return apply(UnaryOp::silu, x, n);
    case Activation::selu:
      return apply(UnaryOp::selu, x, n);
  }
}

template <class A>
void activated(const View& out, const View& a, const View& b, const View& other, const View& bias,
               Activation activation) {
  const int64_t n = columns_of(out);
  const Scratch line(n * static_cast<int64_t>(sizeof(A)), bias.data != nullptr && needs_scratch<A>(bias.layout, 0));
  const A* const biases = bias.data == nullptr
                              ? nullptr
                              : read_line(line.as<A>(), bytes(bias), bias.layout.strides[0], n, bias.layout.dtype);
  for_product_tiles<A>({a, b, other, out, 1, biases}, [&](const ProductTile<A>& tile) {
    for (int64_t i = 0; i < tile.rows; ++i) {
      A* const x = tile.values + i * tile.stride;
      if (tile.others != nullptr && activation == Activation::silu) {
        apply(BinaryOp::swiglu, x, tile.others + i * tile.columns, tile.columns);
      } else {
        activate(activation, x, tile.columns);
        if (tile.others != nullptr) apply(BinaryOp::mul, x, tile.others + i * tile.columns, tile.columns);
      }
      char* const to = bytes(out) + (tile.row + i) * row_bytes(out) + tile.column * column_bytes(out);
      finish_line(x, to, column_bytes(out), tile.columns, out.layout.dtype);
    }
  });
}

/// Where one head of a token goes, and whether it is rotated first.
struct Head {
  const View* to;
  int64_t number;
  bool rotates;
};

template <class A>
void rotated(const View& q, const View& k, const View& v, const View& x, const View& weight, const View& cos,
             const View& sin, bool interleaved) {
  const int64_t length = q.layout.sizes[1], heads = q.layout.sizes[2], d = q.layout.sizes[3];
  const int64_t fewer = k.layout.sizes[2];
  const auto head_at = [&](int64_t h) {
    if (h < heads) return Head{&q, h, true};
    return h < heads + fewer ? Head{&k, h - heads, true} : Head{&v, h - heads - fewer, false};
  };
  for_product_tiles<A>({x, weight, {}, {}, d}, [&](const ProductTile<A>& tile) {
    const int64_t line = d * static_cast<int64_t>(sizeof(A));
    const Scratch cos_line(line, needs_scratch<A>(cos.layout, 2)), sin_line(line, needs_scratch<A>(sin.layout, 2));
    for (int64_t i = 0; i < tile.rows; ++i) {
      const int64_t batch = (tile.row + i) / length, place = (tile.row + i) % length;
      const auto line_at = [&](const View& view, const Scratch& scratch) {
        const int64_t* steps = view.layout.strides;
        return read_line(scratch.as<A>(), bytes(view) + batch * steps[0] + place * steps[1], steps[2], d,
                         view.layout.dtype);
      };
      const A *c = line_at(cos, cos_line), *s = line_at(sin, sin_line);
      for (int64_t j = 0; j < tile.columns; j += d) {
        A* const values = tile.values + i * tile.stride + j;
        const Head head = head_at((tile.column + j) / d);
        const int64_t* steps = head.to->layout.strides;
        char* const to = bytes(*head.to) + batch * steps[0] + place * steps[1] + head.number * steps[2];
        const DType dtype = head.to->layout.dtype;
        store_line(to, steps[3], dtype, values, d);
        if (!head.rotates) continue;
        if (dtype != dtype_of<A>()) load_line(values, to, steps[3], d, dtype);  // rounded, as the product would be
        rotate_line(values, values, c, s, d, interleaved, false);
        store_line(to, steps[3], dtype, values, d);
      }
    }
  });
}

void check(const char* kernel, std::initializer_list<const View*> views) {
  for (const View* view : views) {
    if (view->data != nullptr && !is_computable_float(view->layout.dtype)) unsupported(kernel, *view);
  }
}

}  // namespace

void activated_product(const View& out, const View& a, const View& b, const View& other, const View& bias,
                       Activation activation) {
  check("activated_product", {&out, &a, &b, &other, &bias});
  if (out.layout.numel == 0) return;
  if (out.layout.dtype == DType::f64) activated<double>(out, a, b, other, bias, activation);
  else activated<float>(out, a, b, other, bias, activation);
}

void rotated_products(const View& q, const View& k, const View& v, const View& x, const View& weight, const View& cos,
                      const View& sin, bool interleaved) {
  check("rotated_products", {&q, &k, &v, &x, &weight, &cos, &sin});
  if (x.layout.numel == 0 || weight.layout.numel == 0) return;
  if (x.layout.dtype == DType::f64) rotated<double>(q, k, v, x, weight, cos, sin, interleaved);
  else rotated<float>(q, k, v, x, weight, cos, sin, interleaved);
}

}  // namespace weft::cpu
