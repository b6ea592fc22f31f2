"""torch.masked: reductions and normalizations over the elements that a mask marks; others count as the neutral element."""

import math

import weft
from weft.nn import functional as F

__all__ = ["amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logsumexp", "mean", "norm", "normalize", "prod",
           "softmax", "softmin", "std", "sum", "var", "_reduction_identity"]


def _filled(input, mask, value):
    return input if mask is None else input.masked_fill(~mask.to(weft.bool), value)


def _lowest(dtype):
    return -math.inf if dtype.is_floating_point else weft.iinfo(dtype).min


def _highest(dtype):
    return math.inf if dtype.is_floating_point else weft.iinfo(dtype).max


def _reduction_identity(op_name, input, *args):
    """The element that a reduction ignores, in the input's dtype; None where there is none."""
    op, dtype = op_name.rpartition(".")[2], input.dtype
    found = {"sum": 0, "cumsum": 0, "prod": 1, "cumprod": 1, "norm": 0}.get(op)
    if op in ("amax", "argmax", "logsumexp"):
        found = _lowest(dtype)
    elif op in ("amin", "argmin"):
        found = _highest(dtype)
    elif op == "norm" and args and args[0] == -math.inf:
        found = math.inf
    return None if found is None else weft.tensor(found, dtype=dtype, device=input.device)


def _dims(dim, input):
    return list(range(input.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)


def _converted(input, dtype):
    return input if dtype is None else input.to(dtype)


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _filled(_converted(input, dtype), mask, 0).sum(_dims(dim, input), keepdim)


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    result = _filled(_converted(input, dtype), mask, 1)
    if not input.ndim:
        return result.prod()
    for d in sorted((d % input.ndim for d in _dims(dim, input)), reverse=True):
        result = result.prod(d, keepdim)
    return result


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _filled(_converted(input, dtype), mask, _lowest(input.dtype)).amax(_dims(dim, input), keepdim)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _filled(_converted(input, dtype), mask, _highest(input.dtype)).amin(_dims(dim, input), keepdim)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _filled(_converted(input, dtype), mask, _lowest(input.dtype)).argmax(dim, keepdim)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _filled(_converted(input, dtype), mask, _highest(input.dtype)).argmin(dim, keepdim)


def _count(input, dim, keepdim, mask):
    marks = weft.ones_like(input, dtype=weft.int64) if mask is None else mask.to(weft.bool).expand(input.shape).to(weft.int64)
    return marks.sum(_dims(dim, input), keepdim)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask) / _count(input, dim, keepdim, mask)


def var(input, dim=None, unbiased=False, *, keepdim=False, dtype=None, mask=None):
    input = _converted(input, dtype)
    deviations = input - mean(input, dim, keepdim=True, mask=mask)
    count = _count(input, dim, keepdim, mask) - int(bool(unbiased))
    squares = (deviations * deviations.conj()).real if input.dtype.is_complex else deviations * deviations
    return sum(squares, dim, keepdim=keepdim, mask=mask) / count


def std(input, dim=None, unbiased=False, *, keepdim=False, dtype=None, mask=None):
    return var(input, dim, unbiased, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _filled(_converted(input, dtype), mask, -math.inf).logsumexp(_dims(dim, input), keepdim)


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    return weft.linalg.vector_norm(_filled(_converted(input, dtype), mask, 0), ord, _dims(dim, input), keepdim)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    return _filled(input, mask, 0) / norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask).clamp(min=eps)


def softmax(input, dim, *, dtype=None, mask=None):
    return F.softmax(_filled(_converted(input, dtype), mask, -math.inf), dim)


def log_softmax(input, dim, *, dtype=None, mask=None):
    return F.log_softmax(_filled(_converted(input, dtype), mask, -math.inf), dim)


def softmin(input, dim, *, dtype=None, mask=None):
    return softmax(-input, dim, dtype=dtype, mask=mask)


def cumsum(input, dim, *, dtype=None, mask=None):
    return _filled(_converted(input, dtype), mask, 0).cumsum(dim)


def cumprod(input, dim, *, dtype=None, mask=None):
    return _filled(_converted(input, dtype), mask, 1).cumprod(dim)
