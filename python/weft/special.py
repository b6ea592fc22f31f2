"""Special functions under PyTorch's path: the ops that are there, and functions made of them."""

import math

from weft import _functions
from weft._core import _ops
from weft._special_double import unary as _in_double
from weft.autograd import Function

_names = """digamma erf erfc erfinv exp2 expm1 i0 i0e i1 i1e log1p log_softmax logit logsumexp ndtri polygamma round sinc
softmax xlog1py xlogy expit:sigmoid gammaln:lgamma multigammaln:mvlgamma psi:digamma"""
for _name in _names.split():
    _name, _, _op = _name.partition(":")
    globals()[_name] = getattr(_functions, _op or _name, None) or _ops[_op or _name]
del _name, _op, _names


def _with_gradient(value, gradient):
    """The function with the gradient(g, x, y) of its y = value(x)."""
    class Formula(Function):
        @staticmethod
        def forward(ctx, x):
            y = value(x)
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            return gradient(g, *ctx.saved_tensors)

    return Formula.apply


_entr = _with_gradient(lambda x: _ops["where"](x < 0, -math.inf, _ops["xlogy"](-x, x)),
                       lambda g, x, y: -g * (1 + x.log()))


@_in_double
def entr(x):
    """-x log(x): 0 at 0, -inf below."""
    return _entr(x)


def _exp_of_square(x, scale):
    """exp(scale * x²) with an exact exponent, in two parts; |x| is below 2**16."""
    high = (x * 1024).round() / 1024
    return (high * high * scale).exp() * ((x - high) * (x + high) * scale).exp()


def _scaled_erfc(x):
    near, far = x.clip(-27, 25), x.clip(25)  # above 25 erfc will soon leave float64's range, and the series is exact
    series, ratio = 1.0, -0.5 / (far * far)
    for n in (13, 11, 9, 7, 5, 3, 1):
        series = 1 + n * ratio * series
    return _ops["where"](x > 25, series / (far * math.sqrt(math.pi)), _exp_of_square(near, 1) * near.erfc())


_erfcx = _with_gradient(_scaled_erfc, lambda g, x, y: g * (2 * x * y - 2 / math.sqrt(math.pi)))


@_in_double
def erfcx(x):
    """exp(x²) erfc(x)."""
    return _erfcx(x)


def _normal_tail(x):
    """ndtr(-x) of x that is not negative, which would be inexact as erfc of the rounded x / √2."""
    x = x.clip(0, 40)
    return _exp_of_square(x, -0.5) * _scaled_erfc(x * math.sqrt(0.5)) * 0.5


def _below(x):
    tail = _normal_tail(x.abs())
    return _ops["where"](x > 0, 1 - tail, tail)


_ndtr = _with_gradient(_below, lambda g, x, y: g * (x * x * -0.5).exp() / math.sqrt(2 * math.pi))


@_in_double
def ndtr(x):
    """The area under the normal distribution's density up to x."""
    return _ndtr(x)


def _log_below(x):
    far = (_scaled_erfc((x * -math.sqrt(0.5)).clip(0)) * 0.5).log() - x * x * 0.5
    tail = _normal_tail(x.abs())
    return _ops["where"](x < -1, far, _ops["log1p"](_ops["where"](x > 0, -tail, tail - 1)))


_log_ndtr = _with_gradient(_log_below, lambda g, x, y: g * math.sqrt(2 / math.pi) / _erfcx(x * -math.sqrt(0.5)))


@_in_double
def log_ndtr(x):
    """log(ndtr(x)), exact where that is near 0 or 1."""
    return _log_ndtr(x)


from weft._special_more import *  # noqa: E402, F401, F403
