"""Parameters that are computed from others at each use: weft.nn.utils.parametrize, over nn/parametrize.hpp."""

from weft import _core
from weft.nn.containers import ModuleDict, ModuleList

__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
           "type_before_parametrizations"]


def _of_cpp(cls, name, layer):
    """A Python object over a module that C++ made."""
    made = cls.__new__(cls)
    made._start(_core._Module(name, layer))
    return made


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and the tensors that it is computed from: `original`, or `original0` and so on
    where the first one takes several."""

    def forward(self):
        """The tensor as it is now."""
        module, name = self._owner
        return getattr(module, name)

    def right_inverse(self, value):
        """Gives the originals the values from which `value` is computed; assigning to the tensor does this."""
        setattr(*self._owner, value)


class cached:
    """While it is entered each parametrized tensor is computed once on this thread, and again only where an original was
    written."""

    def __enter__(self):
        self._cache = _core._ParametrizationsCache()
        self._cache.enter()
        return self

    def __exit__(self, *_):
        self._cache.leave()


def is_parametrized(module, tensor_name=None):
    """Whether the module, or its tensor of that name, is parametrized."""
    return _core._is_parametrized(module, tensor_name or "")


def type_before_parametrizations(module):
    """The class of a module, which parametrizations do not change here."""
    return type(module)


def _faced(module, name, tensor):
    """Gives the list of the tensor `name` its Python object; `tensor` is the one that stood there before."""
    lists = module._modules["parametrizations"]
    if not isinstance(lists, ModuleDict):
        lists = _of_cpp(ModuleDict, "ModuleDict", _core._child_layer(module, "parametrizations"))
        module._state.set_module("parametrizations", lists)
    made = _of_cpp(ParametrizationList, "ParametrizationList", _core._child_layer(lists, name))
    object.__setattr__(made, "_owner", (module, name))
    lists._state.set_module(name, made)
    for original, present in [*made._parameters.items(), *made._buffers.items()]:
        if present._impl() == tensor._impl():
            _put_face(made, original, tensor)
    return made


def _put_face(module, name, tensor):
    """The Python object of a tensor that the module holds under this name."""
    if module._state.kind_of(name) == "parameter":
        module._state.set_parameter(name, tensor)
    else:
        module._state.set_buffer(name, tensor, module._state.is_saved(name))


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """From now on `module.tensor_name` is parametrization(original), computed at each use; several are applied one after
    the other. Where it has a right_inverse, that gives the originals; assigning to `module.tensor_name` uses it, too.
    ValueError where there is no such tensor, or, unless `unsafe`, where the shape or dtype changes."""
    tensor = module._parameters.get(tensor_name)
    tensor = module._buffers.get(tensor_name) if tensor is None else tensor
    _core._register_parametrization(module, tensor_name, parametrization, unsafe)
    if tensor is None:
        held = module._modules["parametrizations"]._modules[tensor_name]
    else:
        held = _faced(module, tensor_name, tensor)
    held._state.set_module(str(len(held) - 1), parametrization)
    return module


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """The tensor is a plain one again, with its present value, or its original's."""
    lists = module._modules.get("parametrizations")
    held = None if lists is None else lists._modules.get(tensor_name)
    originals = [] if held is None else [*held._parameters.values(), *held._buffers.values()]
    _core._remove_parametrizations(module, tensor_name, leave_parametrized)
    _core._forget_face(lists, tensor_name)
    present = getattr(module, tensor_name)
    for original in originals:
        if original._impl() == present._impl():
            _put_face(module, tensor_name, original)
    return module
