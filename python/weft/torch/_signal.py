"""torch.signal.windows by Weft's windows."""

import math

import weft

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
           "kaiser", "nuttall"]


def _steps(M, sym, options):
    """0, 1, ... M - 1 and the last step of a period."""
    options = {key: value for key, value in options.items() if key in ("dtype", "device") and value is not None}
    if M < 0:
        raise ValueError(f"length of a window: expected at least 0, got {M}")
    return weft.arange(M, **{"dtype": weft.get_default_dtype(), **options}), max(M - 1 if sym else M, 1)


def _finished(window, M, requires_grad):
    window = weft.ones_like(window) if M == 1 else window
    return window.requires_grad_() if requires_grad else window


def general_cosine(M, *, a, sym=True, requires_grad=False, **options):
    """A sum of cosines with these weights and alternating signs."""
    n, last = _steps(M, sym, options)
    window = sum(((-1) ** i * weight * weft.cos(2 * math.pi * i * n / last) for i, weight in enumerate(a)), weft.zeros_like(n))
    return _finished(window, M, requires_grad)


def general_hamming(M, *, alpha=0.54, sym=True, **options):
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **options)


def hamming(M, *, sym=True, **options):
    return general_hamming(M, sym=sym, **options)


def hann(M, *, sym=True, **options):
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M, *, sym=True, **options):
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def nuttall(M, *, sym=True, **options):
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)


def bartlett(M, *, sym=True, requires_grad=False, **options):
    n, last = _steps(M, sym, options)
    return _finished(1 - (2 * n / last - 1).abs(), M, requires_grad)


def cosine(M, *, sym=True, requires_grad=False, **options):
    n, last = _steps(M, sym, options)
    return _finished(weft.sin((n + 0.5) * (math.pi / (last + 1))), M, requires_grad)


def exponential(M, *, center=None, tau=1.0, sym=True, requires_grad=False, **options):
    n, last = _steps(M, sym, options)
    center = last / 2 if center is None else center
    return _finished(weft.exp(-(n - center).abs() / tau), M, requires_grad)


def gaussian(M, *, std=1.0, sym=True, requires_grad=False, **options):
    n, last = _steps(M, sym, options)
    return _finished(weft.exp(-((n - last / 2) / std).square() / 2), M, requires_grad)


def kaiser(M, *, beta=12.0, sym=True, requires_grad=False, **options):
    n, last = _steps(M, sym, options)
    window = weft.i0(beta * weft.sqrt((1 - (2 * n / last - 1).square()).clamp(min=0))) / weft.i0(weft.tensor(float(beta))).item()
    return _finished(window, M, requires_grad)
