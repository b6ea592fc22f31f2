"""Comparisons for tests."""

from weft import _core

__all__ = ["assert_close"]

# Of each type, the tolerances (relative, absolute) that PyTorch's assert_close has.
_TOLERANCES = {"float64": (1e-7, 1e-7), "complex128": (1e-7, 1e-7), "float32": (1.3e-6, 1e-5),
               "complex64": (1.3e-6, 1e-5), "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5)}


def _tensor(value):
    import weft

    return value if isinstance(value, _core.Tensor) else weft.tensor(value)


def assert_close(actual, expected, *, rtol=None, atol=None, equal_nan=False, check_device=True, check_dtype=True, msg=None):
    """AssertionError unless |actual - expected| <= atol + rtol |expected| everywhere, and shapes, dtypes and devices are
    the same. Takes tensors, numbers, and lists, tuples and dicts of those. Without rtol and atol, which are given
    together, those of the less precise dtype hold: 1.3e-6 and 1e-5 for float32, 0 and 0 for integers and bool."""
    if (rtol is None) != (atol is None):
        raise ValueError("assert_close(): rtol and atol are given together or not at all")
    if isinstance(expected, dict):
        assert isinstance(actual, dict) and actual.keys() == expected.keys(), msg or "the keys differ"
        pairs = [(actual[key], expected[key]) for key in expected]
    elif isinstance(expected, (list, tuple)):
        assert isinstance(actual, (list, tuple)) and len(actual) == len(expected), msg or "the lengths differ"
        pairs = list(zip(actual, expected))
    else:
        _assert_pair(_tensor(actual), _tensor(expected), rtol, atol, equal_nan, check_device, check_dtype, msg)
        return
    for a, b in pairs:
        assert_close(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=check_device, check_dtype=check_dtype,
                     msg=msg)


def _assert_pair(a, b, rtol, atol, equal_nan, check_device, check_dtype, msg):
    for what, x, y in (("shape", tuple(a.shape), tuple(b.shape)), ("dtype", a.dtype, b.dtype), ("device", a.device, b.device)):
        checked = {"dtype": check_dtype, "device": check_device}.get(what, True)
        assert not checked or x == y, msg or f"the {what}s differ: {x} and {y}"
    if rtol is None:
        found = [_TOLERANCES.get(str(t.dtype).rsplit(".", 1)[-1], (0.0, 0.0)) for t in (a, b)]
        rtol, atol = (max(t[i] for t in found) for i in (0, 1))
    import weft

    if a.dtype.is_complex or b.dtype.is_complex:
        wide = weft.complex128
    else:
        wide = weft.float64 if a.dtype.is_floating_point or b.dtype.is_floating_point else weft.int64
    x, y = a.detach().to("cpu").to(wide), b.detach().to("cpu").to(wide)
    close = weft.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if close.all().item():
        return
    place = close.flatten().to(weft.int64).argmin().item()
    index = []
    for size in reversed(x.shape):
        place, i = divmod(place, size)
        index.insert(0, i)
    raise AssertionError(msg or f"{close.numel() - int(close.sum().item())} of {close.numel()} elements differ by more than "
                         f"{atol:g} + {rtol:g} * |expected|, the first at {index}: {x[tuple(index)].item():g} and "
                         f"{y[tuple(index)].item():g}")
