"""The Python array API standard, 2024.12, with its extensions `linalg` and `fft`. `missing()` lists missing functions.
"""

import collections as _collections
import functools as _functools

import weft as _weft
from weft import _core, _functions
from weft._core import Tensor as _Tensor, _ops, dtype as _dtype, promote_types as _promote
from weft._core import bool, complex64, complex128, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64  # noqa: F401
from math import e, inf, nan, pi  # noqa: F401
from weft._functions import can_cast  # noqa: F401

__array_api_version__ = "2024.12"
newaxis = None


# ---- elementwise ----

def _together(*operands):
    """Promotes arrays to one dtype; 0-d arrays count like others. Numbers are unchanged."""
    kinds = [x.dtype for x in operands if isinstance(x, _Tensor)]
    if len(set(kinds)) < 2:
        return operands
    kind = _functools.reduce(_promote, kinds)
    return tuple(x.to(kind) if isinstance(x, _Tensor) else x for x in operands)


def _unary(name, op):
    def function(x, /):
        return op(x)

    function.__name__, function.__doc__ = name, op.__doc__
    return function


def _binary(name, op):
    def function(x1, x2, /):
        return op(*_together(x1, x2))

    function.__name__, function.__doc__ = name, op.__doc__
    return function


# The standard's names, and weft's where they differ.
_elementwise = {
    _unary: "abs acos acosh asin asinh atan atanh bitwise_invert:bitwise_not ceil cos cosh exp expm1 floor isfinite isinf "
            "isnan log log1p log2 log10 logical_not negative:neg conj imag real reciprocal round sign signbit sin sinh square sqrt tan "
            "tanh trunc",
    _binary: "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide:div "
             "equal:eq floor_divide greater:gt greater_equal:ge hypot less:lt less_equal:le logaddexp logical_and "
             "logical_or logical_xor maximum minimum multiply:mul nextafter not_equal:ne pow remainder subtract:sub",
}
for _make, _names in _elementwise.items():
    for _name in _names.split():
        _name, _, _op = _name.partition(":")
        _op = _ops.get(_op or _name) or getattr(_functions, _name, None)
        if _op is not None:
            globals()[_name] = _make(_name, _op)


def clip(x, /, min=None, max=None):
    return x.clone() if min is None and max is None else _functions.clamp(x, min, max).to(x.dtype)


def positive(x, /):
    return x.clone()


def where(condition, x1, x2, /):
    return _ops["where"](condition, *_together(x1, x2))


# ---- creation ----

def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    return _ops["arange"](start, stop, step, dtype=dtype, device=device)


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    return _functions.asarray(obj, dtype=dtype, device=device, copy=copy)


def empty(shape, *, dtype=None, device=None):
    return _ops["empty"](shape, dtype=dtype, device=device)


def zeros(shape, *, dtype=None, device=None):
    return _ops["zeros"](shape, dtype=dtype, device=device)


def ones(shape, *, dtype=None, device=None):
    return _ops["ones"](shape, dtype=dtype, device=device)


def full(shape, fill_value, *, dtype=None, device=None):
    return _ops["full"](shape, fill_value, dtype=dtype, device=device)


def empty_like(x, /, *, dtype=None, device=None):
    return _ops["empty_like"](x, dtype=dtype, device=device)


def zeros_like(x, /, *, dtype=None, device=None):
    return _ops["zeros_like"](x, dtype=dtype, device=device)


def ones_like(x, /, *, dtype=None, device=None):
    return _ops["ones_like"](x, dtype=dtype, device=device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    return _ops["full_like"](x, fill_value, dtype=dtype, device=device)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    n_cols = n_rows if n_cols is None else n_cols
    if k == 0:
        return _ops["eye"](n_rows, n_cols, dtype=dtype, device=device)
    rows = _ops["arange"](n_rows, device=device).unsqueeze(1)
    return (_ops["arange"](n_cols, device=device).unsqueeze(0) - rows == k).to(dtype or float32)


def from_dlpack(x, /, *, device=None, copy=None):
    return _functions.from_dlpack(x, device=device, copy=copy)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    if endpoint:
        return _ops["linspace"](float(start), float(stop), num, dtype=dtype, device=device)
    return _ops["linspace"](float(start), float(stop), num + 1, dtype=dtype, device=device)[:num].clone()


def meshgrid(*arrays, indexing="xy"):
    return list(_ops["meshgrid"](*arrays, indexing=indexing)) if arrays else []


# ---- shapes ----

def broadcast_arrays(*arrays):
    return list(_ops["broadcast_tensors"](*arrays)) if arrays else []


def broadcast_to(x, /, shape):
    return x.expand(shape)


def concat(arrays, /, *, axis=0):
    if axis is None:
        arrays, axis = [a.reshape(-1) for a in arrays], 0
    return _ops["cat"](list(arrays), axis)


def expand_dims(x, /, axis=0):
    return x.unsqueeze(axis)


def flip(x, /, *, axis=None):
    return _ops["flip"](x, list(range(x.ndim)) if axis is None else axis)


def matrix_transpose(x, /):
    return x.mT


def moveaxis(x, source, destination, /):
    return _ops["movedim"](x, source, destination)


def permute_dims(x, /, axes):
    return x.permute(axes)


def reshape(x, /, shape, *, copy=None):
    if copy is False:
        return x.view(shape)
    result = x.reshape(shape)
    return result.clone() if copy and result.data_ptr() == x.data_ptr() else result


def roll(x, /, shift, *, axis=None):
    return _ops["roll"](x, shift) if axis is None else _ops["roll"](x, shift, axis)


def squeeze(x, /, axis):
    for a in (axis,) if isinstance(axis, int) else axis:
        if x.shape[a] != 1:
            raise ValueError(f"squeeze(): dimension {a}: expected size 1, got {x.shape[a]}")
    return x.squeeze(axis) if axis != () else x


def stack(arrays, /, *, axis=0):
    return _ops["stack"](list(arrays), axis)


def tile(x, repetitions, /):
    return _ops["tile"](x, repetitions)


def unstack(x, /, *, axis=0):
    return x.unbind(axis)


def astype(x, dtype, /, *, copy=True, device=None):
    return x.to(device=device, dtype=dtype, copy=copy)


# ---- reductions ----

def _reduced(name, x, axis, keepdims, **options):
    """Reduces over axes; an empty tuple of axes reduces nothing, like reducing a new axis of size 1."""
    if isinstance(axis, (tuple, list)) and len(axis) == 0:
        return _ops[name](x.unsqueeze(0), 0, keepdim=False, **options)
    return _ops[name](x, axis, keepdim=keepdims, **options)


def _total(x, dtype, compute):
    """compute(x, dtype), with uint64 as the default dtype for unsigned integers."""
    unsigned = not x.dtype.is_floating_point and not x.dtype.is_signed and x.dtype is not bool
    return compute(x, uint64 if dtype is None and unsigned else dtype)


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    return _total(x, dtype, lambda x, dtype: _reduced("sum", x, axis, keepdims, dtype=dtype))


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    return _total(x, dtype, lambda x, dtype: _reduced("prod", x, axis, keepdims, dtype=dtype))


def _reduction(name, op=None):
    def function(x, /, *, axis=None, keepdims=False):
        return _reduced(op or name, x, axis, keepdims)

    function.__name__ = name
    return function


max, min = _reduction("max", "amax"), _reduction("min", "amin")
mean, any, all, count_nonzero = (_reduction(name) for name in ("mean", "any", "all", "count_nonzero"))


def argmax(x, /, *, axis=None, keepdims=False):
    return _ops["argmax"](x, axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    return _ops["argmin"](x, axis, keepdims)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    return _reduced("var", x, axis, keepdims, correction=correction)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    return _reduced("std", x, axis, keepdims, correction=correction)


def _running(name, op, first):
    def function(x, /, *, axis=None, dtype=None, include_initial=False):
        if axis is None:
            if x.ndim != 1:
                raise ValueError(f"{name}(): argument 'axis' is needed for an array of more than one dimension")
            axis = 0
        result = _total(x, dtype, lambda x, dtype: _ops[op](x, axis, dtype=dtype))
        if include_initial:
            shape = list(result.shape)
            shape[axis] = 1
            start = _ops["full"](shape, first, dtype=result.dtype, device=result.device)
            result = _ops["cat"]([start, result], axis)
        return result

    function.__name__ = name
    return function


cumulative_sum = _running("cumulative_sum", "cumsum", 0)
if "cumprod" in _ops:
    cumulative_prod = _running("cumulative_prod", "cumprod", 1)


# ---- products ----

def matmul(x1, x2, /):
    return _ops["matmul"](*_together(x1, x2))


def vecdot(x1, x2, /, *, axis=-1):
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot(): {tuple(x1.shape)} and {tuple(x2.shape)} differ in size along axis {axis}")
    x1, x2 = _together(x1.movedim(axis, -1), x2.movedim(axis, -1))
    return ((x1.conj() if x1.dtype.is_complex else x1) * x2).sum(-1, dtype=x1.dtype)


def tensordot(x1, x2, /, *, axes=2):
    if isinstance(axes, int):
        axes = (range(x1.ndim - axes, x1.ndim), range(axes))
    a, b = ([axis] if isinstance(axis, int) else list(axis) for axis in axes)
    sizes, others = [x1.shape[i] for i in a], [x2.shape[i] for i in b]
    if sizes != others:
        raise ValueError(f"tensordot(): axes of sizes {sizes} and {others} do not fit")
    return _ops["tensordot"](*_together(x1, x2), a, b)


# ---- searching, sorting, sets ----

def nonzero(x, /):
    if x.ndim == 0:
        raise ValueError("nonzero(): a 0-d array has no coordinates")
    return _ops["nonzero"](x, as_tuple=True)


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    return _ops["searchsorted"](*_together(x1, x2), side=side, sorter=sorter)


def take(x, indices, /, *, axis=None):
    if axis is None:
        if x.ndim != 1:
            raise ValueError("take(): argument 'axis' is needed for an array of more than one dimension")
        axis = 0
    return _ops["index_select"](x, axis, indices)


def take_along_axis(x, indices, /, *, axis=-1):
    return _ops["take_along_dim"](x, indices, axis)


if "sort" in _ops:
    def sort(x, /, *, axis=-1, descending=False, stable=True):
        return _ops["sort"](x, axis, descending)[0]

if "argsort" in _ops:
    def argsort(x, /, *, axis=-1, descending=False, stable=True):
        return _ops["argsort"](x, axis, descending)

if "diff" in _ops:
    def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
        return _ops["diff"](x, n, axis, prepend, append)

if "repeat_interleave" in _ops:
    def repeat(x, repeats, /, *, axis=None):
        return _ops["repeat_interleave"](x, repeats, axis)

if "tril" in _ops:
    def tril(x, /, *, k=0):
        return _ops["tril"](x, k)

if "triu" in _ops:
    def triu(x, /, *, k=0):
        return _ops["triu"](x, k)

_All = _collections.namedtuple("unique_all_result", "values indices inverse_indices counts")
_Inverse = _collections.namedtuple("unique_inverse_result", "values inverse_indices")
_Counts = _collections.namedtuple("unique_counts_result", "values counts")


def unique_all(x, /):
    values, inverse, counts = _ops["unique"](x, return_inverse=True, return_counts=True)
    places = _ops["arange"](x.numel(), device=x.device)
    indices = _ops["scatter_reduce"](_ops["zeros_like"](counts), 0, inverse.reshape(-1), places, "amin", False)
    return _All(values, indices, inverse.reshape(x.shape), counts)


def unique_values(x, /):
    return _ops["unique"](x)


def unique_inverse(x, /):
    values, inverse = _ops["unique"](x, return_inverse=True)
    return _Inverse(values, inverse.reshape(x.shape))


def unique_counts(x, /):
    return _Counts(*_ops["unique"](x, return_counts=True))


# ---- dtypes ----

def finfo(type, /):
    return _functions.finfo(type)


def iinfo(type, /):
    return _functions.iinfo(type)


def result_type(*arrays_and_dtypes):
    """The dtype in which arrays, dtypes and numbers are computed; 0-d arrays count like others."""
    kinds = [x if isinstance(x, _dtype) else x.dtype for x in arrays_and_dtypes if isinstance(x, (_dtype, _Tensor))]
    if not kinds:
        raise ValueError("result_type() needs at least one array or dtype")
    kind = _functools.reduce(_promote, kinds)
    numbers = [x for x in arrays_and_dtypes if not isinstance(x, (_dtype, _Tensor))]
    return _functools.reduce(_functions.result_type, numbers, kind)


_kinds = {"bool": lambda t: t is bool,
          "signed integer": lambda t: t.is_signed and not t.is_floating_point and not t.is_complex,
          "unsigned integer": lambda t: not t.is_signed and not t.is_floating_point and t is not bool,
          "integral": lambda t: not t.is_floating_point and not t.is_complex and t is not bool,
          "real floating": lambda t: t.is_floating_point,
          "complex floating": lambda t: t.is_complex,
          "numeric": lambda t: t is not bool}


def isdtype(dtype, kind):
    """Whether dtype is of a kind: a name such as "integral", a dtype, or a tuple of these."""
    if isinstance(kind, tuple):
        return True in {isdtype(dtype, k) for k in kind}
    if isinstance(kind, str):
        if kind not in _kinds:
            raise ValueError(f"isdtype(): argument 'kind' names no kind of dtype: {kind!r}")
        return _kinds[kind](dtype)
    return dtype is kind


class _Info:
    """The standard's inspection namespace."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self):
        return _weft.device("cpu")

    def default_dtypes(self, *, device=None):
        return {"real floating": _weft.get_default_dtype(), "complex floating": _functions.complex_of(_weft.get_default_dtype()), "integral": int64,
                "indexing": int64}

    def devices(self):
        names = ["cpu"] + [f"{kind}:{i}" for kind in _core.accelerator_kinds() for i in range(_core.device_count(kind))]
        return [_weft.device(name) for name in names]

    def dtypes(self, *, device=None, kind=None):
        all_of_them = [bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64,
                        complex64, complex128]
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

def missing():
    """The functions of the standard that are missing."""
    return sorted(name for name in _standard if name not in globals())


def __getattr__(name):
    if name in ("fft", "linalg"):
        import importlib

        return importlib.import_module(f"weft.array_api.{name}")
    if name in _standard:
        raise AttributeError(f"weft.array_api.{name} is not there yet")
    raise AttributeError(f"module 'weft.array_api' has no attribute '{name}'")
