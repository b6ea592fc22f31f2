"""Special functions made of ops: orthogonal polynomials, Bessel functions by quadrature, incomplete gamma and zeta."""

import math

import weft
from weft import _core
from weft._core import _ops
from weft._special_double import binary as _binary, unary as _unary

__all__ = ["bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "chebyshev_polynomial_t", "chebyshev_polynomial_u",
           "chebyshev_polynomial_v", "chebyshev_polynomial_w", "gammainc", "gammaincc", "hermite_polynomial_h",
           "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p", "modified_bessel_i0",
           "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0",
           "scaled_modified_bessel_k1", "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
           "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w", "spherical_bessel_j0", "zeta"]


# ---- orthogonal polynomials, by their recurrences in the degree ----

def _polynomial(name, first, step, document, shifted=False):
    """first(x) is the polynomial of degree 1; step(k, x, p, q) that of degree k + 1 from those of degrees k and k - 1."""
    def compute(x, n):
        x = 2 * x - 1 if shifted else x
        n = n.trunc()
        before, now = weft.ones_like(x), first(x)
        result = weft.where(n < 0, 0.0, weft.where(n == 0, before, now))
        for k in range(1, int(n.max().item()) if n.numel() else 1):
            before, now = now, step(k, x, now, before)
            result = weft.where(n == k + 1, now, result)
        return result

    compute.__name__ = name
    compute.__doc__ = document
    return _binary(compute)


def _twice(k, x, p, q):
    return 2 * x * p - q


for _kind, _first in (("t", lambda x: x), ("u", lambda x: 2 * x), ("v", lambda x: 2 * x - 1), ("w", lambda x: 2 * x + 1)):
    for _prefix in ("", "shifted_"):
        _name = f"{_prefix}chebyshev_polynomial_{_kind}"
        globals()[_name] = _polynomial(_name, _first, _twice, f"The Chebyshev polynomial {_kind.upper()} of degree n" +
                                       (" at 2 x - 1." if _prefix else "."), bool(_prefix))
hermite_polynomial_h = _polynomial("hermite_polynomial_h", lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - 2 * k * q,
                                   "The Hermite polynomial of degree n, as physics has it.")
hermite_polynomial_he = _polynomial("hermite_polynomial_he", lambda x: x, lambda k, x, p, q: x * p - k * q,
                                    "The Hermite polynomial of degree n, as probability theory has it.")
laguerre_polynomial_l = _polynomial("laguerre_polynomial_l", lambda x: 1 - x,
                                    lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1), "The Laguerre polynomial of degree n.")
legendre_polynomial_p = _polynomial("legendre_polynomial_p", lambda x: x,
                                    lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1), "The Legendre polynomial of degree n.")

# ---- Bessel functions ----

_EULER, _NEAR, _NODES, _STEPS = 0.57721566490153286, 25.0, 128, 400


def _angles(x):
    """The nodes of the trapezoidal rule over a period, and x times their sines. The rule is exact for Bessel's integral up
    to J of order 128, which is 0 in float64 for |x| below 25."""
    nodes = weft.arange(_NODES, dtype=_core.float64) * (2 * math.pi / _NODES)
    return nodes, x.clamp(-_NEAR, _NEAR).unsqueeze(-1) * nodes.sin()


def _log_weights(nodes):
    """The sum of (-1)^k cos(2 k t) / k, which adds the series of J of even orders in Y0."""
    k = weft.arange(1, 40, dtype=_core.float64)
    return ((1 - 2 * (k % 2)) / k * (2 * k * nodes.unsqueeze(-1)).cos()).sum(-1)


def _far(x, order):
    """(P, Q, phase) of Hankel's expansion, for x above 25."""
    x = x.clamp(min=_NEAR)
    p = q = 0.0
    term = 1.0
    for k in range(20):
        sign = 1 - 2 * (k // 2 % 2)
        p, q = (p + sign * term, q) if k % 2 == 0 else (p, q + sign * term)
        term = term * (4 * order * order - (2 * k + 1) ** 2) / ((k + 1) * 8 * x)
    return p, q, x - (order / 2 + 0.25) * math.pi, (2 / (math.pi * x)).sqrt()


def _bessel_j(x, order):
    size = x.abs()
    nodes, arguments = _angles(size)
    near = (arguments.cos() if order == 0 else arguments.sin() * nodes.sin()).mean(-1)
    p, q, phase, scale = _far(size, order)
    result = weft.where(size < _NEAR, near, scale * (p * phase.cos() - q * phase.sin()))
    return result if order == 0 else result * x.sign()


def _bessel_y(x, order):
    nodes, arguments = _angles(x.clamp(min=0))
    weights, log = _log_weights(nodes), (x.clamp(1e-300, _NEAR) / 2).log() + _EULER
    if order == 0:
        near = 2 / math.pi * (log * arguments.cos().mean(-1) - 2 * (weights * arguments.cos()).mean(-1))
    else:
        j0, j1 = arguments.cos().mean(-1), (arguments.sin() * nodes.sin()).mean(-1)
        series = (weights * nodes.sin() * arguments.sin()).mean(-1)
        near = 2 / math.pi * (log * j1 - j0 / x.clamp(1e-300, _NEAR) - 2 * series)
    p, q, phase, scale = _far(x, order)
    result = weft.where(x < _NEAR, near, scale * (p * phase.sin() + q * phase.cos()))
    return weft.where(x > 0, result, weft.where(x == 0, -math.inf, math.nan))


def bessel_j0(x):
    """The Bessel function of the first kind of order 0."""
    return _bessel_j(x, 0)


def bessel_j1(x):
    """The Bessel function of the first kind of order 1."""
    return _bessel_j(x, 1)


def bessel_y0(x):
    """The Bessel function of the second kind of order 0."""
    return _bessel_y(x, 0)


def bessel_y1(x):
    """The Bessel function of the second kind of order 1."""
    return _bessel_y(x, 1)


def _scaled_k(x, order):
    """exp(x) K(x): the trapezoidal rule for the integral of exp(x - x cosh(t)) cosh(order t), in steps that shrink with
    the width of the integrand."""
    safe = x.clamp(min=1e-300)
    step = 0.125 / safe.clamp(min=1).sqrt()
    step = weft.where(safe < 1, (1500 / safe).log().clamp(max=690) / (_STEPS - 1), step)
    t = weft.arange(_STEPS, dtype=_core.float64) * step.unsqueeze(-1)
    half = (t / 2).sinh()
    values = (-2 * safe.unsqueeze(-1) * half * half).exp() * (t.cosh() if order else 1.0)
    total = step * (values.sum(-1) - values[..., 0] / 2)
    return weft.where(x > 0, total, weft.where(x == 0, math.inf, math.nan))


def scaled_modified_bessel_k0(x):
    """exp(x) times the modified Bessel function of the second kind of order 0."""
    return _scaled_k(x, 0)


def scaled_modified_bessel_k1(x):
    """exp(x) times the modified Bessel function of the second kind of order 1."""
    return _scaled_k(x, 1)


def modified_bessel_k0(x):
    """The modified Bessel function of the second kind of order 0."""
    return _scaled_k(x, 0) * (-x).exp()


def modified_bessel_k1(x):
    """The modified Bessel function of the second kind of order 1."""
    return _scaled_k(x, 1) * (-x).exp()


def modified_bessel_i0(x):
    """The modified Bessel function of the first kind of order 0."""
    return _ops["i0"](x)


def modified_bessel_i1(x):
    """The modified Bessel function of the first kind of order 1."""
    return _ops["i1"](x)


def spherical_bessel_j0(x):
    """sin(x) / x."""
    return _ops["sinc"](x / math.pi)


# ---- incomplete gamma functions, zeta ----

def _below(a, x):
    from weft.distributions import Gamma

    inside = (a > 0) & (x > 0) & (x < math.inf)
    share = Gamma(weft.where(inside, a, 1.0), weft.ones_like(x), validate_args=False).cdf(weft.where(inside, x, 1.0))
    outside = weft.where((a == 0) | (x == math.inf), 1.0, 0.0)
    wrong = (a < 0) | (x < 0) | (a == 0) & (x == 0) | (a != a) | (x != x)
    return weft.where(wrong, math.nan, weft.where(inside, share, outside))


def gammainc(a, x):
    """The share of the gamma function's integral below x: the cdf of a gamma distribution."""
    return _below(a, x)


def gammaincc(a, x):
    """The share of the gamma function's integral above x."""
    below = _below(a, x)
    far = (x > a + 1) & (x < math.inf) & (a > 0)
    safe_a, safe_x = weft.where(far, a, 1.0), weft.where(far, x, 3.0)
    b = safe_x + 1 - safe_a
    c, d = weft.full_like(b, 1e300), 1 / b
    h = d
    for i in range(1, 120):  # Lentz's continued fraction
        factor = -i * (i - safe_a)
        b = b + 2
        d = 1 / (factor * d + b)
        c = b + factor / c
        h = h * c * d
    tail = (-safe_x + safe_a * safe_x.log() - safe_a.lgamma()).exp() * h
    return weft.where(far & (below > 0.9), tail, 1 - below)


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)


def zeta(x, q):
    """The Hurwitz zeta function, the sum of (k + q)**-x, by the formula of Euler and Maclaurin. NaN for x below 1; q below 0
    needs a whole x, and is infinite where it is whole."""
    below, first = weft.where((q < 0) & (q != q.floor()) & (x == x.floor()), q, 1.0), 0.0
    for _ in range(int(max(0, math.ceil(-below.min().item()))) if below.numel() else 0):
        first = first + weft.where(below < 0, below ** -x, 0.0)
        below = weft.where(below < 0, below + 1, below)
    moved = weft.where((q < 0) & (q != q.floor()) & (x == x.floor()), below, q)
    return first + _zeta(x, moved)


def _zeta(x, q):
    safe, shift = weft.where(q > 0, q, 1.0), 16
    total = sum(((safe + k) ** -x for k in range(shift)), weft.zeros_like(safe))
    end = safe + shift
    total = total + end ** (1 - x) / (x - 1) + 0.5 * end ** -x
    factor = x * end ** (-x - 1)
    for j, number in enumerate(_BERNOULLI, 1):
        total = total + number / math.factorial(2 * j) * factor
        factor = factor * (x + 2 * j - 1) * (x + 2 * j) / (end * end)
    total = weft.where(q > 0, total, weft.where(q == q.floor(), math.inf, math.nan))
    return weft.where(x == 1, math.inf, weft.where(x < 1, math.nan, total))


for _name in ("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
              "modified_bessel_k0", "modified_bessel_k1", "modified_bessel_i0", "modified_bessel_i1", "spherical_bessel_j0"):
    globals()[_name] = _unary(globals()[_name])
for _name in ("gammainc", "gammaincc", "zeta"):
    globals()[_name] = _binary(globals()[_name])
