"""Discrete Fourier transforms under PyTorch's path."""

from weft import _core
from weft._core import _ops
from weft.errors import ValueError as _ValueError

for _name, _op in _ops.items():
    if _name.startswith("fft_"):
        globals()[_name[len("fft_"):]] = _op
del _name, _op


def _frequencies(numbers, n, d, dtype, device, requires_grad):
    if n < 1:
        raise _ValueError(f"fftfreq(): {n} numbers have no transform")
    kind = dtype or _core.get_default_dtype()
    values = (numbers.to(_core.float64) * (1.0 / (n * d))).to(kind)
    values = values if device is None else values.to(device)
    return values.requires_grad_(requires_grad)


def fftfreq(n, d=1.0, *, dtype=None, device=None, requires_grad=False):
    """The frequencies of the numbers of fft(), in cycles per unit of the spacing d."""
    numbers = _ops["cat"]([_ops["arange"](0, (n + 1) // 2), _ops["arange"](-(n // 2), 0)])
    return _frequencies(numbers, n, d, dtype, device, requires_grad)


def rfftfreq(n, d=1.0, *, dtype=None, device=None, requires_grad=False):
    """The frequencies of the numbers of rfft(), in cycles per unit of the spacing d."""
    return _frequencies(_ops["arange"](0, n // 2 + 1), n, d, dtype, device, requires_grad)
