"""Facts of tensors under PyTorch's names, which follow from dtype, device and memory."""

import random
from numbers import Integral

from weft import _core, _functions, _own_memory
from weft._core import Tensor, _ops
from weft._methods import _method


def _fact(name, of, document):
    setattr(Tensor, name, property(of, doc=document))


for _kind in ("cpu", "cuda", "hpu", "meta"):
    _fact(f"is_{_kind}", lambda self, kind=_kind: self.device.type == kind, f"Whether the elements are on {_kind}.")
for _name in ("is_sparse", "is_sparse_csr", "is_quantized", "is_nested", "is_mkldnn", "is_mps", "is_xpu", "is_xla", "is_ipu",
              "is_mtia", "is_maia", "is_vulkan"):
    _fact(_name, lambda self: False, "False: no tensor of Weft is of that kind.")
_fact("names", lambda self: (None,) * self.ndim, "None for each dimension: dimensions have no names.")
_fact("output_nr", lambda self: 0, "0: each tensor is the first result of its node.")

_is_row_major = Tensor.is_contiguous


def _is_channels_last(x, format):
    """Whether the channels, dimension 1, are innermost in memory."""
    rank = {"channels_last": 4, "channels_last_3d": 5}[format.name]
    return x.ndim == rank and _is_row_major(x.permute(0, *range(2, rank), 1))


@_method
def is_contiguous(self, memory_format=None):
    """Whether the elements are row-major without gaps, or in the order of memory_format."""
    if memory_format is None or not memory_format.name.startswith("channels_last"):
        return _is_row_major(self)
    return _is_channels_last(self, memory_format)


@_method
def is_signed(self):
    """Whether the dtype holds negative numbers."""
    return self.dtype.is_signed


@_method
def is_same_size(self, other):
    """Whether both have one shape."""
    return self.shape == other.shape


@_method
def is_set_to(self, tensor):
    """Whether both are one view of the same memory."""
    return (self.data_ptr(), self.shape, self.stride()) == (tensor.data_ptr(), tensor.shape, tensor.stride())


@_method
def is_nonzero(self):
    """Whether the only element is not 0."""
    return bool(self)


def _never(name, document):
    def method(self):
        return False

    method.__name__, method.__doc__ = name, document
    _method(method)


for _name in ("is_conj", "is_neg"):
    _never(_name, "False: conjugates and negatives are computed at once.")
_never("is_distributed", "False.")
_never("is_coalesced", "False: tensors are dense.")


@_method
def is_inference(self):
    """Whether the tensor was made in inference_mode; ops report it when they would record it."""
    return False


@_method
def dim_order(self):
    """The dimensions from the outermost in memory to the innermost."""
    return tuple(sorted(range(self.ndim), key=lambda d: (-self.stride(d), d)))


@_method
def new(self, *data):
    """A tensor of sizes, or of data, with self's dtype and device."""
    if all(isinstance(n, Integral) for n in data) and data:
        return self.new_empty(*data)
    if len(data) == 1 and isinstance(data[0], _own_memory.Size):
        return self.new_empty(data[0])
    return self.new_empty(0) if not data else self.new_tensor(data[0])


@_method
def new_empty_strided(self, size, stride, dtype=None, device=None, requires_grad=False):
    """empty_strided with self's dtype and device."""
    return empty_strided(size, stride, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


def empty_strided(size, stride, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A tensor with these sizes and strides and uninitialised elements."""
    reach = sum((n - 1) * step for n, step in zip(size, stride)) + 1 if all(size) else 0
    made = _ops["empty"]((reach,), dtype=dtype, device=device).as_strided(tuple(size), tuple(stride))
    return made.requires_grad_() if requires_grad else made


def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None, requires_grad=False):
    """A tensor with these sizes; in memory the dimensions have the order of physical_layout."""
    strides, step = [0] * len(size), 1
    for dim in reversed(physical_layout):
        strides[dim], step = step, step * max(size[dim], 1)
    return empty_strided(size, strides, dtype=dtype, device=device, requires_grad=requires_grad)


def scalar_tensor(s, *, dtype=None, layout=None, device=None, pin_memory=False):
    """A 0-d tensor of the number, of the default dtype unless one is given."""
    return _functions.tensor(s, dtype=dtype or _core.get_default_dtype(), device=device)


@_method
def to_sparse(self, sparse_dim=None):
    """A weft.sparse.Coo of the elements that are not 0."""
    from weft import sparse

    return sparse.to_coo(self, sparse_dim)


to_sparse_coo = to_sparse
Tensor.to_sparse_coo = to_sparse


@_method
def to_sparse_csr(self):
    """A weft.sparse.Csr of the elements that are not 0."""
    from weft import sparse

    return sparse.to_csr(self)


@_method
def to_dense(self, dtype=None, *, masked_grad=True):
    """self, which is dense."""
    return self if dtype is None else self.to(dtype)


@_method
def as_subclass(self, cls):
    """The tensor as an object of a subclass of Tensor, whose __init__ is not called."""
    return _core._as_subclass(self, cls)


@_method
def narrow_copy(self, dim, start, length):
    """narrow as a copy."""
    return self.narrow(dim, start, length).clone()


def as_strided_scatter(input, src, size, stride, storage_offset=None):
    """A copy of input with src at the elements that as_strided takes."""
    _functions._need_tensors("as_strided_scatter", input=input, src=src)
    places = _ops["arange"](input.numel(), device=input.device).as_strided(tuple(size), tuple(stride), storage_offset or 0)
    flat = _ops["index_put"](input.reshape(-1), (places.reshape(-1),), src.reshape(-1))
    return flat.reshape(input.shape)


def igamma(input, other, *, out=None):
    """special.gammainc."""
    from weft import special

    return special.gammainc(input, other, out=out)


def igammac(input, other, *, out=None):
    """special.gammaincc."""
    from weft import special

    return special.gammaincc(input, other, out=out)


Tensor.igamma, Tensor.igammac, Tensor.as_strided_scatter = igamma, igammac, as_strided_scatter
functions = {f.__name__: f for f in (empty_strided, empty_permuted, scalar_tensor, as_strided_scatter, igamma, igammac)}
for _name in ("alias", "as_strided", "detach", "diagonal", "expand", "permute", "select", "split", "split_with_sizes",
              "squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze", "view", "view_as_complex", "view_as_real"):
    def _copy(input, *args, _name=_name, out=None, **options):
        """The view of the name without _copy, as a copy."""
        _functions._need_tensors(_name + "_copy", input=input)
        result = input if _name == "alias" else getattr(Tensor, _name)(input, *args, **options)
        copies = result.clone() if isinstance(result, Tensor) else tuple(part.clone() for part in result)
        if out is None:
            return copies
        if isinstance(copies, Tensor):
            return out.resize_(copies.shape).copy_(copies)
        if len(out) != len(copies):
            raise RuntimeError(f"{_name}_copy(): argument 'out' has {len(out)} tensors for {len(copies)} results")
        return tuple(target.resize_(part.shape).copy_(part) for target, part in zip(out, copies))

    _copy.__name__ = _copy.__qualname__ = _name + "_copy"
    functions[_copy.__name__] = _copy
functions["narrow_copy"] = narrow_copy


def _seed_by_chance(self):
    """Seeds the generator by chance; returns the seed."""
    seed = random.SystemRandom().getrandbits(63)
    self.manual_seed(seed)
    return seed


_core.Generator.seed = _seed_by_chance
