"""torch.utils and torch.utils.hooks."""

from weft._core import HookHandle as RemovableHandle
from weft._own_memory import swap_tensors

__all__ = ["RemovableHandle", "deterministic", "generate_methods_for_privateuse1_backend", "set_module", "swap_tensors",
           "unserializable_hook"]


def unserializable_hook(f):
    return f


def set_module(obj, mod):
    """Sets the name of the module that an object says it is of."""
    obj.__module__ = mod


class deterministic:
    fill_uninitialized_memory = True


def generate_methods_for_privateuse1_backend(*_, **__):
    raise NotImplementedError("another device is a plug-in of Weft: weft.load_device_plugin")
