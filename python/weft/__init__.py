"""Weft: an eager tensor library with autograd.

Names, argument order and keywords follow PyTorch where it has the op. Missing functions raise AttributeError; missing
cases of an existing op raise NotImplementedError.
"""

import os as _os

from weft import _core

_core._pass_over_files_in(_os.path.join(__path__[0], ""))

from weft._core import (  # noqa: E402, F401
    AutogradError, CapturedStep, DeviceError, DTypeError, Error, Event, FormatError, GradEvent, Generator, HookHandle, KvCache,
    LayeredKvCache, MultiTransformerLayer, NonFiniteError, OutOfMemoryError, PagedKvCache, ShapeError, Stream,
    Tensor, __version__, alibi_slopes, attention_backends, capture, config, current_stream, default_stream, device,
    device_count, dtype, empty_cache, fused_multi_transformer, get_default_dtype, get_num_threads, get_rng_state,
    initial_seed, live_tensors, load_device_plugin, manual_seed, memory_stats, promote_types, set_default_dtype,
    set_memory_limit, set_num_threads, set_rng_state, stream, synchronize)
from weft._modes import (  # noqa: E402, F401
    are_deterministic_algorithms_enabled, autocast, check_indices, enable_grad, get_autocast_dtype,
    get_deterministic_debug_mode, inference_mode, is_autocast_enabled, is_deterministic_algorithms_warn_only_enabled, is_grad_enabled,
    is_inference_mode_enabled, no_grad, set_deterministic_debug_mode, set_grad_enabled, set_tf32, tf32, tf32_state,
    use_deterministic_algorithms)

for _name, _object in vars(_core).items():
    if isinstance(_object, dtype):
        globals()[_name] = _object

# Every op of the library, by its name.
for _name, _object in _core._ops.items():
    if not _name.startswith("_"):
        globals()[_name] = _object
    if _name.startswith("foreach_"):
        globals()["_" + _name] = _object  # PyTorch's name
for _clamp, _same in (("clamp_min", "maximum"), ("clamp_max", "minimum")):
    globals()["_foreach_" + _clamp] = globals()["_foreach_" + _same]

from math import e, inf, nan, pi  # noqa: E402, F401

newaxis = None

from weft._functions import *  # noqa: E402, F401, F403
from weft._functions import _operators  # noqa: E402, F401
from weft._compositions import *  # noqa: E402, F401, F403
from weft import _methods, _own_memory, _tensor_facts, _tensor_members  # noqa: E402, F401
from weft._own_memory import Size, TypedStorage, UntypedStorage  # noqa: E402, F401
from weft._files import load, load_file, load_npy, load_npz, load_pt, save, save_file, save_npy, save_npz  # noqa: E402, F401

from weft._accelerator import Accelerator as _Accelerator  # noqa: E402

globals().update(_tensor_facts.functions)
globals().update(_own_memory.functions)
cuda, hpu = _Accelerator("cuda"), _Accelerator("hpu")

del _name, _object


_modules = ("amp", "array_api", "autograd", "data", "distributed", "distributions", "errors", "fft", "func", "generation", "hooks", "io",
            "library", "linalg", "lora", "nn", "ops", "optim", "sparse", "special", "testing", "torch", "train", "utils")


_tools = ("BreakOn", "StepRecorder", "replay", "replay_step")


def __getattr__(name):
    # Imported on first access, so that `import weft` is fast.
    if name in _modules:
        import importlib

        return importlib.import_module(f"weft.{name}")
    if name in _tools:
        from weft import hooks

        return getattr(hooks, name)
    raise AttributeError(f"module 'weft' has no attribute '{name}'")


def __dir__():
    return {*globals(), *_modules, *_tools}
