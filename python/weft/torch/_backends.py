"""`torch.backends`: switches of libraries that Weft does not call, and TF32."""

import contextlib
import types

import weft


def _settings(**values):
    """An object of settings that may be read and set, and has no effect."""
    @contextlib.contextmanager
    def flags(**given):
        """Sets some of them in a `with` block."""
        before = {name: getattr(settings, name) for name in given if hasattr(settings, name)}
        vars(settings).update(given)
        try:
            yield
        finally:
            vars(settings).update(before)

    settings = types.SimpleNamespace(**values, flags=flags)
    return settings


cudnn = _settings(enabled=True, benchmark=False, deterministic=False, allow_tf32=True, benchmark_limit=10, fp32_precision="none",
                  is_available=lambda: False, version=lambda: None, is_acceptable=lambda tensor: False)
mps = _settings(is_available=lambda: False, is_built=lambda: False, is_macos_or_newer=lambda *_: False)
mkl = _settings(is_available=lambda: False, verbose=contextlib.nullcontext)
mkldnn = _settings(enabled=True, is_available=lambda: True, deterministic=False, allow_tf32=True)
openmp = _settings(is_available=lambda: False)
opt_einsum = _settings(enabled=False, strategy=None, is_available=lambda: False)
quantized = _settings(engine="none", supported_engines=["none"])


class _Matmul:
    """TF32 of float32 products on CUDA; the other settings have no effect."""

    allow_fp16_reduced_precision_reduction = allow_bf16_reduced_precision_reduction = True
    allow_fp16_accumulation = False
    fp32_precision = "none"

    @property
    def allow_tf32(self):
        return weft.tf32_state()

    @allow_tf32.setter
    def allow_tf32(self, on):
        weft.set_tf32(bool(on))


@contextlib.contextmanager
def _sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Nothing: Weft chooses the kernel of attention."""
    yield


cuda = _settings(matmul=_Matmul(), is_built=lambda: weft.cuda.is_available(), sdp_kernel=_sdp_kernel,
                 cufft_plan_cache=_settings(size=0, max_size=0, clear=lambda: None),
                 **{f"{name}_sdp_enabled": (lambda: True) for name in ("flash", "math", "mem_efficient", "cudnn")},
                 **{f"enable_{name}_sdp": (lambda enabled=True: None) for name in ("flash", "math", "mem_efficient", "cudnn")},
                 preferred_linalg_library=lambda *_: None, preferred_blas_library=lambda *_: None)
