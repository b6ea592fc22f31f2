"""Functions of `torch` itself that Weft has under another name, or that change nothing on it."""

import random

import weft
from weft import _core
from weft.torch import _amp
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


_without_effect("set_warn_always set_num_interop_threads set_autocast_enabled set_autocast_cpu_enabled "
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


@_public
def randint(*args, size=None, **options):
    """Integers from [low, high), or [0, high) with one bound."""
    if size is not None and len(args) + len(options.keys() & {"low", "high"}) == 1:
        options["high"] = args[0] if args else options.pop("low", None) or options["high"]
        args = (0,)
    return weft.randint(*args, **({} if size is None else {"size": size}), **options)


def _with_number_second(name, keyword):
    """The function with the form of early PyTorch, which has a factor behind its first tensor."""
    function = getattr(weft, name)

    def apply(input, *args, **options):
        if args and not isinstance(args[0], weft.Tensor) and len(args) > 1 and isinstance(args[1], weft.Tensor):
            return function(input, *args[1:], **{keyword: args[0]}, **options)
        return function(input, *args, **options)

    apply.__name__, apply.__doc__ = name, function.__doc__
    globals()[name] = apply
    __all__.append(name)


for _name, _keyword in (("add", "alpha"), ("sub", "alpha"), ("addcmul", "value"), ("addcdiv", "value")):
    _with_number_second(_name, _keyword)


@_public
def range(start=0, end=None, step=1, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """start, start + step, ... up to and with end; arange leaves the end out."""
    start, end = (0, start) if end is None else (start, end)
    count = int((end - start) / step) + 1
    made = start + step * weft.arange(count, dtype=dtype or weft.get_default_dtype(), device=device)
    return made.requires_grad_() if requires_grad else made


@_public
def cholesky(input, upper=False, *, out=None):
    """linalg.cholesky, transposed with upper."""
    return weft.linalg.cholesky(input).mH if upper else weft.linalg.cholesky(input, out=out)


@_public
def qr(input, some=True, *, out=None):
    """linalg.qr, complete without some."""
    return weft.linalg.qr(input, "reduced" if some else "complete")


@_public
def svd_lowrank(A, q=6, niter=2, M=None):
    """An approximate singular value decomposition of rank q (Halko, Martinsson and Tropp 2009)."""
    A = A if M is None else A - M
    q = min(q, *A.shape[-2:])
    basis = weft.linalg.qr(A @ weft.randn(*A.shape[:-2], A.shape[-1], q, dtype=A.dtype, device=A.device))[0]
    for _ in weft.arange(niter).tolist():
        basis = weft.linalg.qr(A.mH @ basis)[0]
        basis = weft.linalg.qr(A @ basis)[0]
    U, S, Vh = weft.linalg.svd(basis.mH @ A, full_matrices=False)
    return basis @ U, S, Vh.mH


@_public
def pca_lowrank(A, q=None, center=True, niter=2):
    """svd_lowrank of rows minus their mean."""
    q = min(6, *A.shape[-2:]) if q is None else q
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


@_public
def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) or false_fn(*operands)."""
    return (true_fn if bool(pred) else false_fn)(*operands)


@_public
def while_loop(cond_fn, body_fn, carried_inputs):
    """body_fn from its own results as long as cond_fn holds."""
    carried = tuple(carried_inputs)
    while bool(cond_fn(*carried)):
        carried = body_fn(*carried)
        carried = carried if isinstance(carried, tuple) else (carried,)
    return carried


def _with_tensors(name):
    """A function that calls the method of this name."""
    method = getattr(weft.Tensor, name)

    def apply(input, *args, **kwargs):
        return method(input, *args, **kwargs)

    apply.__name__, apply.__doc__ = name, method.__doc__
    return apply


# Functions of the methods that have none in Weft: in-place forms, and facts.
for _name in dir(weft.Tensor):
    if not _name.startswith("_") and not hasattr(weft, _name) and _name not in globals() and (
            _name.endswith("_") or _name.startswith("is_")) and callable(getattr(weft.Tensor, _name)):
        globals()[_name] = _with_tensors(_name)
        __all__.append(_name)
vmap, default_generator = weft.func.vmap, _core.Generator()
SymInt, SymFloat, SymBool, sym_int, sym_float, sym_max, sym_min = int, float, bool, int, float, max, min
sym_not, sym_sqrt = (lambda x: not x), (lambda x: x**0.5)
has_mkl = has_openmp = has_lapack = has_spectral = True
GradScaler, sparse_coo, sparse_csr = _amp.GradScaler, weft.layout(), weft.layout()
__all__ += ["GradScaler", "SymBool", "SymFloat", "SymInt", "default_generator", "has_lapack", "has_mkl", "has_openmp", "has_spectral",
            "sparse_coo", "sparse_csr", "sym_float", "sym_int", "sym_max", "sym_min", "sym_not", "sym_sqrt", "vmap"]
