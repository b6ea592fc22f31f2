"""Functions of `torch` itself that Weft has under another name, or that change nothing on it."""

import random

import weft
from weft import _core
from weft.torch._amp import autocast  # noqa: F401
from weft.torch._serialization import load, save  # noqa: F401
from weft.torch._sparse import sparse_coo_tensor, sparse_csr_tensor, spmm  # noqa: F401

Size = weft.Size
legacy_contiguous_format = weft.contiguous_format
__all__ = ["Size", "autocast", "legacy_contiguous_format", "load", "save",
           "sparse_coo_tensor", "sparse_csr_tensor", "spmm"]


def _public(function):
    __all__.append(function.__name__)
    return function


def _without_effect(names, result=None):
    for name in names.split():
        def apply(*_, **__):
            return result

        apply.__name__, apply.__doc__ = name, "Nothing: a setting of PyTorch's own machinery."
        globals()[name] = apply
        __all__.append(name)


_without_effect("set_printoptions set_warn_always set_num_interop_threads set_autocast_enabled set_autocast_cpu_enabled "
                "set_autocast_gpu_dtype set_autocast_cpu_dtype set_autocast_cache_enabled clear_autocast_cache "
                "set_anomaly_enabled _assert_async")
_without_effect("is_vulkan_available is_warn_always_enabled is_distributed is_inference is_anomaly_enabled "
                "is_autocast_cpu_enabled", False)
_without_effect("get_num_interop_threads", 1)


@_public
def set_flush_denormal(mode):
    """False: denormal numbers are computed."""
    return False


_precision = ["highest"]


@_public
def set_float32_matmul_precision(precision):
    """TF32 of CUDA's float32 products for 'high' and 'medium'."""
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"set_float32_matmul_precision(): argument 'precision': expected 'highest', 'high' or 'medium', got {precision!r}")
    _precision[0] = precision
    weft.set_tf32(precision != "highest")


@_public
def get_float32_matmul_precision():
    return _precision[0]


@_public
def compile(model=None, **_):
    """The function or module as it is; weft.capture records and replays whole steps."""
    return (lambda given: given) if model is None else model


@_public
def manual_seed(seed):
    """Seeds the default generator of every device; returns a generator with the same seed."""
    seed = int(seed) % 2**64
    weft.manual_seed(seed)
    return _core.Generator().manual_seed(seed)


@_public
def seed():
    """Seeds the generators by chance; returns the seed."""
    chosen = random.SystemRandom().getrandbits(63)
    weft.manual_seed(chosen)
    return chosen




@_public
def set_default_device(device):
    """The CPU alone is a default device."""
    if device is not None and _core.device(device).type != "cpu":
        raise NotImplementedError("set_default_device(): name the device where tensors are made")


@_public
def get_default_device():
    return _core.device("cpu")


@_public
def get_device_module(device=None):
    """torch.cuda, torch.cpu, ..."""
    import weft.torch

    return getattr(weft.torch, "cpu" if device is None else _core.device(device).type)


@_public
def is_storage(obj):
    return isinstance(obj, weft.UntypedStorage)


@_public
def is_nonzero(input):
    """Whether the only element is not 0."""
    return bool(input)


@_public
def typename(obj):
    """The name of an object's type; of a tensor the one that type() gives."""
    if isinstance(obj, weft.Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


@_public
def _assert(condition, message):
    assert condition, message


@_public
def _check(cond, message=None):
    if not cond:
        raise RuntimeError("Expected cond to be True" if message is None else message())


@_public
def is_grad_enabled():
    return weft.is_grad_enabled()



@_public
def get_autocast_gpu_dtype():
    return weft.get_autocast_dtype("cuda")


@_public
def is_autocast_enabled(device_type="cuda"):
    return device_type in ("cpu", "cuda", "hpu") and weft.is_autocast_enabled(device_type)
