"""Modules of `torch.nn` that are other names, or wrappers without an effect on one device."""

import weft
from weft import nn
from weft.nn.module import Buffer, Module, Parameter  # noqa: F401
from weft.torch._losses import classes

__all__ = ["Container", "CrossMapLRN2d", "DataParallel", "NLLLoss2d", "NonDynamicallyQuantizableLinear", "UninitializedBuffer",
           "UninitializedParameter"]

globals().update(classes)
__all__ += classes
NLLLoss2d, NonDynamicallyQuantizableLinear = classes["NLLLoss"], nn.Linear


class _Uninitialized(type):
    """The type of parameters or buffers without elements, which a lazy module has until its first call."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, cls._kind) and tuple(instance.shape) == (0,)

    def __call__(cls, requires_grad=True, device=None, dtype=None):
        empty = weft.empty(0, device=device, dtype=dtype)
        return Parameter(empty, requires_grad) if cls._kind is Parameter else Buffer(empty)


class UninitializedParameter(metaclass=_Uninitialized):
    """A parameter whose shape the first call gives."""

    _kind = Parameter


class UninitializedBuffer(metaclass=_Uninitialized):
    """A buffer whose shape the first call gives."""

    _kind = weft.Tensor


CrossMapLRN2d = nn.LocalResponseNorm


class Container(Module):
    """Modules by keyword."""

    def __init__(self, **modules):
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)


class DataParallel(Module):
    """A module under the name `module`, which runs on one device: replicas on several devices are ranks in Weft
    (weft.distributed)."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module, self.device_ids, self.output_device, self.dim = module, list(device_ids or []), output_device, dim

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """module(*inputs) on one device."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*inputs, **(module_kwargs or {}))


