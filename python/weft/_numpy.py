"""NumPy's functions on tensors: operators compute with Weft's ops, other functions on arrays that share memory."""

import operator

from weft import _functions
from weft._core import Tensor

# Ufuncs behind Python's operators, which have gradients here.
_OPERATORS = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
              "true_divide": operator.truediv, "floor_divide": operator.floordiv, "remainder": operator.mod,
              "power": operator.pow, "matmul": operator.matmul, "negative": operator.neg, "positive": operator.pos,
              "absolute": abs, "less": operator.lt, "less_equal": operator.le, "equal": operator.eq,
              "not_equal": operator.ne, "greater": operator.gt, "greater_equal": operator.ge, "bitwise_and": operator.and_,
              "bitwise_or": operator.or_, "bitwise_xor": operator.xor}


def _operand(x):
    """An array as a tensor, a NumPy number as one of Python's."""
    if isinstance(x, Tensor) or not type(x).__module__.startswith("numpy"):
        return x
    return _functions.as_tensor(x) if getattr(x, "ndim", 0) else x.item()


def _tensor(result):
    return tuple(map(_tensor, result)) if isinstance(result, tuple) else _functions.as_tensor(result)


def array_ufunc(self, ufunc, method, *inputs, **options):
    """The result of a ufunc with a tensor among its operands: a tensor, unless `out` is an array. Ufuncs other than
    operators raise for tensors that require gradients, as numpy() does."""
    if method == "__call__" and not options and ufunc.__name__ in _OPERATORS:
        return _OPERATORS[ufunc.__name__](*map(_operand, inputs))
    arrays = [x.numpy() if isinstance(x, Tensor) else x for x in inputs]
    out = options.get("out")
    if out is not None:
        options["out"] = tuple(x.numpy() if isinstance(x, Tensor) else x for x in out)
    result = getattr(ufunc, method)(*arrays, **options)
    if out is not None:
        return out[0] if len(out) == 1 else out
    return result if result is None else _tensor(result)


Tensor.__array_ufunc__ = array_ufunc
