"""Subclasses of torch.Tensor: __torch_function__ computes ops with their tensors, and by default results are of the subclass."""

import functools

import weft
from weft import _core

Tensor = weft.Tensor


class DisableTorchFunctionSubclass:
    """In a `with` block ops take tensors of subclasses as plain ones."""

    def __enter__(self):
        self._before = _core._compute_for_subclass(True)
        return self

    def __exit__(self, *_):
        _core._compute_for_subclass(self._before)


def converted(result, cls):
    """A result, or the tensors in a tuple or list of them, as tensors of the subclass."""
    if type(result) is Tensor:
        return result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        items = [converted(item, cls) for item in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return result


def default_function(cls, func, types, args=(), kwargs=None):
    """The __torch_function__ of a subclass without its own: the result of func as a tensor of the subclass."""
    if not all(issubclass(cls, other) for other in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    return result if func in _not_converted else converted(result, cls)


def disabled_function(func, types, args=(), kwargs=None):
    """A __torch_function__ that leaves results plain tensors."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def overriding(arguments):
    """The arguments whose classes have a __torch_function__, one of each class, subclasses first."""
    found = []
    for argument in arguments:
        kind = type(argument)
        if not has_own(argument) or any(type(other) is kind for other in found):
            continue
        place = next((i for i, other in enumerate(found) if issubclass(kind, type(other))), len(found))
        found.insert(place, argument)
    return found


def has_own(argument):
    function = getattr(type(argument), "__torch_function__", None)
    return function is not None and function is not disabled_function and type(argument) not in (Tensor, weft.nn.Parameter)


def _flat(arguments):
    for argument in arguments:
        yield argument
        if isinstance(argument, (tuple, list)):
            yield from argument


def handed_over(func, relevant, args, kwargs):
    """The result of the first __torch_function__ of the arguments that has one for func."""
    arguments = overriding(relevant)
    types = tuple(type(argument) for argument in arguments)
    for argument in arguments:
        result = type(argument).__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(f"no implementation found for '{getattr(func, '__name__', func)}' on types that implement "
                    f"__torch_function__: {[kind.__name__ for kind in types]}")


def _compute(op, args, kwargs):
    """Called by ops with a tensor of a subclass among their arguments."""
    return handed_over(op, _flat((*args, *kwargs.values())), args, kwargs)


class Overridable(Tensor):
    """The base of subclasses of torch.Tensor."""

    __torch_function__ = classmethod(default_function)
    __weft_function__ = _compute

    def __init_subclass__(cls, **options):
        _core._let_subclasses_compute()
        super().__init_subclass__(**options)


def _dispatched(function):
    @functools.wraps(function)
    def method(self, *args, **kwargs):
        if computes_plainly():
            return function(self, *args, **kwargs)
        return handed_over(function, _flat((self, *args)), (self, *args), kwargs)

    return method


def computes_plainly():
    """Whether the thread is inside DisableTorchFunctionSubclass."""
    before = _core._compute_for_subclass(True)
    _core._compute_for_subclass(before)
    return before


_plain = ("__hash__ __repr__ __len__ __bool__ __int__ __float__ __index__ __iter__ __delitem__ __dlpack__ __dlpack_device__ "
          "_impl item tolist numpy stride size dim numel element_size data_ptr storage_offset is_floating_point is_complex "
          "ndimension nelement const_data_ptr").split()
_views = ("T", "mT", "H", "mH", "real", "imag", "data", "grad")
_not_converted: set = set()

for _name, _member in list(vars(Tensor).items()):
    if type(_member).__name__ in ("wrapper_descriptor", "method_descriptor") and _name not in _plain:
        setattr(Overridable, _name, _dispatched(_member))
for _name in _views:
    _getter = vars(Tensor)[_name]
    setattr(Overridable, _name, property(_dispatched(_getter.__get__) if hasattr(_getter, "__name__") else
                                         _dispatched(_getter.fget), getattr(_getter, "__set__", None), doc=_getter.__doc__))
Overridable.__hash__ = Tensor.__hash__


# ---- torch.overrides ----

def has_torch_function(relevant_args):
    """Whether one of the arguments has a __torch_function__ of its own."""
    return not computes_plainly() and any(map(has_own, relevant_args))


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """The result of the arguments' __torch_function__ for a function written in Python."""
    return handed_over(public_api, relevant_args, args, kwargs)


def is_tensor_like(inp):
    """Whether it is a tensor or has a __torch_function__."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def get_overridable_functions():
    """The functions that __torch_function__ gets, by the object that has them."""
    return {weft: [op for op in _core._ops.values()], Tensor: [m for m in vars(Tensor).values() if callable(m)]}


def get_ignored_functions():
    """Functions that __torch_function__ never gets."""
    return {weft.empty, weft.zeros, weft.ones, weft.full, weft.arange, weft.rand, weft.randn, weft.tensor, weft.is_tensor}


def is_tensor_method_or_property(func):
    """Whether it is a method or the getter of a property of tensors."""
    return func in list(vars(Tensor).values()) or getattr(func, "__name__", "") == "__get__"


def resolve_name(f):
    """torch.add for the function of that name."""
    name = getattr(f, "__name__", None)
    return None if name is None else f"torch.{'Tensor.' * (not hasattr(weft, name))}{name}"


def wrap_torch_function(dispatcher):
    """Makes a function of Python overridable; dispatcher gives its relevant arguments."""
    def wrapped(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(call, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return call

    return wrapped


def enable_reentrant_dispatch():
    raise NotImplementedError("enable_reentrant_dispatch() is missing on Weft: a __torch_function__ may call ops as it is")


def has_torch_function_unary(argument):
    """has_torch_function of one argument."""
    return has_torch_function((argument,))


def has_torch_function_variadic(*arguments):
    """has_torch_function of all arguments."""
    return has_torch_function(arguments)


__all__ = ["DisableTorchFunctionSubclass", "enable_reentrant_dispatch", "get_ignored_functions", "get_overridable_functions",
           "handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic",
           "is_tensor_like", "is_tensor_method_or_property", "resolve_name", "wrap_torch_function"]
