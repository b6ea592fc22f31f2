"""Sizes, storages and print options of tensors, and the methods that give a tensor other memory."""

import contextlib
import math
from numbers import Integral

from weft import _core, _methods
from weft._core import DTypeError, Size, Tensor
from weft._methods import _method


# ---- sizes: a class in C++, whose methods are here ----

def _size_method(function):
    setattr(Size, function.__name__, function)
    function.__qualname__ = f"Size.{function.__name__}"
    function.__module__ = "weft"


@_size_method
def __new__(cls, sizes=()):
    made = tuple.__new__(cls, sizes)
    for i, n in enumerate(made):
        if not isinstance(n, Integral):
            raise TypeError(f"torch.Size() takes an iterable of 'int' (item {i} is '{type(n).__name__}')")
    return made


@_size_method
def numel(self):
    """The number of elements: the product of the sizes."""
    return math.prod(self)


@_size_method
def __repr__(self):
    return f"torch.Size({list(self)})" if _methods.type_prefix == "torch" else tuple.__repr__(self)


@_size_method
def __add__(self, other):
    return Size(tuple(self) + other) if isinstance(other, tuple) else NotImplemented


@_size_method
def __radd__(self, other):
    return Size(other + tuple(self)) if isinstance(other, tuple) else NotImplemented


@_size_method
def __mul__(self, count):
    return Size(tuple(self) * count)


@_size_method
def __rmul__(self, count):
    return Size(tuple(self) * count)


@_size_method
def __reduce__(self):
    return Size, (tuple(self),)


# ---- storages ----

class UntypedStorage:
    """The bytes of a storage, which tensors share."""

    def __init__(self, bytes):
        self._bytes = bytes

    device = property(lambda self: self._bytes.device)

    def nbytes(self):
        """The number of bytes."""
        return self._bytes.numel()

    size = __len__ = nbytes

    def data_ptr(self):
        """The address of the first byte."""
        return self._bytes.data_ptr()

    def element_size(self):
        """1."""
        return 1

    def tolist(self):
        """The bytes as integers."""
        return self._bytes.tolist()

    def __getitem__(self, index):
        found = self._bytes[index]
        return UntypedStorage(found) if isinstance(index, slice) else found.item()

    def __setitem__(self, index, value):
        self._bytes[index] = value._bytes if isinstance(value, UntypedStorage) else value

    def __iter__(self):
        return iter(self.tolist())

    def fill_(self, value):
        """Writes one value to all bytes."""
        self._bytes.fill_(value)
        return self

    def copy_(self, source, non_blocking=False):
        """Writes the bytes of another storage of this size."""
        self._bytes.copy_(source._bytes)
        return self

    def clone(self):
        """A copy."""
        return UntypedStorage(self._bytes.clone())

    def is_shared(self):
        """Whether other processes can open the memory."""
        return self._bytes.is_shared()

    def __repr__(self):
        numbers = "\n".join(f" {n}" for n in self.tolist())
        return f"{numbers}\n[{_methods.type_prefix}.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"


class TypedStorage:
    """The elements of a storage, which tensors share."""

    def __init__(self, bytes, dtype):
        self._storage, self.dtype = UntypedStorage(bytes), dtype
        whole = bytes[:bytes.numel() // dtype.itemsize * dtype.itemsize]
        self._elements = whole._view_as_dtype(dtype)

    device = property(lambda self: self._storage.device)

    def untyped(self):
        """The bytes."""
        return self._storage

    def nbytes(self):
        """The number of bytes."""
        return self._storage.nbytes()

    def size(self):
        """The number of elements."""
        return self._elements.numel()

    __len__ = size

    def data_ptr(self):
        """The address of the first element."""
        return self._storage.data_ptr()

    def element_size(self):
        """Bytes of one element."""
        return self.dtype.itemsize

    def tolist(self):
        """The elements as Python numbers."""
        return self._elements.tolist()

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self._elements[index].item()

    def __setitem__(self, index, value):
        self._elements[index] = value._elements if isinstance(value, TypedStorage) else value

    def __iter__(self):
        return iter(self.tolist())

    def fill_(self, value):
        """Writes one value to all elements."""
        self._elements.fill_(value)
        return self

    def is_shared(self):
        """Whether other processes can open the memory."""
        return self._storage.is_shared()

    def __repr__(self):
        numbers = "\n".join(f" {n}" for n in self.tolist())
        return f"{numbers}\n[{_methods.type_prefix}.storage.TypedStorage(dtype={self.dtype!r}, device={self.device}) of size {len(self)}]"


# ---- methods of Tensor ----

@_method
def untyped_storage(self):
    """The bytes of the storage."""
    return UntypedStorage(_core._storage(self))


@_method
def storage(self):
    """The elements of the storage, of self's dtype."""
    return TypedStorage(_core._storage(self), self.dtype)


@_method
def resize_(self, *sizes, memory_format=None):
    """Makes self contiguous with these sizes. Elements that the storage has already keep their values; a larger storage is
    new memory, and earlier views keep the old one."""
    sizes = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], Integral) else sizes
    _core._resize(self, [int(n) for n in sizes])
    return self


@_method
def resize_as_(self, the_template, memory_format=None):
    """resize_ to the sizes of another tensor."""
    return self.resize_(the_template.shape)


@_method
def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Shares the memory of a tensor or a storage, with its sizes and strides or these; an empty tensor without source."""
    _core._set(self, _source_of(self, source, storage_offset, size, stride))
    return self


def _source_of(tensor, source, storage_offset, size, stride):
    """The memory that set_ names, as a tensor."""
    if source is None:
        return tensor.detach().new_empty(0)
    if isinstance(source, (UntypedStorage, TypedStorage)):
        if isinstance(source, TypedStorage) and source.dtype is not tensor.dtype:
            raise DTypeError(f"set_(): source: expected {tensor.dtype.name}, got {source.dtype.name}")
        untyped = source if isinstance(source, UntypedStorage) else source.untyped()
        source = TypedStorage(untyped._bytes, tensor.dtype)._elements
        size = (source.numel() - storage_offset,) if size is None else size
    if not isinstance(source, Tensor):
        raise TypeError(f"set_(): source: expected a Tensor or a storage, got {type(source).__name__}")
    if size is None:
        return source
    size = (size,) if isinstance(size, Integral) else tuple(size)
    if stride is None:
        stride = tuple(math.prod(max(n, 1) for n in size[d + 1:]) for d in range(len(size)))
    return source.as_strided(size, (stride,) if isinstance(stride, Integral) else tuple(stride), storage_offset)


@_method
def share_memory_(self):
    """Moves the elements into memory that other processes can open."""
    self.data = _core._share_memory(self.detach())
    return self


@_method
def is_shared(self):
    """Whether other processes can open the memory; always on a GPU."""
    return self.device.type == "cuda" or _core._is_shared(self)


_core_data = Tensor.__dict__["data"]


def _set_data(self, value):
    if not isinstance(value, Tensor):
        raise TypeError(f"data: expected a Tensor, got {type(value).__name__}")
    _core._set_data(self, value)


Tensor.data = property(_core_data.__get__, _set_data,
                       doc="The elements outside the graph. Assigning shares the memory of another tensor, of any shape.")
Tensor.retains_grad = property(_core._retains_grad, doc="Whether this result keeps its gradient in .grad.")
Tensor._base = property(_core._base, doc="The tensor that this one is a view of, or None.")


def swap_tensors(t1, t2):
    """Exchanges two tensors: each object has the elements, gradient and attributes of the other from now on."""
    if t1 is t2:
        return
    for tensor in (t1, t2):
        if not tensor.is_leaf:
            raise RuntimeError("swap_tensors(): expected leaves, got the result of a recorded op")
    first, second = (t.detach() for t in (t1, t2))
    kept = [(t.requires_grad, t.grad, dict(getattr(t, "__dict__", {}))) for t in (t1, t2)]
    for tensor, data, (needs, grad, attributes) in ((t1, second, kept[1]), (t2, first, kept[0])):
        tensor.requires_grad_(False)
        tensor.data = data
        if needs:
            tensor.requires_grad_()
            tensor.grad = grad
        if hasattr(tensor, "__dict__"):
            tensor.__dict__.clear()
            tensor.__dict__.update(attributes)


# ---- printing ----

_PROFILES = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, math.inf, 3, 80)}
_NAMES = ("precision", "threshold", "edgeitems", "linewidth")


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """Sets how tensors are printed: digits after the point, the number of elements from which a tensor is summarised, the
    elements at each end of a summary, the length of a line, and whether floats have an exponent (chosen if omitted)."""
    if profile is not None and profile not in _PROFILES:
        raise ValueError(f"set_printoptions(): profile: expected 'default', 'short' or 'full', got {profile!r}")
    now = get_printoptions() if profile is None else dict(zip(_NAMES, _PROFILES[profile]))
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    chosen = [int(min(given[name] if given[name] is not None else now[name], 2**63 - 1)) for name in _NAMES]
    _core._set_print_options(*chosen, sci_mode)


def get_printoptions():
    """The options of set_printoptions."""
    return _core._print_options()


@contextlib.contextmanager
def printoptions(**options):
    """set_printoptions inside a with statement."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


def use_pytorch_forms(on=True):
    """Prints types, sizes, dtypes and gradient functions as PyTorch does, and takes uint8 tensors as masks in indices."""
    _methods.type_prefix = "torch" if on else "weft"
    _core._use_pytorch_forms(on)


functions = {f.__name__: f for f in (set_printoptions, get_printoptions, printoptions)}
