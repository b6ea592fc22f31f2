"""Modules of `torch.nn` that are other names, or wrappers without an effect on one device."""

from weft import nn
from weft.nn.module import Buffer, Module, Parameter  # noqa: F401
from weft.torch._losses import classes

__all__ = ["Container", "CrossMapLRN2d", "DataParallel", "NLLLoss2d", "NonDynamicallyQuantizableLinear", "UninitializedBuffer",
           "UninitializedParameter"]

globals().update(classes)
__all__ += classes
NLLLoss2d, NonDynamicallyQuantizableLinear = classes["NLLLoss"], nn.Linear
UninitializedParameter, UninitializedBuffer = Parameter, Buffer
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


