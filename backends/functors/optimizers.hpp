// The formulas of optimizers' steps over one element: the parameter p, its gradient g, and up to three numbers of
// state. Rows and factors are in optimizer_rows.hpp. V is as in unary.hpp.
//
// The functor is the CPU kernel over registers, the device kernel over scalars, and the fallback step over symbolic
// tensors. Factors are computed on the host in double and rounded once.
#if !defined(WEFT_FUNCTORS_OPTIMIZERS) || defined(WEFT_SIMD_FUNCTORS)  // each SIMD target compiles the formulas again
#define WEFT_FUNCTORS_OPTIMIZERS

#include "math.hpp"
#include "optimizer_rows.hpp"

// clang-format off
namespace weft::WEFT_FUNCTORS {

/// The gradient to go against.
template <class V> WEFT_FN V uphill(V p, V g, const OptimizerFactors<V>& f) {
  const V signed_g = f.sign * g;
  if (f.decays) return signed_g + f.l2 * p;
  return signed_g;
}
/// m, a part of the way to x.
template <class V> WEFT_FN V moved(V m, V x, V part) { return m + part * (x - m); }
/// The second moving average of squares, with that of g.
template <class V> WEFT_FN V average_square(V v, V g, const OptimizerFactors<V>& f) {
  return f.decay2 * v + f.fresh2 * (g * g);
}

struct Sgd {
  enum { states = 0 };
  template <class V> static WEFT_FN void step(V& p, const V& g, V&, V&, V&, const OptimizerFactors<V>& f) {
    p = p - f.rate * uphill(p, g, f);
  }
};
struct Momentum {
  enum { states = 1 };
  template <class V> static WEFT_FN void step(V& p, const V& gradient, V& b, V&, V&, const OptimizerFactors<V>& f) {
    const V g = uphill(p, gradient, f);
    if (f.first) b = g;
    else b = f.decay1 * b + f.fresh1 * g;
    if (f.nesterov) p = p - f.rate * (g + f.decay1 * b);
    else p = p - f.rate * b;
  }
};
struct Adam {
  enum { states = 2 };
  template <class V> static WEFT_FN void step(V& p, const V& gradient, V& m, V& v, V&, const OptimizerFactors<V>& f) {
    const V g = uphill(p, gradient, f);
    m = moved(m, g, f.fresh1);
    v = average_square(v, g, f);
    p = f.keep * p - f.rate * (m / (sqrt(v) * f.root + f.epsilon));
  }
};
struct Amsgrad {
  enum { states = 3 };
  template <class V>
  static WEFT_FN void step(V& p, const V& gradient, V& m, V& v, V& highest, const OptimizerFactors<V>& f) {
    const V g = uphill(p, gradient, f);
    m = moved(m, g, f.fresh1);
    v = average_square(v, g, f);
    highest = maximum(highest, v);
    p = f.keep * p - f.rate * (m / (sqrt(highest) * f.root + f.epsilon));
  }
};
struct Adamax {
  enum { states = 2 };
  template <class V> static WEFT_FN void step(V& p, const V& gradient, V& m, V& u, V&, const OptimizerFactors<V>& f) {
    const V g = uphill(p, gradient, f);
    m = moved(m, g, f.fresh1);
    u = maximum(f.decay2 * u, abs(g) + f.epsilon);
    p = p - f.rate * (m / u);
  }
};
struct NAdam {
  enum { states = 2 };
  template <class V> static WEFT_FN void step(V& p, const V& gradient, V& m, V& v, V&, const OptimizerFactors<V>& f) {
    const V g = uphill(p, gradient, f);
    m = moved(m, g, f.fresh1);
    v = average_square(v, g, f);
    p = f.keep * p - (f.gradient_rate * g + f.rate * m) / (sqrt(v) * f.root + f.epsilon);
  }
};
struct RAdam {
  enum { states = 2 };
  template <class V> static WEFT_FN void step(V& p, const V& gradient, V& m, V& v, V&, const OptimizerFactors<V>& f) {
    const V g = uphill(p, gradient, f);
    m = moved(m, g, f.fresh1);
    v = average_square(v, g, f);
    if (f.rectified) p = f.keep * p - f.rate * (m / (sqrt(v) + f.epsilon));
    else p = f.keep * p - f.rate * m;
  }
};
struct Adagrad {
  enum { states = 1 };
  template <class V> static WEFT_FN void step(V& p, const V& gradient, V& sum, V&, V&, const OptimizerFactors<V>& f) {
    const V g = uphill(p, gradient, f);
    sum = sum + g * g;
    p = p - f.rate * (g / (sqrt(sum) + f.epsilon));
  }
};
struct Adadelta {
  enum { states = 2 };
  template <class V> static WEFT_FN void step(V& p, const V& gradient, V& v, V& change, V&, const OptimizerFactors<V>& f) {
    const V g = uphill(p, gradient, f);
    v = average_square(v, g, f);
    const V delta = g * (sqrt(change + f.epsilon) / sqrt(v + f.epsilon));
    change = average_square(change, delta, f);
    p = p - f.rate * delta;
  }
};
struct RMSprop {
  enum { states = 1 };
  template <class V> static WEFT_FN void step(V& p, const V& gradient, V& v, V&, V&, const OptimizerFactors<V>& f) {
    const V g = uphill(p, gradient, f);
    v = average_square(v, g, f);
    p = p - f.rate * (g / (sqrt(v) + f.epsilon));
  }
};
struct RMSpropMomentum {
  enum { states = 2 };
  template <class V> static WEFT_FN void step(V& p, const V& gradient, V& v, V& b, V&, const OptimizerFactors<V>& f) {
    const V g = uphill(p, gradient, f);
    v = average_square(v, g, f);
    b = f.decay1 * b + g / (sqrt(v) + f.epsilon);
    p = p - f.rate * b;
  }
};
struct RMSpropCentered {
  enum { states = 2 };
  template <class V>
  static WEFT_FN void step(V& p, const V& gradient, V& v, V& mean, V&, const OptimizerFactors<V>& f) {
    const V g = uphill(p, gradient, f);
    v = average_square(v, g, f);
    mean = moved(mean, g, f.fresh2);
    p = p - f.rate * (g / (sqrt(v - mean * mean) + f.epsilon));
  }
};
struct RMSpropCenteredMomentum {
  enum { states = 3 };
  template <class V>
  static WEFT_FN void step(V& p, const V& gradient, V& v, V& mean, V& b, const OptimizerFactors<V>& f) {
    const V g = uphill(p, gradient, f);
    v = average_square(v, g, f);
    mean = moved(mean, g, f.fresh2);
    b = f.decay1 * b + g / (sqrt(v - mean * mean) + f.epsilon);
    p = p - f.rate * b;
  }
};
struct Rprop {
  enum { states = 2 };
  template <class V>
  static WEFT_FN void step(V& p, const V& gradient, V& before, V& size, V&, const OptimizerFactors<V>& f) {
    const V signed_g = f.sign * gradient, none = zero_like(signed_g), same = signed_g * before;
    const V scaled = select(same > none, size * f.grow, select(same < none, size * f.shrink, size));
    size = minimum(maximum(scaled, f.least), f.most);
    const V g = select(same < none, none, signed_g);  // where the sign changed, it stays a step
    p = p - sign(g) * size;
    before = g;
  }
};
struct Lion {
  enum { states = 1 };
  template <class V> static WEFT_FN void step(V& p, const V& gradient, V& m, V&, V&, const OptimizerFactors<V>& f) {
    const V g = f.sign * gradient;
    p = f.keep * p - f.rate * sign(f.decay1 * m + f.fresh1 * g);
    m = f.decay2 * m + f.fresh2 * g;
  }
};

}  // namespace weft::WEFT_FUNCTORS
// clang-format on

#endif
