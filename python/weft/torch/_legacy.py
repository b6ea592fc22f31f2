"""Forms of early PyTorch: Variable, the tensor types, and torch.Tensor as a constructor of sizes."""

import numbers

import weft
from weft import _core, _methods, _own_memory

__all__ = ["Tensor", "Variable", "set_default_tensor_type"]

_plain = type(weft.Tensor)


def _is_size(value):
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _made(dtype, device, arguments):
    """A tensor of sizes, or of data converted to the dtype."""
    if all(_is_size(a) for a in arguments):
        return weft.empty([int(a) for a in arguments] or (0,), dtype=dtype, device=device)
    if len(arguments) > 1:
        raise TypeError(f"arguments of a tensor type: expected sizes or one argument with data, got {len(arguments)}")
    data, = arguments
    if isinstance(data, weft.Size):
        return weft.empty(data, dtype=dtype, device=device)
    if type(data) is tuple and data and all(map(_is_size, data)):
        raise TypeError(f"a tensor type of the tuple {data}: write torch.empty{data} for sizes, or a list for elements")
    if isinstance(data, weft.Tensor):
        return data.detach().to(device=device, dtype=dtype)
    return weft.tensor(data).to(device=device, dtype=dtype)


class _TensorType(type):
    """A tensor type of PyTorch's: a call makes a tensor, isinstance looks at dtype and device, attributes are those of
    weft.Tensor, and a subclass derives from weft.Tensor."""

    def __new__(meta, name, bases, members, **options):
        if any(isinstance(base, meta) for base in bases):
            from weft.torch._subclasses import Overridable

            return _plain(name, tuple(Overridable if isinstance(base, meta) else base for base in bases), members, **options)
        return super().__new__(meta, name, bases, members, **options)

    def __init__(cls, name, bases, members, **options):
        super().__init__(name, bases, members)

    def __call__(cls, *arguments, device=None, dtype=None, requires_grad=False):
        made = _made(dtype or cls._dtype or weft.get_default_dtype(), device or cls._device or "cpu", arguments)
        return made.requires_grad_() if requires_grad else made

    def __instancecheck__(cls, instance):
        if not isinstance(instance, weft.Tensor) or cls._dtype is None:
            return isinstance(instance, weft.Tensor)
        return instance.dtype is cls._dtype and instance.device.type == (cls._device or "cpu")

    def __subclasscheck__(cls, subclass):
        return subclass is cls or cls._dtype is None and (subclass is weft.Tensor or weft.Tensor in subclass.__mro__)

    def __getattr__(cls, name):
        return getattr(weft.Tensor, name)

    def __setattr__(cls, name, value):
        setattr(weft.Tensor, name, value)

    def __repr__(cls):
        return f"<class 'torch.{cls.__name__}'>"

    def __eq__(cls, other):
        return cls is other or cls._dtype is None and other is weft.Tensor

    def __hash__(cls):
        return hash(weft.Tensor) if cls._dtype is None else type.__hash__(cls)


def _tensor_type(name, dtype, device=None):
    return _TensorType(name, (), {"_dtype": dtype, "_device": device, "__module__": "torch",
                                  "__doc__": "A tensor type of early PyTorch; weft.Tensor is the class of all tensors."})


Tensor = _tensor_type("Tensor", None)
_KINDS = {kind: getattr(_core, dtype) for dtype, kind in _methods._kinds.items() if hasattr(_core, dtype)}
for _kind, _dtype in _KINDS.items():
    globals()[f"{_kind}Tensor"] = _tensor_type(f"{_kind}Tensor", _dtype)
    __all__.append(f"{_kind}Tensor")


def Variable(data=None, requires_grad=False, volatile=None):
    """The tensor itself, outside of its graph: tensors have been variables since PyTorch 0.4."""
    made = weft.empty(0) if data is None else data.detach()
    return made.requires_grad_() if requires_grad else made


class _VariableType(_TensorType):
    def __call__(cls, data=None, requires_grad=False, volatile=None):
        return _variable(data, requires_grad)


_variable = Variable
Variable = _VariableType("Variable", (), {"_dtype": None, "_device": None, "__module__": "torch.autograd",  # noqa: F811
                                          "__doc__": _variable.__doc__})


def set_default_tensor_type(t):
    """set_default_dtype by the name or class of a tensor type."""
    kind = t if isinstance(t, str) else t.__name__
    dtype = _KINDS.get(kind.rsplit(".", 1)[-1].removesuffix("Tensor"))
    if dtype is None:
        raise TypeError(f"set_default_tensor_type(): there is no tensor type {t!r}")
    weft.set_default_dtype(dtype)


# ---- methods that PyTorch alone has so, while `import torch` means Weft ----

def _with_number_first(name, keyword, count):
    """The method with the form of early PyTorch, which has the factor `keyword` before its `count` tensors, as in
    p.add_(-lr, gradient)."""
    method = getattr(weft.Tensor, name)

    def apply(self, *args, **options):
        if len(args) == count + 1 and not isinstance(args[0], weft.Tensor):
            return method(self, *args[1:], **{keyword: args[0]})
        return method(self, *args, **options)

    apply.__name__, apply.__doc__ = name, method.__doc__
    return apply


def _with_byte_masks(name):
    """The method with uint8 tensors as masks among its indices."""
    method = getattr(weft.Tensor, name)

    def apply(self, indices, values, accumulate=False):
        masks = [i.bool() if isinstance(i, weft.Tensor) and i.dtype is weft.uint8 else i for i in indices]
        return method(self, masks, values, accumulate)

    apply.__name__, apply.__doc__ = name, method.__doc__
    return apply


_plain_methods: dict = {}


def change_methods():
    """Gives tensors PyTorch's type names and texts, and methods the forms of early PyTorch."""
    _own_memory.use_pytorch_forms()
    for name, keyword, count in (("add", "alpha", 1), ("sub", "alpha", 1), ("addcmul", "value", 2), ("addcdiv", "value", 2)):
        for full in (name, name + "_"):
            _plain_methods[full] = getattr(weft.Tensor, full)
            setattr(weft.Tensor, full, _with_number_first(full, keyword, count))
    for name in ("index_put", "index_put_"):
        _plain_methods[name] = getattr(weft.Tensor, name)
        setattr(weft.Tensor, name, _with_byte_masks(name))


def restore_methods():
    """Undoes change_methods."""
    _own_memory.use_pytorch_forms(False)
    for name, method in _plain_methods.items():
        setattr(weft.Tensor, name, method)
    _plain_methods.clear()
