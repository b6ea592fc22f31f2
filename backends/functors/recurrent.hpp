// The cells of recurrent layers: one step of one unit, and its gradient, generic over the value type as the formulas of
// unary.hpp are.
//
// `step` converts the pre-activations of the gates to the gates' values. `before` is the cell (lstm) or the state (gru)
// before the step. `kept` is saved for the gradient: lstm's new cell, gru's state term of n. `gradient` takes dh, the
// gradient of the new state, and returns that of the old one except the part through the gates.
#if !defined(WEFT_FUNCTORS_RECURRENT) || defined(WEFT_SIMD_FUNCTORS)  // each SIMD target compiles the formulas again
#define WEFT_FUNCTORS_RECURRENT

#if !defined(WEFT_SIMD_FUNCTORS)
#include "unary.hpp"
#endif

namespace weft::WEFT_FUNCTORS {

/// h = f(gate)
template <class F>
struct PlainCell {
  enum { gates = 1 };
  template <class V>
  static WEFT_FN V step(V* gate, V, V&) {
    return gate[0] = F::value(gate[0]);
  }
  /// gate is the state itself.
  template <class V>
  static WEFT_FN V gradient(V* d, V&, V&, V dh, const V* gate, V, V) {
    d[0] = F::gradient(dh, gate[0]);
    return zero_like(dh);
  }
};
using TanhCell = PlainCell<Tanh>;
using ReluCell = PlainCell<Relu>;

/// c = f c + i g, h = o tanh(c) (Hochreiter and Schmidhuber 1997; Gers et al. 2000).
struct LstmCell {
  enum { gates = 4 };
  template <class V>
  static WEFT_FN V step(V* gate, V before, V& kept) {
    gate[0] = Sigmoid::value(gate[0]);
    gate[1] = Sigmoid::value(gate[1]);
    gate[2] = tanh(gate[2]);
    gate[3] = Sigmoid::value(gate[3]);
    kept = gate[1] * before + gate[0] * gate[2];
    return gate[3] * tanh(kept);
  }
  /// dcell is that of the new cell, and becomes that of the old one.
  template <class V>
  static WEFT_FN V gradient(V* d, V& dcell, V&, V dh, const V* gate, V kept, V before) {
    const V t = tanh(kept);
    const V dc = dcell + Tanh::gradient(dh * gate[3], t);
    d[0] = Sigmoid::gradient(dc * gate[2], gate[0]);
    d[1] = Sigmoid::gradient(dc * before, gate[1]);
    d[2] = Tanh::gradient(dc * gate[0], gate[2]);
    d[3] = Sigmoid::gradient(dh * t, gate[3]);
    dcell = dc * gate[1];
    return zero_like(dh);
  }
};

/// n = tanh(gate + r kept), h = n + z (h - n) (Cho et al. 2014, with r after the product).
struct GruCell {
  enum { gates = 3 };
  template <class V>
  static WEFT_FN V step(V* gate, V before, V& kept) {
    gate[0] = Sigmoid::value(gate[0]);
    gate[1] = Sigmoid::value(gate[1]);
    gate[2] = tanh(gate[2] + gate[0] * kept);
    return gate[2] + gate[1] * (before - gate[2]);
  }
  template <class V>
  static WEFT_FN V gradient(V* d, V&, V& dkept, V dh, const V* gate, V kept, V before) {
    d[2] = Tanh::gradient(dh * (V(1) - gate[1]), gate[2]);
    d[1] = Sigmoid::gradient(dh * (before - gate[2]), gate[1]);
    d[0] = Sigmoid::gradient(d[2] * kept, gate[0]);
    dkept = d[2] * gate[0];
    return dh * gate[1];
  }
};

}  // namespace weft::WEFT_FUNCTORS

#endif
