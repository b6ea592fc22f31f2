"""Autocast and GradScaler of `torch.amp`, `torch.cuda.amp` and `torch.cpu.amp`."""

import functools
import warnings

import weft
from weft import amp

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def _ready(device):
    """The device itself where there is one, else the CPU, with autocast switched off there as PyTorch does."""
    return device != "cuda" or weft.cuda.is_available()


class autocast(weft.autocast):
    """weft.autocast; for a device that this machine lacks it changes nothing."""

    def __init__(self, device_type="cuda", dtype=None, enabled=True, cache_enabled=True):
        usable = device_type in ("cpu", "cuda", "hpu") and _ready(device_type)
        if enabled and not usable:
            warnings.warn(f"autocast(): there is no device '{device_type}': it is switched off", stacklevel=3)
        super().__init__(device_type if usable else "cpu", dtype, enabled and usable, cache_enabled)
        self.device = device_type


class GradScaler(amp.GradScaler):
    """weft.amp.GradScaler; without a device of that type it is switched off."""

    def __init__(self, device="cuda", init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000,
                 enabled=True):
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled and _ready(str(device)))


def is_autocast_available(device_type):
    return device_type == "cpu" or device_type == "cuda" and weft.cuda.is_available()


def custom_fwd(fwd=None, *, device_type="cuda", cast_inputs=None):
    """forward of an autograd.Function as it is; with cast_inputs without autocast and with inputs of that dtype."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args, **kwargs):
        if cast_inputs is None or not weft.is_autocast_enabled(device_type if device_type != "cuda" or _ready("cuda") else "cpu"):
            return fwd(*args, **kwargs)
        cast = [a.to(cast_inputs) if isinstance(a, weft.Tensor) and a.is_floating_point() else a for a in args]
        with weft.autocast(device_type, enabled=False):
            return fwd(*cast, **kwargs)

    return decorated


def custom_bwd(bwd=None, *, device_type="cuda"):
    """backward of an autograd.Function as it is."""
    return functools.partial(custom_bwd, device_type=device_type) if bwd is None else bwd
