"""torch.utils and torch.utils.hooks."""


import weft
from weft._core import HookHandle as RemovableHandle

__all__ = ["RemovableHandle", "deterministic", "generate_methods_for_privateuse1_backend", "set_module", "swap_tensors",
           "unserializable_hook"]


def unserializable_hook(f):
    return f


def set_module(obj, mod):
    """Sets the name of the module that an object says it is of."""
    obj.__module__ = mod




class deterministic:
    fill_uninitialized_memory = True


def swap_tensors(t1, t2):
    """Exchanges the elements of two tensors of one shape and dtype."""
    with weft.no_grad():
        first = t1.clone()
        t1.copy_(t2)
        t2.copy_(first)


def generate_methods_for_privateuse1_backend(*_, **__):
    raise NotImplementedError("another device is a plug-in of Weft: weft.load_device_plugin")
