"""Functions that are not ops: keywords beyond an op's schema, other names from PyTorch, tensors from external data."""

import collections
from numbers import Integral

from weft import _core
from weft._core import Tensor, _ops, dtype as _dtype
from weft.errors import ValueError

__all__ = ["tensor", "as_tensor", "asarray", "from_numpy", "from_dlpack", "frombuffer", "is_tensor",
           "is_complex", "is_floating_point", "result_type", "can_cast", "finfo", "iinfo", "numel", "layout", "memory_format", "strided",
           "contiguous_format", "preserve_format", "channels_last", "channels_last_3d"]


def _public(function):
    __all__.append(function.__name__)
    function.__module__ = "weft"
    return function


def _need_tensors(name, **arguments):
    for argument, value in arguments.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}(): argument '{argument}': expected a Tensor, got {type(value).__name__}")


_python_types = {bool: _core.bool, int: _core.int64, float: _core.float64, complex: _core.complex128}


def _named(dtype):
    """The dtype for a Python type; any other value unchanged."""
    return _python_types.get(dtype, dtype) if isinstance(dtype, type) else dtype


class layout:
    """Memory layout; only weft.strided exists."""

    def __repr__(self):
        return "weft.strided"


class memory_format:
    """Order of dimensions in memory. Copies are row-major for every format."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"weft.{self.name}"


strided = layout()
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")

# PyTorch keywords without an effect here: the values that are allowed besides None, and the ops.
_formats = (contiguous_format, preserve_format, channels_last, channels_last_3d)
_new = ("empty zeros ones full arange linspace eye rand randn randint randperm logspace geomspace normal hann_window "
        "hamming_window blackman_window bartlett_window kaiser_window ")
_likes = "empty_like zeros_like ones_like full_like rand_like randn_like randint_like "
_losses = ("cross_entropy nll_loss mse_loss l1_loss huber_loss smooth_l1_loss binary_cross_entropy "
           "binary_cross_entropy_with_logits kl_div poisson_nll_loss cosine_embedding_loss hinge_embedding_loss "
           "margin_ranking_loss soft_margin_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss "
           "triplet_margin_loss")
_idle_keywords = {
    "layout": ((strided,), _new + _likes), "pin_memory": ((False,), _new + _likes),
    "memory_format": (_formats, _likes + "empty clone contiguous to"),
    "requires_grad": ((False,), "randint randperm"), "names": ((), _new), "sparse_grad": ((False, True), "gather"),
    "cudnn_enable": ((False, True), "layer_norm"), "cudnn_enabled": ((False, True), "group_norm"),
    "align_to_window": ((False,), "stft"), "driver": (("gels", "gelsy", "gelsd", "gelss"), "linalg_lstsq"), "size_average": ((), _losses), "reduce": ((), _losses),
    "weight": ((), "mse_loss l1_loss huber_loss"),
    "inplace": ((False,), "dropout leaky_relu elu celu hardtanh threshold"), "scale_grad_by_freq": ((False,), "embedding embedding_bag"),
    "implicit": ((False,), "expand"),
}
for _name in {name for _, names in _idle_keywords.values() for name in names.split()} & set(_ops):
    _ops[_name]._accept_idle({keyword: values for keyword, (values, names) in _idle_keywords.items()
                              if _name in names.split()})


def _is_float(x):
    return x.dtype.is_floating_point if isinstance(x, Tensor) else isinstance(x, float)


def _bitwise(logical, name):
    def apply(a, b):
        def is_bool(x):
            return x.dtype is _core.bool if isinstance(x, Tensor) else isinstance(x, bool)

        if is_bool(a) and is_bool(b):
            return _ops[logical](a, b)
        if name not in _ops:
            raise NotImplementedError(f"{name} of integers is not there yet")
        return _ops[name](a, b)

    return apply


_operators = {"&": _bitwise("logical_and", "bitwise_and"), "|": _bitwise("logical_or", "bitwise_or"),
              "^": _bitwise("logical_xor", "bitwise_xor")}
for _symbol, _name in (("<<", "bitwise_left_shift"), (">>", "bitwise_right_shift"), ("~", "bitwise_not")):
    if _name in _ops:
        _operators[_symbol] = _ops[_name]


# ---- ops with several results ----

for _name, _op in _ops.items():
    if _op._results:
        _op._name_results(collections.namedtuple(_name, _op._results, rename=True))


def _one_or_several(*results):
    return results


for _name in ("unique", "unique_consecutive"):
    if _name in _ops:
        _ops[_name]._name_results(_one_or_several)


# ---- other names ----

@_public
def clamp(input, min=None, max=None, *, out=None):
    """input clamped to [min, max]; each bound is a number, a tensor or None."""
    return _ops["clip"](input, min, max, out=out)


@_public
def numel(input):
    """The number of elements."""
    return input.numel()


_aliases = {"negative": "neg", "absolute": "abs", "subtract": "sub", "multiply": "mul", "divide": "div",
            "true_divide": "div", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
            "not_equal": "ne", "concat": "cat", "concatenate": "cat", "arctan2": "atan2",
            "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
            "arctanh": "atanh", "fix": "trunc", "equal_elements": "eq", "take_along_axis": "take_along_dim",
            "trapz": "trapezoid", "clamp_": "clip_", "det": "linalg_det",
            "slogdet": "linalg_slogdet", "inverse": "linalg_inv", "matrix_power": "linalg_matrix_power",
            "matrix_exp": "linalg_matrix_exp", "ger": "outer", "conj_physical": "conj",
            "orgqr": "linalg_householder_product", "unsafe_chunk": "chunk", "unsafe_split": "split",
            "unsafe_split_with_sizes": "split_with_sizes", "affine_grid_generator": "affine_grid",
            "native_channel_shuffle": "channel_shuffle"}
for _new, _old in _aliases.items():
    if _old in _ops and _new not in _ops:
        globals()[_new] = _ops[_old]
        __all__.append(_new)


@_public
def tensordot(a, b, dims=2, out=None):
    """Sums of products over the last `dims` dimensions of a and the first of b, or over two lists of dimensions."""
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.numel() > 1 else dims.item()
    if isinstance(dims, Integral):
        return _ops["tensordot"](a, b, dims, out=out)
    if not isinstance(dims, (list, tuple)) or len(dims) != 2:
        raise TypeError(f"tensordot(): argument 'dims': expected an int or two lists of dimensions, got {dims!r}")
    dims_a, dims_b = dims
    return _ops["tensordot"](a, b, list(dims_a), list(dims_b), out=out)


@_public
def cross(input, other, dim=None, *, out=None):
    """The cross product along dim; by default the first dimension of size 3."""
    if dim is None:
        dim = next((d for d, n in enumerate(input.shape) if n == 3), -1)
    return _ops["linalg_cross"](input, other, dim, out=out)


@_public
def pinverse(input, rcond=1e-15):
    """The Moore-Penrose pseudo-inverse; singular values up to rcond times the largest count as 0."""
    return _ops["linalg_pinv"](input, rtol=rcond)


@_public
def broadcast_shapes(*shapes):
    """The shape that arrays of these shapes broadcast to."""
    result = []
    for shape in shapes:
        shape = [shape] if isinstance(shape, Integral) else list(shape)
        if any(n < 0 for n in shape):
            raise ValueError(f"broadcast_shapes(): a size is negative in {tuple(shape)}")
        result = [1] * (len(shape) - len(result)) + result
        shape = [1] * (len(result) - len(shape)) + shape
        for i, (a, b) in enumerate(zip(result, shape)):
            if a != b and 1 not in (a, b):
                raise ValueError(f"broadcast_shapes(): {tuple(result)} and {tuple(shape)} do not fit")
            result[i] = b if a == 1 else a
    return tuple(result)


# ---- external data ----

def _finish(result, dtype, device):
    if device is not None:
        result = result.to(device=device)
    return result if dtype is None else result.to(dtype=dtype)


def _no_pinned_memory(name, pin_memory):
    if pin_memory:
        raise NotImplementedError(f"{name}(): argument 'pin_memory' is there with its default alone")


def _dtype_of_scalar(data):
    """The dtype of a NumPy scalar; None for other values."""
    if type(data).__module__ == "numpy" and hasattr(data, "dtype") and not hasattr(data, "__array_finalize__"):
        return getattr(_core, data.dtype.name, None)
    return None


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A copy of a number, nested sequences, an array or a tensor. float gives float32, int int64, bool bool; arrays
    and NumPy's scalars keep their dtype."""
    _no_pinned_memory("tensor", pin_memory)
    result = _core._tensor(data, dtype or _dtype_of_scalar(data))
    if device is not None:
        result = result.to(device=device)
    return result.requires_grad_() if requires_grad else result


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """obj as a tensor, sharing its memory if possible and copy is not True. With copy=False, raises ValueError if it
    cannot be shared. Read-only memory is copied, since tensors are always writable."""
    if copy is not None and not isinstance(copy, bool):
        raise TypeError(f"asarray(): argument 'copy': expected a bool or None, got {type(copy).__name__}")
    if isinstance(obj, Tensor):
        shared = obj
        result = _finish(obj, dtype, device)
        if copy and result is obj or copy and result._impl() == obj._impl():
            result = obj.clone()
    else:
        shared = None if isinstance(obj, (list, tuple, int, float)) else _core._from_memory(obj, copy)
        result = _finish(shared if shared is not None else _core._tensor(obj, dtype or _dtype_of_scalar(obj)), dtype, device)
        if shared is None and copy is False:
            raise ValueError(f"asarray(): a {type(obj).__name__} cannot be shared without a copy")
    if copy is False and result._impl() != shared._impl():
        raise ValueError("asarray(): another dtype or device needs a copy, which copy=False forbids")
    return result.requires_grad_() if requires_grad else result


def as_tensor(data, dtype=None, device=None):
    """asarray with PyTorch's signature."""
    return asarray(data, dtype=dtype, device=device)


def from_numpy(ndarray):
    """A tensor that shares the array's memory. A read-only array is copied. Raises TypeError for anything but an array
    and for dtypes that weft lacks, and ValueError for unaligned elements."""
    if not any(c.__module__ == "numpy" and c.__name__ == "ndarray" for c in type(ndarray).__mro__):
        raise TypeError(f"from_numpy(): argument 'ndarray': expected a numpy.ndarray, got {type(ndarray).__name__}")
    if not ndarray.dtype.isnative:
        raise TypeError(f"from_numpy(): argument 'ndarray' has another byte order: {ndarray.dtype}")
    return _core._from_memory(ndarray, False if ndarray.flags.writeable else None)


def from_dlpack(x, /, *, device=None, copy=None):
    """A tensor that shares the memory of an object with __dlpack__, or of a capsule, which is consumed."""
    if isinstance(x, Tensor):
        return x.clone() if copy else x
    return _finish(_core._from_dlpack(x, copy), None, device)


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A 1-d tensor that shares the bytes of a buffer; a read-only buffer is copied."""
    view = memoryview(buffer).cast("B")[offset:]
    if count >= 0:
        view = view[:count * dtype.itemsize]
    result = _core._from_memory(view, None if view.readonly else False)._view_as_dtype(dtype)
    return result.requires_grad_() if requires_grad else result


def is_tensor(obj):
    """Whether obj is a weft.Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input):
    """Whether input's dtype is floating-point."""
    return input.dtype.is_floating_point


# ---- dtypes ----

def result_type(*arrays_and_dtypes):
    """The dtype in which an op on these tensors, dtypes and numbers computes."""
    if not arrays_and_dtypes:
        raise ValueError("result_type() needs at least one argument")
    dimensioned, weak = None, []
    for x in arrays_and_dtypes:
        if isinstance(x, _dtype):
            dimensioned = x if dimensioned is None else _core.promote_types(dimensioned, x)
        else:
            weak.append(x)
    operands = weak if dimensioned is None else [_ops["empty"]((1,), dtype=dimensioned), *weak]
    result = operands[0]
    if len(operands) == 1:
        return _core._result_type(result, result)
    for x in operands[1:]:
        kind = _core._result_type(result, x)
        rank = max(getattr(result, "ndim", 0), getattr(x, "ndim", 0))
        if isinstance(result, Tensor) or isinstance(x, Tensor):
            result = _ops["empty"]((1,) * rank, dtype=kind)
        else:
            result = type(result)(0) if isinstance(result, float) else type(x)(0)
    return kind


def is_complex(input):
    """Whether input's dtype is complex."""
    return input.dtype.is_complex


def complex_of(dtype):
    """The complex dtype with parts of this floating-point dtype."""
    return _core.complex128 if dtype is _core.float64 else _core.complex64


def _category(dtype):
    return 4 if dtype.is_complex else 3 if dtype.is_floating_point else 1 if dtype is _core.bool else 2


def can_cast(from_, to, /):
    """Whether `from_` converts to `to` without leaving its category (bool, integer, float, complex)."""
    from_, to = from_.dtype if isinstance(from_, Tensor) else _named(from_), _named(to)
    if not isinstance(from_, _dtype) or not isinstance(to, _dtype):
        raise TypeError(f"can_cast(): arguments 'from_' and 'to': expected dtypes, got {from_!r} and {to!r}")
    return _category(from_) <= _category(to)


_float_facts = {  # bits, eps, max, smallest normal
    "float16": (16, 2.0**-10, 65504.0, 2.0**-14),
    "bfloat16": (16, 2.0**-7, float.fromhex("0x1.fep127"), 2.0**-126),
    "float32": (32, 2.0**-23, float.fromhex("0x1.fffffep127"), 2.0**-126),
    "float64": (64, 2.0**-52, float.fromhex("0x1.fffffffffffffp1023"), 2.0**-1022),
    "float8_e4m3fn": (8, 2.0**-3, 448.0, 2.0**-6),
    "float8_e5m2": (8, 2.0**-2, 57344.0, 2.0**-14),
    "float8_e4m3fnuz": (8, 2.0**-3, 240.0, 2.0**-7),
    "float8_e5m2fnuz": (8, 2.0**-2, 57344.0, 2.0**-15),
    "float8_e8m0fnu": (8, 1.0, 2.0**127, 2.0**-127),
}


class finfo:
    """Limits of a floating-point dtype: bits, eps, max, min, smallest_normal."""

    def __init__(self, type=None):
        type = type.dtype if isinstance(type, Tensor) else _core.float32 if type is None else _named(type)
        if isinstance(type, _dtype) and type.is_complex:
            type = _core.float32 if type is _core.complex64 else _core.float64
        if not isinstance(type, _dtype) or not type.is_floating_point:
            raise TypeError(f"finfo(): argument 'type': expected a floating-point dtype, got {type!r}")
        self.dtype = type
        self.bits, self.eps, self.max, self.smallest_normal = _float_facts[type.name]
        self.min = -self.max if type.is_signed else self.smallest_normal
        self.tiny, self.resolution = self.smallest_normal, self.eps

    def __repr__(self):
        return f"finfo(dtype={self.dtype.name}, bits={self.bits}, eps={self.eps:g}, min={self.min:g}, max={self.max:g})"


class iinfo:
    """Limits of an integer dtype: bits, max, min."""

    def __init__(self, type):
        type = type.dtype if isinstance(type, Tensor) else _named(type)
        if not isinstance(type, _dtype) or type.is_floating_point or type.is_complex or type is _core.bool:
            raise TypeError(f"iinfo(): argument 'type': expected an integer dtype, got {type!r}")
        self.dtype, self.bits = type, 8 * type.itemsize
        self.min = -2**(self.bits - 1) if type.is_signed else 0
        self.max = 2**(self.bits - 1) - 1 if type.is_signed else 2**self.bits - 1

    def __repr__(self):
        return f"iinfo(dtype={self.dtype.name}, min={self.min}, max={self.max})"

