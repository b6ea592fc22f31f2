"""The Fourier transform extension of the array API standard, 2024.12."""

import weft.fft as _fft
from weft import _core

__all__ = ["fft", "ifft", "fftn", "ifftn", "rfft", "irfft", "rfftn", "irfftn", "hfft", "ihfft", "fftfreq", "rfftfreq",
           "fftshift", "ifftshift"]


def _one(name, op):
    def function(x, /, *, n=None, axis=-1, norm="backward"):
        return op(x, n, axis, norm)

    function.__name__, function.__doc__ = name, op.__doc__
    return function


def _many(name, op):
    def function(x, /, *, s=None, axes=None, norm="backward"):
        return op(x, s, axes, norm)

    function.__name__, function.__doc__ = name, op.__doc__
    return function


for _make, _names in ((_one, "fft ifft rfft irfft hfft ihfft"), (_many, "fftn ifftn rfftn irfftn")):
    for _name in _names.split():
        globals()[_name] = _make(_name, getattr(_fft, _name))
del _make, _names, _name


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of the elements of fft(), in cycles per unit of the spacing d."""
    return _fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of the elements of rfft(), in cycles per unit of the spacing d."""
    return _fft.rfftfreq(n, d, dtype=dtype, device=device)


def _axes(axes):
    return (axes,) if isinstance(axes, int) else axes


def fftshift(x, /, *, axes=None):
    """Shifts the element of frequency 0 to the middle."""
    return _core._ops["fft_fftshift"](x, _axes(axes))


def ifftshift(x, /, *, axes=None):
    """The inverse of fftshift()."""
    return _core._ops["fft_ifftshift"](x, _axes(axes))
