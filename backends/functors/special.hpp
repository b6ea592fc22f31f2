// Special functions for the formulas: of numbers, SIMD registers and dual numbers. Each is straight arithmetic on both
// sides of every select. In double within a few units in the last place, near a root in absolute terms.
//
// The C library is not used: its lgamma writes a global, works one element at a time and is missing on devices. The
// CPU computes f32 in double and rounds once, so that f32 results are accurate near roots.
#if !defined(WEFT_FUNCTORS_SPECIAL) || defined(WEFT_SIMD_FUNCTORS)  // each SIMD target compiles the formulas again
#define WEFT_FUNCTORS_SPECIAL

#include "math.hpp"

// clang-format off
namespace weft::WEFT_FUNCTORS {

/// c0 + c1 x + c2 x² + …, by Horner's rule.
template <class V, class C> WEFT_FN V horner(V, C last) { return V(last); }
template <class V, class C, class... D> WEFT_FN V horner(V x, C first, D... rest) { return V(first) + x * horner(x, rest...); }

/// sin(pi x), exact at whole numbers, and cos(pi x): of the distance from the nearest whole number, by their series.
template <class V> struct PiTurn {
  V sine, cosine;
};
template <class V> WEFT_FN PiTurn<V> pi_turn(V x) {
  const V whole = rint(x), r = x - whole, z = r * r, halved = whole * V(0.5);
  const V sign = select(halved == floor(halved), V(1), V(-1));
  const V sine = r * horner(z, 3.1415926535897932, -5.1677127800499700, 2.5501640398773454, -0.59926452932079208,
      0.082145886611128229, -0.0073704309457143508, 0.00046630280576761256, -2.1915353447830216e-5,
      7.9520540014755128e-7, -2.2948428997269873e-8, 5.3926646626081285e-10);
  const V cosine = horner(z, 1.0, -4.9348022005446793, 4.0587121264167682, -1.3352627688545895, 0.23533063035889320,
      -0.025806891390014060, 0.0019295743094039230, -0.00010463810492484571, 4.3030695870329470e-6,
      -1.3878952462213772e-7, 3.6047307974625009e-9, -7.7007071306013534e-11);
  return {sign * sine, sign * cosine};
}

/// log Gamma(a) from 0 on. From 1.5 to 2.5 the series at 2; nearer to 0 and up to 8.5 the recurrence leads there, beyond
/// 8.5 Stirling's series holds (DLMF 5.11.1).
template <class V> WEFT_FN V lgamma_of_positive(V a) {
  const V one(1);
  const V down1 = select(a >= V(2.5), a - V(1), one), down2 = select(a >= V(3.5), a - V(2), one);
  const V down3 = select(a >= V(4.5), a - V(3), one), down4 = select(a >= V(5.5), a - V(4), one);
  const V down5 = select(a >= V(6.5), a - V(5), one), down6 = select(a >= V(7.5), a - V(6), one);
  const V bounded = minimum(a, V(8.5)), lowered = bounded - (floor(bounded - V(1.5)) + V(2));
  const V z = select(a < V(0.5), a, select(a < V(1.5), a - V(1), lowered));  // from 2, where the product leads
  const V up = select(a < V(0.5), a * (a + V(1)), a);
  const V product = down1 * down2 * down3 * (down4 * down5 * down6);
  const V logarithm = log(select(a >= V(8.5), a, select(a < V(1.5), up, product)));
  const V at_two = z * (V(0.42278433509846714) + z * horner(z, 0.32246703342411322, -0.067352301053198096,
      0.020580808427783380, -0.0073855510286734284, 0.0028905103308659009, -0.0011927539117625500,
      0.00050966951965266728, -0.00022315475602710602, 9.9457616921571331e-5, -4.4926286378181625e-5,
      2.0506019701747619e-5, -9.4389195962771797e-6, 4.3828545383846668e-6, -2.0430228951809441e-6,
      9.2428522251622767e-7, -4.3454173670260496e-7, 2.7475390051909664e-7, -1.3029870239068414e-7));
  const V near = select(a < V(1.5), at_two - logarithm, at_two + logarithm);
  const V inverse = one / a;
  const V stirling = a * (logarithm - one) - V(0.5) * logarithm + V(0.91893853320467274)
      + inverse * horner(inverse * inverse, 0.083333333333333333, -0.0027777777777777778, 0.00079365079365079365,
      -0.00059523809523809524, 0.00084175084175084175, -0.0019175269175269175, 0.0064102564102564103,
      -0.029550653594771242);
  const V infinite(__builtin_inff());
  return select(a == infinite, infinite, select(a >= V(8.5), stirling, near));
}
/// log |Gamma(x)|, below 0 by reflection (DLMF 5.5.3).
template <class V> WEFT_FN V lgamma(V x) {
  const V a = abs(x), infinite(__builtin_inff()), right = lgamma_of_positive(a);
  const V reflected = V(1.1447298858494002) - log(abs(pi_turn(a).sine)) - log(a) - right;
  return select(x < V(0), select(a == floor(a), infinite, reflected), right);
}

/// The logarithmic derivative of Gamma: from 8 its asymptotic series (DLMF 5.11.2), where the recurrence leads from
/// above 0 and reflection (DLMF 5.5.4) from below.
template <class V> WEFT_FN V digamma(V x) {
  const V a = select(x < V(0), V(1) - x, x);
  // 1 / a + 1 / (a + 1) + … + 1 / (a + 7), paired from both ends: the products of the denominators are q + i (7 - i).
  const V q = a * (a + V(7));
  const V below = (a + a + V(7)) * horner(q, 720.0, 504.0, 84.0, 4.0) / (q * horner(q, 720.0, 252.0, 28.0, 1.0));
  const V y = select(a < V(8), a + V(8), a), inverse = V(1) / y, z = inverse * inverse;
  const V far = log(y) - V(0.5) * inverse - z * horner(z, 0.083333333333333333, -0.0083333333333333333,
      0.0039682539682539683, -0.0041666666666666667, 0.0075757575757575758, -0.021092796092796093,
      0.083333333333333333, -0.44325980392156863, 3.0539543302701197, -26.456212121212121);
  const V infinite(__builtin_inff());
  const V right = select(a < V(8), far - below, select(a == infinite, infinite, far));
  const PiTurn<V> turn = pi_turn(x);
  const V cotangent = turn.cosine / turn.sine;
  const V reflected = right - V(3.1415926535897932) * cotangent + (cotangent - cotangent);  // NaN at a pole
  return select(x == V(0), -(V(1) / x), select(x < V(0), reflected, right));
}

/// The derivative of digamma (DLMF 5.15.8 and 5.15.6).
template <class V> WEFT_FN V trigamma(V x) {
  const V a = select(x < V(0), V(1) - x, x);
  V sum(0);
  for (int i = 0; i < 8; ++i) {
    const V inverse = V(1) / (a + V(i));
    sum = sum + inverse * inverse;
  }
  const V y = select(a < V(8), a + V(8), a), inverse = V(1) / y, z = inverse * inverse;
  const V far = inverse + V(0.5) * z + inverse * z * horner(z, 0.16666666666666667, -0.033333333333333333,
      0.023809523809523810, -0.033333333333333333, 0.075757575757575758, -0.25311355311355311,
      1.1666666666666667, -7.0921568627450980, 54.971177944862155, -529.12424242424242);
  const V right = select(a < V(8), far + sum, far);
  const V slope = V(3.1415926535897932) / pi_turn(x).sine;
  return select(x < V(0), slope * slope - right, right);
}

/// I_0(x) and I_1(x) / x for |x| <= 12: the power series in x² / 4 (DLMF 10.25.2) with terms 1 / k!² and 1 / (2 k! (k +
/// 1)!).
template <class V> WEFT_FN V i0_near(V z) {
  return horner(z, 1.0, 1.0, 0.25, 0.027777777777777778, 0.0017361111111111111, 6.9444444444444444e-5,
      1.9290123456790123e-6, 3.9367598891408415e-8, 6.1511873267825649e-10, 7.5940584281266233e-12,
      7.5940584281266233e-14, 6.2760813455591928e-16, 4.3583898233049950e-18, 2.5789288895295828e-20,
      1.3157800456783586e-22, 5.8479113141260382e-25, 2.2843403570804837e-27, 7.9042918930120542e-30,
      2.4395962632753254e-32, 6.7578843858042254e-35, 1.6894710964510564e-37, 3.8310002187098784e-40,
      7.9152897080782611e-43, 1.4962740468957015e-45, 2.5976979980828151e-48, 4.1563167969325042e-51);
}
template <class V> WEFT_FN V i1_near(V z) {
  return V(0.5) * horner(z, 1.0, 0.5, 0.083333333333333333, 0.0069444444444444444, 0.00034722222222222222,
      1.1574074074074074e-5, 2.7557319223985891e-7, 4.9209498614260519e-9, 6.8346525853139610e-11,
      7.5940584281266233e-13, 6.9036894801151121e-15, 5.2300677879659940e-17, 3.3526075563884577e-19,
      1.8420920639497020e-21, 8.7718669711890573e-24, 3.6549445713287739e-26, 1.3437296218120492e-28,
      4.3912732938955857e-31, 1.2839980333028028e-33, 3.3789421929021127e-36, 8.0451004592907446e-39,
      1.7413637357772174e-41, 3.4414303078601135e-44, 6.2344751953987564e-47, 1.0390791992331261e-49,
      1.5985833834355786e-52);
}
/// sqrt(x) exp(-x) I(x) for x >= 12, by interpolation in 12 / x at Chebyshev's points.
template <class V> WEFT_FN V i0_far(V t) {
  return horner(t, 0.39894228040143267, 0.0041556487541844631, 0.00019479603511366196, 1.6909385748796347e-5,
      2.1575801455957797e-6, 3.6534916195749587e-7, 6.8841081227015070e-8, 5.0573954198154972e-8,
      -8.0732796660144962e-8, 1.5991736412223252e-7, -1.7885734863737274e-7, 9.6061745305260618e-8,
      3.4541262137302342e-8, -9.0149175076441609e-8, 5.5379906971723384e-8, -1.2131916224711462e-8);
}
template <class V> WEFT_FN V i1_far(V t) {
  return horner(t, 0.39894228040143267, -0.012466946262547531, -0.00032466005869155918, -2.3673136643607556e-5,
      -2.7740739048103680e-6, -4.4619707608269074e-7, -8.3225791548243853e-8, -5.1151548924331536e-8,
      7.1544531617821979e-8, -1.3859775153386256e-7, 1.3903475984237467e-7, -4.3617231567347978e-8,
      -8.2811691372683618e-8, 1.1945044782772406e-7, -6.5909146917996662e-8, 1.3812167511680598e-8);
}
/// The modified Bessel functions of order 0 and 1; i0e and i1e are those times exp(-|x|).
template <class V> WEFT_FN V i0e(V x) {
  const V a = abs(x), near = minimum(a, V(12)), far = maximum(a, V(12));
  return select(a <= V(12), exp(-a) * i0_near(V(0.25) * near * near), i0_far(V(12) / far) / sqrt(far));
}
template <class V> WEFT_FN V i1e(V x) {
  const V a = abs(x), near = minimum(a, V(12)), far = maximum(a, V(12));
  const V size = select(a <= V(12), exp(-a) * near * i1_near(V(0.25) * near * near), i1_far(V(12) / far) / sqrt(far));
  return select(x < V(0), -size, select(x == V(0), x, size));
}
template <class V> WEFT_FN V i0(V x) {
  const V a = minimum(abs(x), V(1e30)), near = minimum(a, V(12)), far = maximum(a, V(12)), root = exp(V(0.5) * far);
  return select(a <= V(12), i0_near(V(0.25) * near * near), root * (i0_far(V(12) / far) / sqrt(far)) * root);
}
template <class V> WEFT_FN V i1(V x) {
  const V a = minimum(abs(x), V(1e30)), near = minimum(a, V(12)), far = maximum(a, V(12)), root = exp(V(0.5) * far);
  const V size = select(a <= V(12), near * i1_near(V(0.25) * near * near),
                        root * (i1_far(V(12) / far) / sqrt(far)) * root);
  return select(x < V(0), -size, select(x == V(0), x, size));
}
/// The normal distribution's quantile of 1/2 + q, where `tail` is 1/2 - |q| (Wichura 1988, algorithm AS 241).
template <class V> WEFT_FN V normal_quantile(V q, V tail) {
  const V r = V(0.180625) - q * q;
  const V near = q * horner(r, 3.3871328727963666, 133.14166789178438, 1971.5909503065514, 13731.693765509461,
      45921.953931549871, 67265.770927008701, 33430.575583588128, 2509.0809287301227)
      / horner(r, 1.0, 42.313330701600911, 687.18700749205791, 5394.1960214247511, 21213.794301586596,
      39307.895800092711, 28729.085735721943, 5226.4952788528546);
  const V depth = sqrt(-log(tail)), s = depth - V(1.6), t = depth - V(5);
  const V middle = horner(s, 1.4234371107496836, 4.6303378461565453, 5.7694972214606914, 3.6478483247632046,
      1.2704582524523684, 0.24178072517745061, 0.022723844989269185, 0.00077454501427834141)
      / horner(s, 1.0, 2.0531916266377588, 1.6763848301838038, 0.68976733498510000, 0.14810397642748007,
      0.015198666563616457, 0.00054759380849953449, 1.0507500716444168e-9);
  const V far = horner(t, 6.6579046435011038, 5.4637849111641144, 1.7848265399172913, 0.29656057182850489,
      0.026532189526576123, 0.0012426609473880784, 2.7115555687434876e-5, 2.0103343992922881e-7)
      / horner(t, 1.0, 0.59983220655588794, 0.13692988092273581, 0.014875361290850615, 0.00078686913114561326,
      1.8463183175100547e-5, 1.4215117583164459e-7, 2.0442631033899398e-15);
  const V outside = select(depth <= V(5), middle, select(tail == V(0), V(__builtin_inff()), far));
  return select(abs(q) <= V(0.425), near, select(q < V(0), -outside, outside));
}
template <class V> WEFT_FN V erfinv(V y) {
  return V(0.70710678118654752) * normal_quantile(V(0.5) * y, V(0.5) * (V(1) - abs(y)));
}
template <class V> WEFT_FN V ndtri(V p) { return normal_quantile(p - V(0.5), minimum(p, V(1) - p)); }

}  // namespace weft::WEFT_FUNCTORS
// clang-format on

#endif
