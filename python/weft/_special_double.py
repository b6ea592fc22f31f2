"""Special functions that are computed in float64 and rounded once; integers give the default dtype."""

import warnings

from weft import _core, _functions
from weft._core import Tensor, _ops
from weft.errors import DTypeError


def _dtype_of(name, *operands):
    kind = _functions.result_type(*operands)
    if kind.is_complex:
        raise DTypeError(f"{name}(): expected real numbers, got {kind.name}")
    return kind if kind.is_floating_point else _core.get_default_dtype()


def _finished(name, result, dtype, out):
    result = result.to(dtype)
    if out is None:
        return result
    if not _functions.can_cast(dtype, out.dtype):
        raise DTypeError(f"{name}(): argument 'out' is {out.dtype.name}, the result {dtype.name}")
    if out.shape != result.shape:
        if out.numel():
            warnings.warn(f"{name}(): argument 'out' of shape {list(out.shape)} is resized to the result's "
                          f"{list(result.shape)}: pass an empty tensor", stacklevel=3)
        out.resize_(result.shape)
    return out.copy_(result)


def _named(apply, function):
    apply.__name__ = apply.__qualname__ = function.__name__
    apply.__doc__ = function.__doc__
    return apply


def unary(function):
    """The function of one tensor."""
    def apply(input, *, out=None):
        _functions._need_tensors(function.__name__, input=input)
        dtype = _dtype_of(function.__name__, input)
        return _finished(function.__name__, function(input.to(_core.float64)), dtype, out)

    return _named(apply, function)


def binary(function):
    """The function of two operands, one of which may be a number."""
    def apply(input, other, *, out=None):
        if not isinstance(input, Tensor) and not isinstance(other, Tensor):
            raise TypeError(f"{function.__name__}(): one argument must be a Tensor")
        dtype = _dtype_of(function.__name__, input, other)
        wide = [t.to(_core.float64) if isinstance(t, Tensor) else _functions.tensor(t, dtype=_core.float64) for t in (input, other)]
        return _finished(function.__name__, function(*_ops["broadcast_tensors"](wide)), dtype, out)

    return _named(apply, function)
