"""Small modules of PyTorch as classes of functions: compilers, exporters, profilers and devices that Weft has not, or has
under another name."""

import contextlib
import platform
import time
from typing import Any, Union

import weft
from weft import _core
from weft.torch import _subclasses
from weft.torch._legacy import Tensor


def _refused(path, instead):
    def apply(*_, **__):
        raise NotImplementedError(f"{path}() is missing on Weft: {instead}")

    apply.__name__ = path.rsplit(".", 1)[-1]
    return staticmethod(apply)


def _as_it_is(obj=None, *_, **__):
    """The object itself, also as a decorator with options."""
    return (lambda given: given) if obj is None else obj


@contextlib.contextmanager
def _no_scope(*_, **__):
    yield


def _nothing(*_, **__):
    """Nothing: a setting for PyTorch's own machinery."""


class jit:
    """Functions and modules run as they are: there is no compiler of Python."""

    script = staticmethod(_as_it_is)
    script_method = staticmethod(_as_it_is)
    ignore = staticmethod(_as_it_is)
    unused = staticmethod(_as_it_is)
    export = staticmethod(_as_it_is)
    interface = staticmethod(_as_it_is)
    freeze = staticmethod(_as_it_is)
    optimize_for_inference = staticmethod(_as_it_is)
    script_if_tracing = staticmethod(_as_it_is)
    ScriptModule = weft.nn.Module
    ScriptFunction = type(lambda: None)
    Final = Any
    fuser = optimized_execution = staticmethod(_no_scope)
    enable_onednn_fusion = set_fusion_strategy = staticmethod(_nothing)
    save = _refused("torch.jit.save", "weft.save and weft.io.save_model write models")
    load = _refused("torch.jit.load", "weft.load and weft.io.load_model read models")

    @staticmethod
    def trace(func, example_inputs=None, **_):
        return func

    trace_module = trace

    @staticmethod
    def is_scripting():
        return False

    is_tracing = is_scripting

    @staticmethod
    def annotate(the_type, the_value):
        return the_value

    @staticmethod
    def isinstance(obj, target_type):
        return isinstance(obj, target_type)

    @staticmethod
    def fork(func, *args, **kwargs):
        result = func(*args, **kwargs)
        return lambda: result

    @staticmethod
    def wait(future):
        return future()


class onnx:
    """Export is missing."""

    export = _refused("torch.onnx.export", "weft.save and weft.io.save_model write models")
    dynamo_export = export

    @staticmethod
    def is_in_onnx_export():
        return False


class config:
    """Settings of a compiler that is not there."""

    suppress_errors, verbose, cache_size_limit, recompile_limit, optimize_ddp = True, False, 8, 8, False
    coordinate_descent_tuning = shape_padding = triton = fx_graph_cache = False
    log_level = None


class compiler:
    """torch.compiler and torch._dynamo: functions run as they are."""

    config = config
    disable = allow_in_graph = assume_constant_result = staticmethod(_as_it_is)
    reset = graph_break = mark_dynamic = cudagraph_mark_step_begin = set_stance = staticmethod(_nothing)

    @staticmethod
    def is_compiling():
        return False

    is_dynamo_compiling = is_exporting = is_compiling

    @staticmethod
    def list_backends(*_):
        return []

    @staticmethod
    def optimize(*_, **__):
        return _as_it_is


class nvtx:
    """Ranges for a profiler of NVIDIA's."""

    range = staticmethod(_no_scope)
    range_push = range_pop = mark = range_start = range_end = staticmethod(_nothing)


class version:
    """Versions of PyTorch and of Weft."""

    __version__ = "2.15.0+weft"
    cuda = hip = xpu = git_version = None
    debug = False

    @staticmethod
    def get_pretty_env_info():
        return f"Weft {weft.__version__} in the place of PyTorch, Python {platform.python_version()}, {platform.platform()}"

    @staticmethod
    def main():
        print(version.get_pretty_env_info())


class hub:
    """Nothing is loaded from the network."""

    load = _refused("torch.hub.load", "load the model's own code and weft.load its weights")
    load_state_dict_from_url = _refused("torch.hub.load_state_dict_from_url", "fetch the file and torch.load it")
    load_url = load_state_dict_from_url
    download_url_to_file = _refused("torch.hub.download_url_to_file", "fetch the file by another program")
    set_dir = staticmethod(_nothing)

    @staticmethod
    def get_dir():
        import os

        return os.path.join(os.environ.get("TORCH_HOME", os.path.expanduser("~/.cache/torch")), "hub")


class types:
    """Types for annotations."""

    Tensor, Number, Device, Storage = Tensor, Union[int, float, bool], Union[_core.device, str, int, None], Any
    _dtype, _device, _size, _int, _float, _bool = _core.dtype, _core.device, tuple, int, float, bool
    string_classes, int_classes, inf, nan = (str, bytes), int, float("inf"), float("nan")
    container_abcs = __import__("collections.abc").abc


class c:
    """Names below torch._C that scripts use."""

    Generator, device, dtype = _core.Generator, _core.device, _core.dtype
    DisableTorchFunctionSubclass = DisableTorchFunction = _subclasses.DisableTorchFunctionSubclass
    _disabled_torch_function_impl = staticmethod(_subclasses.disabled_function)
    _log_api_usage_once = _jit_set_profiling_executor = _jit_set_profiling_mode = staticmethod(_nothing)
    __all__ = ("_log_api_usage_once", "_jit_set_profiling_executor", "_jit_set_profiling_mode", "_get_device_index",
               "_flatten_dense_tensors", "_unflatten_dense_tensors", "_get_tracing_state", "_disabled_torch_function_impl",
               "_element_size")

    @staticmethod
    def _element_size(dtype):
        return dtype.itemsize

    @staticmethod
    def _get_tracing_state():
        return None

    @staticmethod
    def _get_device_index(device, optional=False, allow_cpu=False):
        return device if isinstance(device, int) else _core.device(device).index

    @staticmethod
    def _flatten_dense_tensors(tensors):
        return weft.cat([t.contiguous().view(-1) for t in tensors])

    @staticmethod
    def _unflatten_dense_tensors(flat, tensors):
        return tuple(part.view(t.shape) for part, t in zip(flat.split([t.numel() for t in tensors]), tensors))


class no_device:
    """Devices that Weft has not."""

    manual_seed = manual_seed_all = staticmethod(weft.manual_seed)
    empty_cache = synchronize = set_per_process_memory_fraction = staticmethod(_nothing)

    @staticmethod
    def is_available():
        return False

    @staticmethod
    def device_count():
        return 0

    current_allocated_memory = driver_allocated_memory = current_device = device_count


class cpu:
    """torch.cpu."""

    synchronize = staticmethod(_nothing)
    amp = None

    @staticmethod
    def is_available():
        return True

    @staticmethod
    def device_count():
        return 1

    @staticmethod
    def current_device():
        return "cpu"


class accelerator:
    """The device beside the CPU: CUDA's or HPU's, where there is one."""

    @staticmethod
    def _kind():
        return next((kind for kind in ("cuda", "hpu") if _core.device_count(kind)), None)

    @staticmethod
    def is_available():
        return accelerator._kind() is not None

    @staticmethod
    def current_accelerator(check_available=False):
        return _core.device(accelerator._kind()) if accelerator._kind() else None

    @staticmethod
    def device_count():
        return _core.device_count(accelerator._kind()) if accelerator._kind() else 0

    @staticmethod
    def current_device_index():
        return 0

    set_device_index = set_device_idx = staticmethod(_nothing)
    current_device_idx = current_device_index

    @staticmethod
    def synchronize(device=None):
        if accelerator._kind():
            _core.synchronize(_core.device(accelerator._kind()))

    @staticmethod
    def empty_cache():
        if accelerator._kind():
            _core.empty_cache(_core.device(accelerator._kind()))

    @staticmethod
    def memory_stats(device=None):
        return dict(_core.memory_stats(_core.device(accelerator._kind()))) if accelerator._kind() else {}

    @staticmethod
    def memory_allocated(device=None):
        return accelerator.memory_stats().get("allocated", 0)

    @staticmethod
    def max_memory_allocated(device=None):
        return accelerator.memory_stats().get("peak_allocated", 0)

    reset_peak_memory_stats = set_stream = staticmethod(_nothing)


class multiprocessing:
    """Additions to the standard library's module; tensors are copied between processes."""

    @staticmethod
    def get_sharing_strategy():
        return "file_system"

    @staticmethod
    def get_all_sharing_strategies():
        return {"file_system"}

    set_sharing_strategy = staticmethod(_nothing)

    @staticmethod
    def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="fork"):
        """Runs fn(i, *args) in nprocs forked processes, and waits for them."""
        import multiprocessing as module

        context = module.get_context("fork")  # others would start without weft.torch
        processes = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
        for process in processes:
            process.start()
        if not join:
            return processes
        for process in processes:
            process.join()
        failed = [i for i, process in enumerate(processes) if process.exitcode]
        if failed:
            raise RuntimeError(f"multiprocessing.spawn(): processes {failed} ended with errors")


class dlpack:
    """DLPack capsules."""

    from_dlpack = staticmethod(weft.from_dlpack)

    @staticmethod
    def to_dlpack(tensor):
        return tensor.__dlpack__()


class _Measurement:
    def __init__(self, times, number):
        self.times, self.number_per_run = times, number
        self.median, self.mean = sorted(times)[len(times) // 2], sum(times) / len(times)

    def __repr__(self):
        return f"median {self.median * 1e6:.2f} us of {len(self.times)} runs"


class _Timer:
    """torch.utils.benchmark.Timer of a statement."""

    def __init__(self, stmt="pass", setup="pass", globals=None, num_threads=1, label=None, sub_label=None, description=None,
                 timer=time.perf_counter):
        import timeit

        self._timer = timeit.Timer(stmt, setup, timer, dict(globals or {}))

    def timeit(self, number=1000000):
        return _Measurement([self._timer.timeit(number) / number], number)

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        number, _ = self._timer.autorange()
        return _Measurement([t / number for t in self._timer.repeat(3, number)], number)


class benchmark:
    """Timers of statements."""

    Timer, Measurement = _Timer, _Measurement


class _Averages(list):
    def __init__(self, text):
        super().__init__()
        self._text = text

    def table(self, sort_by=None, row_limit=100, **_):
        return self._text

    __str__ = table


class _Profile:
    """Kernels of a `with` block, measured by weft.hooks.Profiler."""

    def __init__(self, *_, schedule=None, on_trace_ready=None, enabled=True, **__):
        self._schedule, self._ready, self._profiler, self.step_num = schedule, on_trace_ready, None, 0
        self._enabled = enabled

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        if self._enabled:
            from weft.hooks import Profiler

            self._profiler = Profiler()
            self._profiler.start()

    def stop(self):
        if self._profiler is not None:
            self._profiler.stop()
            if self._ready is not None:
                self._ready(self)

    def step(self):
        self.step_num += 1

    def key_averages(self, *_, **__):
        return _Averages("" if self._profiler is None else self._profiler.table())

    def events(self):
        return [] if self._profiler is None else self._profiler.events()

    def table(self, *_, **__):
        return self.key_averages().table()

    def export_chrome_trace(self, path):
        if self._profiler is not None:
            self._profiler.save_trace(path)


class profiler:
    """torch.profiler and torch.autograd.profiler by Weft's Profiler."""

    profile, record_function, emit_nvtx = _Profile, staticmethod(_no_scope), staticmethod(_no_scope)

    class ProfilerActivity:
        CPU, CUDA, XPU, MTIA = "cpu", "cuda", "xpu", "mtia"

    class ProfilerAction:
        NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)

    @staticmethod
    def schedule(*, wait=0, warmup=0, active=1, repeat=0, skip_first=0, **_):
        """Every step is measured."""
        return lambda step: profiler.ProfilerAction.RECORD

    @staticmethod
    def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
        import os

        def write(profile):
            os.makedirs(dir_name, exist_ok=True)
            profile.export_chrome_trace(os.path.join(dir_name, f"{worker_name or os.getpid()}.pt.trace.json"))

        return write
