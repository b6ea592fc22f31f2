"""The Python array API standard, 2024.12, for the ops that there are. `missing()` lists what is not there yet."""

import weft as _weft
from weft import _core, _functions
from weft._core import Tensor as _Tensor, _ops
from weft._core import bool, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64  # noqa: F401
from math import e, inf, nan, pi  # noqa: F401
from weft._functions import asarray, broadcast_tensors, can_cast, equal as _equal, finfo, from_dlpack, iinfo  # noqa: F401
from weft._functions import meshgrid, moveaxis, result_type  # noqa: F401

__array_api_version__ = "2024.12"
newaxis = None

# The standard's names, and weft's where they differ.
_renamed = {
    "abs": "abs", "acos": "acos", "acosh": "acosh", "add": "add", "asin": "asin", "asinh": "asinh", "atan": "atan",
    "atan2": "atan2", "atanh": "atanh", "bitwise_and": "bitwise_and", "bitwise_left_shift": "bitwise_left_shift",
    "bitwise_invert": "bitwise_not", "bitwise_or": "bitwise_or", "bitwise_right_shift": "bitwise_right_shift",
    "bitwise_xor": "bitwise_xor", "ceil": "ceil", "copysign": "copysign", "cos": "cos", "cosh": "cosh", "divide": "div",
    "equal": "eq", "exp": "exp", "expm1": "expm1", "floor": "floor", "greater": "gt", "greater_equal": "ge",
    "hypot": "hypot", "isfinite": "isfinite", "isinf": "isinf", "isnan": "isnan", "less": "lt", "less_equal": "le",
    "log": "log", "log1p": "log1p", "log2": "log2", "log10": "log10", "logaddexp": "logaddexp",
    "logical_and": "logical_and", "logical_not": "logical_not", "logical_or": "logical_or",
    "logical_xor": "logical_xor", "maximum": "maximum", "minimum": "minimum", "multiply": "mul", "negative": "neg",
    "nextafter": "nextafter", "not_equal": "ne", "pow": "pow", "reciprocal": "reciprocal", "round": "round",
    "sign": "sign", "signbit": "signbit", "sin": "sin", "sinh": "sinh", "square": "square", "sqrt": "sqrt",
    "subtract": "sub", "tan": "tan", "tanh": "tanh", "trunc": "trunc", "where": "where", "matmul": "matmul",
    "prod": "prod", "mean": "mean", "argmax": "argmax", "argmin": "argmin", "any": "any", "all": "all",
    "flip": "flip", "floor_divide": "floor_divide", "remainder": "remainder", "tile": "tile",
    "empty_like": "empty_like", "zeros_like": "zeros_like", "ones_like": "ones_like",
    "full_like": "full_like", "reshape": "reshape", "tril": "tril", "triu": "triu", "roll": "roll",
    "take_along_axis": "take_along_dim", "cumulative_prod": "cumprod", "repeat": "repeat_interleave",
    "searchsorted": "searchsorted", "diff": "diff", "count_nonzero": "count_nonzero",
}
for _name, _op in _renamed.items():
    if _op in _ops:
        globals()[_name] = _ops[_op]


# ---- creation ----

def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    return _ops["arange"](start, stop, step, dtype=dtype, device=device)


def empty(shape, *, dtype=None, device=None):
    return _ops["empty"](shape, dtype=dtype, device=device)


def zeros(shape, *, dtype=None, device=None):
    return _ops["zeros"](shape, dtype=dtype, device=device)


def ones(shape, *, dtype=None, device=None):
    return _ops["ones"](shape, dtype=dtype, device=device)


def full(shape, fill_value, *, dtype=None, device=None):
    return _ops["full"](shape, fill_value, dtype=dtype, device=device)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    n_cols = n_rows if n_cols is None else n_cols
    if k == 0:
        return _ops["eye"](n_rows, n_cols, dtype=dtype, device=device)
    rows = _ops["arange"](n_rows, device=device).unsqueeze(1)
    return (_ops["arange"](n_cols, device=device).unsqueeze(0) - rows == k).to(dtype or float32)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    if not endpoint and num > 0:
        stop = stop - (stop - start) / num
    return _ops["linspace"](float(start), float(stop), num, dtype=dtype, device=device)


# ---- shapes ----

def permute_dims(x, /, axes):
    return x.permute(axes)


def matrix_transpose(x, /):
    return x.mT


def expand_dims(x, /, *, axis=0):
    return x.unsqueeze(axis)


def squeeze(x, /, axis):
    for a in (axis,) if isinstance(axis, int) else axis:
        if x.shape[a] != 1:
            raise ValueError(f"squeeze(): dimension {a} has size {x.shape[a]}, not 1")
    return x.squeeze(axis)


def broadcast_to(x, /, shape):
    return x.expand(shape)


def concat(arrays, /, *, axis=0):
    if axis is None:
        arrays, axis = [a.reshape(-1) for a in arrays], 0
    return _ops["cat"](list(arrays), axis)


def stack(arrays, /, *, axis=0):
    return _ops["stack"](list(arrays), axis)


def unstack(x, /, *, axis=0):
    return x.unbind(axis)


def take(x, indices, /, *, axis=None):
    if axis is None:
        if x.ndim != 1:
            raise ValueError("take(): argument 'axis' is needed for an array of more than one dimension")
        axis = 0
    return _ops["index_select"](x, axis, indices)


def astype(x, dtype, /, *, copy=True, device=None):
    return x.to(device=device, dtype=dtype, copy=copy)


def clip(x, /, min=None, max=None):
    return x.clone() if min is None and max is None else _functions.clamp(x, min, max)


def positive(x, /):
    return x.clone()


# ---- reductions ----

def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    return _ops["sum"](x, axis, keepdims, dtype=dtype)


def _extreme(name):
    def reduce(x, /, *, axis=None, keepdims=False):
        return _ops[name](x, axis, keepdims)

    return reduce


max, min = _extreme("amax"), _extreme("amin")


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    return _ops["var"](x, axis, correction=correction, keepdim=keepdims)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    return _ops["std"](x, axis, correction=correction, keepdim=keepdims)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    if axis is None:
        if x.ndim != 1:
            raise ValueError("cumulative_sum(): argument 'axis' is needed for an array of more than one dimension")
        axis = 0
    result = _ops["cumsum"](x, axis, dtype=dtype)
    if include_initial:
        shape = list(result.shape)
        shape[axis] = 1
        result = _ops["cat"]([_ops["zeros"](shape, dtype=result.dtype, device=result.device), result], axis)
    return result


def vecdot(x1, x2, /, *, axis=-1):
    return (x1 * x2).sum(axis)


def tensordot(x1, x2, /, *, axes=2):
    if isinstance(axes, int):
        axes = (range(x1.ndim - axes, x1.ndim), range(axes))
    a, b = [i % x1.ndim for i in axes[0]], [i % x2.ndim for i in axes[1]]
    free_a, free_b = [i for i in range(x1.ndim) if i not in a], [i for i in range(x2.ndim) if i not in b]
    inner = 1
    for i in a:
        inner *= x1.shape[i]
    left, right = x1.permute([*free_a, *a]).reshape(-1, inner), x2.permute([*b, *free_b]).reshape(inner, -1)
    return (left @ right).reshape([*(x1.shape[i] for i in free_a), *(x2.shape[i] for i in free_b)])


def _sorting(name):
    if name not in _ops:
        return
    if name == "sort":
        def function(x, /, *, axis=-1, descending=False, stable=True):
            return _ops["sort"](x, axis, descending)[0]
    else:
        def function(x, /, *, axis=-1, descending=False, stable=True):
            return _ops["argsort"](x, axis, descending)
    globals()[name] = function


_sorting("sort")
_sorting("argsort")


if "nonzero" in _ops:
    def nonzero(x, /):
        return _ops["nonzero"](x).unbind(1)

if "unique" in _ops:
    import collections

    _Inverse = collections.namedtuple("unique_inverse_result", "values inverse_indices")
    _Counts = collections.namedtuple("unique_counts_result", "values counts")

    def unique_values(x, /):
        return _ops["unique"](x)

    def unique_inverse(x, /):
        values, inverse = _ops["unique"](x, True, False)
        return _Inverse(values, inverse.reshape(x.shape))

    def unique_counts(x, /):
        return _Counts(*_ops["unique"](x, False, True))


# ---- dtypes ----

_kinds = {"bool": lambda t: t is bool,
          "signed integer": lambda t: t.is_signed and not t.is_floating_point,
          "unsigned integer": lambda t: not t.is_signed and not t.is_floating_point and t is not bool,
          "integral": lambda t: not t.is_floating_point and t is not bool,
          "real floating": lambda t: t.is_floating_point,
          "complex floating": lambda t: False,
          "numeric": lambda t: t is not bool}


def isdtype(dtype, kind):
    """True where dtype is of a kind: a name such as "integral", a dtype, or a tuple of these."""
    if isinstance(kind, tuple):
        return any_of(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _kinds:
            raise ValueError(f"isdtype(): argument 'kind' names no kind of dtype: {kind!r}")
        return _kinds[kind](dtype)
    return dtype is kind


def any_of(values):
    return True in set(values)


_default = {"real floating": float32, "complex floating": None, "integral": int64, "indexing": int64}


class _Info:
    """What the standard's inspection asks about a library."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self):
        return _weft.device("cpu")

    def default_dtypes(self, *, device=None):
        return dict(_default)

    def devices(self):
        names = ["cpu"] + [f"{kind}:{i}" for kind in ("cuda", "hpu") for i in range(_core.device_count(kind))]
        return [_weft.device(name) for name in names]

    def dtypes(self, *, device=None, kind=None):
        all_of_them = [bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64]
        return {t.name: t for t in all_of_them if kind is None or isdtype(t, kind)}


def __array_namespace_info__():
    return _Info()


_standard = """acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh bitwise_and
bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays broadcast_to can_cast ceil
clip concat conj copysign cos cosh count_nonzero cumulative_prod cumulative_sum diff divide empty empty_like equal exp
expand_dims expm1 eye finfo flip floor floor_divide from_dlpack full full_like greater greater_equal hypot iinfo imag
isdtype isfinite isinf isnan less less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or
logical_xor matmul matrix_transpose max maximum mean meshgrid min minimum moveaxis multiply negative nextafter nonzero
not_equal ones ones_like permute_dims positive pow prod real reciprocal remainder repeat reshape result_type roll round
searchsorted sign signbit sin sinh sort sqrt square squeeze stack std subtract sum take take_along_axis tan tanh
tensordot tile tril triu trunc unique_all unique_counts unique_inverse unique_values unstack var vecdot where zeros
zeros_like abs""".split()

broadcast_arrays = lambda *arrays: list(broadcast_tensors(*arrays))  # noqa: E731


def missing():
    """The functions of the standard that are not there yet."""
    return sorted(name for name in _standard if name not in globals())


def __getattr__(name):
    if name in _standard:
        raise AttributeError(f"weft.array_api.{name} is not there yet")
    raise AttributeError(f"module 'weft.array_api' has no attribute '{name}'")
