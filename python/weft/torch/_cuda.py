"""`torch.cuda`: devices of Weft's CUDA backend, and functions that change nothing on it."""

import contextlib

import weft
from weft import _core
from weft.torch import _legacy

__all__ = ["BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "CUDAGraph", "DoubleTensor", "Event", "FloatTensor",
           "HalfTensor", "IntTensor", "LongTensor", "OutOfMemoryError", "ShortTensor", "Stream", "amp", "can_device_access_peer",
           "current_blas_handle", "current_device", "default_stream", "device", "device_of", "get_arch_list",
           "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all",
           "graph", "init", "initial_seed", "ipc_collect", "is_bf16_supported", "is_current_stream_capturing",
           "is_initialized", "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_cached", "memory_stats",
           "memory_summary", "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats", "seed",
           "seed_all", "set_device", "set_per_process_memory_fraction", "set_rng_state", "set_rng_state_all", "set_stream",
           "stream", "utilization"]

Stream, Event, OutOfMemoryError = weft.Stream, weft.Event, weft.OutOfMemoryError
for _kind in ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short"):
    globals()[f"{_kind}Tensor"] = _legacy._tensor_type(f"{_kind}Tensor", _legacy._KINDS[_kind], "cuda")


def _index(device):
    if device is None:
        return 0
    return device if isinstance(device, int) else _core.device(device).index or 0


def _needs_device():
    if not weft.cuda.is_available():
        raise RuntimeError("torch.cuda: this machine has no CUDA device, or Weft was built without CUDA")


def init():
    """Nothing: devices are opened when they are first used."""


def is_initialized():
    return weft.cuda.is_available()


def current_device():
    _needs_device()
    return _current[-1]


_current = [0]


def set_device(device):
    """Device 0 alone is current: name others where tensors are made."""
    if weft.cuda.is_available() and _index(device) != 0:
        raise NotImplementedError("cuda.set_device(): name the device where tensors are made, as in device='cuda:1'")


class device:
    """The device of a `with` statement, which must be 0 or none."""

    def __init__(self, device):
        self.idx = _index(device)

    def __enter__(self):
        set_device(self.idx)
        return self

    def __exit__(self, *_):
        pass


class device_of(device):
    """The device of a tensor."""

    def __init__(self, obj):
        super().__init__(obj.device if obj.device.type == "cuda" else None)


def get_device_name(device=None):
    _needs_device()
    return f"cuda:{_index(device)}"


class _Properties:
    def __init__(self, index):
        self.name, self.major, self.minor, self.multi_processor_count = f"cuda:{index}", 0, 0, 1
        self.total_memory = memory_stats(index).get("limit", 0)


def get_device_properties(device=None):
    _needs_device()
    return _Properties(_index(device))


def get_device_capability(device=None):
    _needs_device()
    return 0, 0


def get_arch_list():
    return []


def can_device_access_peer(device, peer_device):
    return False


def is_bf16_supported(including_emulation=True):
    return weft.cuda.is_available()


def memory_stats(device=None):
    return dict(_core.memory_stats(_core.device(f"cuda:{_index(device)}"))) if weft.cuda.is_available() else {}


def max_memory_reserved(device=None):
    return memory_stats(device).get("peak_reserved", 0)


memory_cached, max_memory_cached = (lambda device=None: memory_stats(device).get("reserved", 0)), max_memory_reserved


def memory_summary(device=None, abbreviated=False):
    return "\n".join(f"{name}: {value}" for name, value in memory_stats(device).items())


def mem_get_info(device=None):
    stats = memory_stats(device)
    return stats.get("free", 0), stats.get("limit", 0)


def utilization(device=None):
    return 0


def _without_effect(name, result=None):
    def apply(*_, **__):
        return result

    apply.__name__, apply.__doc__ = name, "Nothing: for other devices than Weft's."
    return apply


for _name in ("ipc_collect", "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
              "set_per_process_memory_fraction", "set_stream"):
    globals()[_name] = _without_effect(_name)
is_current_stream_capturing = _without_effect("is_current_stream_capturing", False)
current_blas_handle = _without_effect("current_blas_handle", 0)


def default_stream(device=None):
    return _core.default_stream(_core.device(f"cuda:{_index(device)}"))


@contextlib.contextmanager
def stream(stream):
    """A stream's scope; None is none."""
    if stream is None:
        yield
    else:
        with weft.stream(stream):
            yield


class CUDAGraph:
    """Weft records steps by weft.capture."""

    def __init__(self, *_):
        raise NotImplementedError("cuda.CUDAGraph(): weft.capture(function) records and replays a step")


graph = CUDAGraph


# ---- generators: one for all devices ----

def get_rng_state(device=None):
    return weft.get_rng_state()


def set_rng_state(new_state, device=None):
    weft.set_rng_state(new_state)


def get_rng_state_all():
    return [weft.get_rng_state()]


def set_rng_state_all(new_states):
    for state in new_states:
        weft.set_rng_state(state)


initial_seed = weft.initial_seed


def seed():
    """Seeds every generator by chance."""
    from weft.torch import _top

    return _top.seed()


seed_all = seed
