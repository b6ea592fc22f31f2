"""Parameters that are computed from others at each use: weft.nn.utils.parametrize."""

import weft
from weft._core import Tensor
from weft.nn.containers import ModuleList
from weft.nn.module import Module, Parameter

__all__ = ["ParametrizationList", "register_parametrization", "remove_parametrizations", "is_parametrized"]


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and the tensors that it is computed from: `original`, or `original0` and so on
    where the first one takes several."""

    def __init__(self, modules, original):
        first = modules[0]
        values = first.right_inverse(original) if hasattr(first, "right_inverse") else original
        super().__init__(modules)
        self.count = len(values) if isinstance(values, (tuple, list)) else 0
        named = {f"original{i}": value for i, value in enumerate(values)} if self.count else {"original": values}
        for name, value in named.items():
            if isinstance(original, Parameter):
                value = value if value is original else Parameter(value.detach(), original.requires_grad)
                self.register_parameter(name, value)
            else:
                self.register_buffer(name, value)

    def originals(self):
        return [getattr(self, f"original{i}") for i in range(self.count)] if self.count else [self.original]

    def forward(self):
        modules = list(self.children())
        value = modules[0](*self.originals())
        for module in modules[1:]:
            value = module(value)
        return value


class Parametrizations(Module):
    """The lists of a module, by the names of the tensors."""


def is_parametrized(module, tensor_name=None):
    """Whether the module, or its tensor of that name, is parametrized."""
    lists = module._modules.get("parametrizations")
    return lists is not None and (tensor_name is None or tensor_name in lists._modules)


def _with_property(module, name):
    """Gives the object a class of its own, where the name is computed."""
    cls = type(module)
    if not getattr(cls, "_is_parametrized", False):
        cls = type(f"Parametrized{cls.__name__}", (cls,), {"_is_parametrized": True, "__module__": cls.__module__})
        object.__setattr__(module, "__class__", cls)

    def get(self):
        return self._modules["parametrizations"]._modules[name]()

    def put(self, value):
        originals = self._modules["parametrizations"]._modules[name]
        values = value
        for step in reversed(list(originals.children())):
            if not hasattr(step, "right_inverse"):
                raise RuntimeError(f"'{name}' is parametrized by a {type(step).__name__} without right_inverse: it is "
                                   "not assigned")
            values = step.right_inverse(values)
        with weft.no_grad():
            for to, new in zip(originals.originals(), values if isinstance(values, (tuple, list)) else [values]):
                to.copy_(new)

    setattr(cls, name, property(get, put))


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """From now on `module.tensor_name` is parametrization(original), computed at each use; several are applied one after
    the other. Where it has a right_inverse, that gives the originals. ValueError where there is no such tensor, or, unless
    `unsafe`, where the shape or dtype changes."""
    lists = module._modules.get("parametrizations")
    if is_parametrized(module, tensor_name):
        held = lists._modules[tensor_name]
        before = getattr(module, tensor_name)
        after = parametrization(before)
        if not unsafe and (after.shape != before.shape or after.dtype != before.dtype):
            raise ValueError(f"the parametrization of '{tensor_name}' changes its shape or dtype")
        held.append(parametrization)
        return module
    original = module._parameters.get(tensor_name)
    original = module._buffers.get(tensor_name) if original is None else original
    if not isinstance(original, Tensor):
        raise ValueError(f"the module has no parameter or buffer '{tensor_name}' to parametrize")
    made = ParametrizationList([parametrization], original)
    value = made()
    if not unsafe and (value.shape != original.shape or value.dtype != original.dtype):
        raise ValueError(f"the parametrization of '{tensor_name}' changes its shape or dtype")
    if lists is None:
        module.parametrizations = lists = Parametrizations()
    made.train(module.training)
    delattr(module, tensor_name)
    lists.register_module(tensor_name, made)
    _with_property(module, tensor_name)
    return module


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """The tensor is a plain one again, with its present value, or its original's."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"'{tensor_name}' is not parametrized")
    lists = module._modules["parametrizations"]
    held = lists._modules[tensor_name]
    if not leave_parametrized and held.count:
        raise ValueError(f"'{tensor_name}' has several originals: only its present value can be left")
    was = held.originals()[0]
    value = (getattr(module, tensor_name) if leave_parametrized else was).detach().clone()
    cls = type(module)
    delattr(cls, tensor_name)
    delattr(lists, tensor_name)
    if not lists._modules:
        delattr(module, "parametrizations")
        object.__setattr__(module, "__class__", cls.__bases__[0])
    if isinstance(was, Parameter):
        module.register_parameter(tensor_name, Parameter(value, was.requires_grad))
    else:
        module.register_buffer(tensor_name, value)
    return module
