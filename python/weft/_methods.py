"""Methods of weft.Tensor besides its operators and properties: every op, hooks, pickling."""

from numbers import Integral

from weft import _compositions, _core, _functions
from weft._core import Tensor, _ops
from weft.errors import DTypeError, ValueError

_of_tensors = _core._ops_of_tensors()
for _name, _op in _ops.items():
    if (_name in _of_tensors or _name.removesuffix("_") in _of_tensors) and not hasattr(Tensor, _name):
        setattr(Tensor, _name, _op)
for _name in _functions.__all__:
    _function = getattr(_functions, _name)
    if not _name.startswith(("tensor", "as", "from", "is_tensor", "broadcast_", "meshgrid", "finfo", "iinfo", "can_cast",
                             "result_type", "layout", "memory_format", "strided", "contiguous_format", "preserve_format",
                             "channels_last")) and not hasattr(Tensor, _name):
        setattr(Tensor, _name, _function)
for _name in _compositions.__all__:
    setattr(Tensor, _name, getattr(_compositions, _name))
Tensor.clamp = _functions.clamp
Tensor.layout = property(lambda self: _functions.strided, doc="weft.strided: there is no other.")


def _method(function):
    setattr(Tensor, function.__name__, function)
    function.__qualname__ = f"Tensor.{function.__name__}"
    function.__module__ = "weft"
    return function


@_method
def polygamma(self, n):
    """The n-th derivative of digamma."""
    return _ops["polygamma"](n, self)


def _in_place(name):
    op = getattr(Tensor, name)

    def method(self, *arguments, **keywords):
        operands = (self, *arguments, *keywords.values())
        recorded = any(isinstance(t, Tensor) and t.requires_grad for t in operands)
        result = op(self.clone() if recorded else self, *arguments, **keywords)  # its backward needs the old value
        if tuple(result.shape) != tuple(self.shape):
            raise ValueError(f"{name}_(): the result has shape {tuple(result.shape)}, the tensor {tuple(self.shape)}")
        kept = result.dtype is self.dtype if name == "float_power" else _functions.can_cast(result.dtype, self.dtype)
        if not kept:
            raise DTypeError(f"{name}_(): a {result.dtype.name} result cannot be written into {self.dtype.name}")
        return self.copy_(result)

    method.__name__, method.__doc__ = name + "_", f"In place: {op.__doc__}"
    _method(method)


for _name in ("index_fill index_copy index_put scatter scatter_reduce masked_scatter put addcmul addcdiv addmm lerp cumprod "
              "logical_not logical_and logical_or logical_xor eq ne lt le gt ge nan_to_num tril triu copysign hypot addbmm "
              "addmv addr baddbmm clamp_max clamp_min float_power index_reduce ldexp logit mvlgamma nextafter polygamma renorm "
              "sgn").split():
    if hasattr(Tensor, _name) and not hasattr(Tensor, _name + "_"):
        _in_place(_name)
for _alias, _name in {**_functions._aliases, "ndimension": "dim", "nelement": "numel", "const_data_ptr": "data_ptr"}.items():
    for _end in ("", "_"):
        if hasattr(Tensor, _name + _end) and not hasattr(Tensor, _alias + _end):
            setattr(Tensor, _alias + _end, getattr(Tensor, _name + _end))


@_method
def bernoulli_(self, p=0.5, *, generator=None):
    """Overwrites self with 1 with probability p, else 0; p is a number, or a tensor that broadcasts."""
    if isinstance(p, Tensor):
        return self.copy_(_ops["bernoulli"](p.detach().expand(self.shape), generator=generator))
    return _ops["bernoulli_"](self, p, generator=generator)


@_method
def cumsum_(self, dim, exclusive=False, reverse=False, *, dtype=None):
    """In place: prefix sums along dim. dtype must be self's, if given."""
    if dtype not in (None, self.dtype):
        raise DTypeError(f"cumsum_(): a {dtype.name} result cannot be written into {self.dtype.name}")
    return _ops["cumsum_"](self, dim, exclusive, reverse)


def _variadic(name):
    op = _ops[name]

    def method(self, *numbers, **keywords):
        several = len(numbers) > 1 and all(type(n) is int or isinstance(n, Integral) for n in numbers)
        return op(self, numbers, **keywords) if several else op(self, *numbers, **keywords)

    method.__name__, method.__doc__ = name, op.__doc__
    _method(method)


for _name in ("repeat", "tile", "flip", "count_nonzero"):
    _variadic(_name)


@_method
def view(self, *shape):
    """The same elements with other sizes; view(dtype) reinterprets the bytes as elements of another dtype."""
    if len(shape) == 1 and isinstance(dtype := _functions._named(shape[0]), _core.dtype):
        return self._view_as_dtype(dtype)
    return _ops["_view"](self, *shape)


@_method
def where(self, condition, other):
    """self where condition is true, else other."""
    return _ops["where"](condition, self, other)


@_method
def expand_as(self, other):
    return self.expand(other.shape)


@_method
def view_as(self, other):
    return self.view(other.shape)


@_method
def reshape_as(self, other):
    return self.reshape(other.shape)


@_method
def type_as(self, other):
    return self.to(other.dtype)


@_method
def sum_to_size(self, size, *more):
    """Sums over the dimensions that expand() would add or stretch to get from this size to self's."""
    sizes = [size, *more] if isinstance(size, Integral) else list(size)
    added = self.ndim - len(sizes)
    if added < 0 or any(n not in (1, old) for n, old in zip(sizes, self.shape[added:])):
        raise ValueError(f"sum_to_size(): {tuple(sizes)} does not expand to {tuple(self.shape)}")
    dims = [d for d, old in enumerate(self.shape) if d < added or sizes[d - added] != old]
    return self.sum(dims, True).reshape(sizes) if dims or not sizes else self


@_method
def fill_diagonal_(self, fill_value, wrap=False):
    """Writes one value to all elements with equal coordinates. With wrap, a tall matrix has a diagonal in each square
    block of its width, with one row between blocks."""
    if self.ndim < 2 or self.ndim > 2 and len(set(self.shape)) > 1:
        raise ValueError(f"fill_diagonal_(): {tuple(self.shape)} is neither a matrix nor a cube")
    rows, columns = self.shape[:2]
    for start in range(0, rows if wrap and self.ndim == 2 else 1, columns + 1):
        diagonal = self[start:]
        while diagonal.ndim > 1:
            diagonal = diagonal.diagonal()
        diagonal.fill_(fill_value)
    return self


@_method
def random_(self, *bounds, generator=None, **named):
    """Overwrites self with integers from [from, to); random_(to) starts at 0. Without `to`, the range ends at the
    dtype's largest value; for floats at the last of the consecutive integers; for int64 and uint64 at 2**63 - 2."""
    known = dict(zip(("to",) if len(bounds) == 1 and "to" not in named else ("from", "to"), bounds)) | named
    if len(bounds) > 2 or known.keys() - {"from", "to"} or len(known) < len(bounds) + len(named):
        raise TypeError("random_(): takes 'from' and 'to'")
    low, high = known.get("from", 0), known.get("to")
    if high is None:
        kind = self.dtype
        top = int(2 / _functions.finfo(kind).eps) if kind.is_floating_point else (
            1 if kind is _core.bool else _functions.iinfo(kind).max)
        high = min(top + 1, 2**63 - 1)
    return self.copy_(_ops["randint_like"](self, low, high, generator=generator))


def _elementwise(name, others):
    def method(self, *arguments):
        *tensors, function = arguments
        if len(tensors) != others:
            raise TypeError(f"{name}(): takes {others} tensors and a function")
        if self.requires_grad:
            raise ValueError(f"{name}(): a function of numbers has no gradient: detach() first")
        for other in tensors:
            _functions._need_tensors(name, other=other)
            if other.dtype is not self.dtype:
                raise DTypeError(f"{name}(): tensors: expected {self.dtype.name}, got {other.dtype.name}")
        numbers = [t.expand(self.shape).reshape(-1).tolist() for t in (self, *tensors)]
        values = [function(*several) for several in zip(*numbers)]
        return self.copy_(_functions.tensor(values, dtype=self.dtype).reshape(self.shape))

    method.__name__, method.__doc__ = name, "Overwrites each number with the result of a Python function of it."
    _method(method)


for _name, _others in (("apply_", 0), ("map_", 1), ("map2_", 2)):
    _elementwise(_name, _others)


@_method
def cpu(self, memory_format=None):
    """self on the CPU."""
    return self.to("cpu", memory_format=memory_format)


@_method
def cuda(self, device=None, non_blocking=False, memory_format=None):
    """self on a GPU; by default the first one."""
    device = f"cuda:{device or 0}" if device is None or isinstance(device, Integral) else device
    return self.to(device, non_blocking=non_blocking, memory_format=memory_format)


def _conversion(name, dtype):
    def convert(self, memory_format=None):
        return self.to(dtype, memory_format=memory_format)

    convert.__name__, convert.__doc__ = name, f"self as {dtype!r}."
    _method(convert)


for _name, _dtype in {"float": _core.float32, "double": _core.float64, "half": _core.float16,
                      "bfloat16": _core.bfloat16, "long": _core.int64, "int": _core.int32, "short": _core.int16,
                      "char": _core.int8, "byte": _core.uint8, "bool": _core.bool, "cfloat": _core.complex64,
                      "cdouble": _core.complex128}.items():
    _conversion(_name, _dtype)


_kinds = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long", "int32": "Int",
          "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool", "complex64": "ComplexFloat",
          "complex128": "ComplexDouble", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
          "float8_e4m3fn": "Float8_e4m3fn", "float8_e5m2": "Float8_e5m2", "float8_e4m3fnuz": "Float8_e4m3fnuz",
          "float8_e5m2fnuz": "Float8_e5m2fnuz", "float8_e8m0fnu": "Float8_e8m0fnu"}


type_prefix = "weft"  # "torch" while PyTorch's forms are in use


def _type(self, dtype=None, non_blocking=False):
    """self converted to that dtype, which may be a tensor type of PyTorch's or its name, such as "weft.FloatTensor". Without
    a dtype, returns the type name of self."""
    if dtype is None:
        place = "" if self.device.type == "cpu" else f"{self.device.type}."
        return f"{type_prefix}.{place}{_kinds[self.dtype.name]}Tensor"
    if isinstance(dtype, str):
        package, *device, kind = [*dtype.split("."), ""] if "." not in dtype else dtype.split(".")
        found = [name for name, known in _kinds.items() if package in ("weft", "torch") and kind == f"{known}Tensor"]
        if not found or len(device) > 1:
            raise ValueError(f"type(): there is no {dtype!r}")
        return self.to(device[0] if device else "cpu", getattr(_core, found[0]), non_blocking=non_blocking)
    if hasattr(dtype, "_dtype"):  # torch.cuda.FloatTensor
        return self.to(dtype._device or "cpu", dtype._dtype or _core.get_default_dtype(), non_blocking=non_blocking)
    return self.to(dtype, non_blocking=non_blocking)


_type.__name__ = "type"  # the name `type` is the builtin in this file
_method(_type)


def _new(name, make):
    def method(self, *size, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
        return make(*size, dtype=dtype or self.dtype, layout=layout, device=device or self.device, pin_memory=pin_memory,
                    requires_grad=requires_grad)

    method.__name__, method.__doc__ = f"new_{name}", f"{name} with self's dtype and device."
    _method(method)


for _name in ("empty", "zeros", "ones"):
    _new(_name, _ops[_name])


@_method
def new_full(self, size, fill_value, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """full with self's dtype and device."""
    return _ops["full"](size, fill_value, dtype=dtype or self.dtype, layout=layout, device=device or self.device,
                        pin_memory=pin_memory, requires_grad=requires_grad)


@_method
def new_tensor(self, data, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """tensor with self's dtype and device."""
    return _functions.tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad,
                             pin_memory=pin_memory)


_backward = Tensor.backward


def _converted_seed(seed, output):
    """A seed in the dtype of its output; a complex one for real numbers, or what is no tensor, as it is."""
    if not isinstance(seed, Tensor) or seed.dtype is output.dtype or seed.dtype.is_complex and not output.dtype.is_complex:
        return seed
    return seed.to(output.dtype)


@_method
def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Fills .grad of every leaf that this depends on, or of `inputs` alone."""
    if inputs is None:
        return _backward(self, _converted_seed(gradient, self), retain_graph, create_graph)
    from weft import autograd

    autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


@_method
def record_stream(self, stream):
    """Declares that work outside the library uses self on `stream`; the memory is not reused before that work is done.
    """
    _core._record_stream(self, stream)


@_method
def register_hook(self, hook):
    """Calls hook with the gradient of self once it is complete; a returned tensor replaces the gradient."""
    return _core._register_hook(self, hook)


@_method
def register_post_accumulate_grad_hook(self, hook):
    """Calls hook with this leaf after each backward that reached it, once .grad holds the sum."""
    return _core._register_post_accumulate_grad_hook(self, hook)


@_method
def register_node_pre_hook(self, hook):
    """Calls hook with a GradEvent before the backward of the op that produced self; it may return other gradients."""
    return _core._register_node_pre_hook(self, hook)


@_method
def register_node_post_hook(self, hook):
    """Calls hook with a GradEvent after the op that made self ran backward; it may return other gradients."""
    return _core._register_node_post_hook(self, hook)


# ---- Python's protocols ----

@_method
def __array__(self, dtype=None, copy=None):
    array = self.numpy()
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError("another dtype needs a copy, which copy=False forbids")
        return array.astype(dtype)
    return array.copy() if copy else array


Tensor.__array_priority__ = 1000


@_method
def __contains__(self, value):
    return bool((self == value).any())


@_method
def __complex__(self):
    return complex(self.item())


@_method
def __reversed__(self):
    return self[::-1].clone() if self.ndim else self


@_method
def __format__(self, spec):
    return format(self.item(), spec) if spec and self.numel() == 1 else format(repr(self), spec)


def _rebuild(kind, data, dtype, shape, requires_grad, attributes):
    flat = _ops["empty"](len(data), dtype=_core.uint8)
    if len(data):
        memoryview(flat)[:] = data
    tensor = flat._view_as_dtype(dtype).reshape(shape) if shape else flat._view_as_dtype(dtype).reshape(())
    if kind is not Tensor:
        tensor = kind(tensor)
        tensor.__dict__.update(attributes)
    return tensor.requires_grad_(requires_grad) if dtype.is_floating_point or dtype.is_complex else tensor


@_method
def __reduce_ex__(self, protocol):
    flat = self.detach().to("cpu").contiguous().reshape(-1)
    data = bytes(memoryview(flat._view_as_dtype(_core.uint8))) if flat.numel() else b""
    return _rebuild, (type(self), data, self.dtype, tuple(self.shape), self.requires_grad, getattr(self, "__dict__", {}))


@_method
def __deepcopy__(self, memo):
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise ValueError("only leaves are deep-copied: detach() first")
    copy = self.detach().clone()
    if type(self) is not Tensor:
        copy = type(self)(copy)
        copy.__dict__.update(self.__dict__)
    copy.requires_grad_(self.requires_grad)
    if self.grad is not None:
        copy.grad = self.grad.detach().clone()
    memo[id(self)] = copy
    return copy


@_method
def to_device(self, device, /, *, stream=None):
    """self on another device, by the array API's name."""
    if stream is not None:
        raise NotImplementedError("to_device(): argument 'stream' is there with its default alone")
    return self.to(device)


@_method
def __array_namespace__(self, *, api_version=None):
    from weft import array_api

    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"__array_namespace__(): api_version {api_version!r} is not known")
    return array_api


from weft import _graph_nodes, _numpy, _own_memory, _tensor_facts  # noqa: E402, F401
