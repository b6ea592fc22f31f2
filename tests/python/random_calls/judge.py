"""Compares the answers of PyTorch and Weft to one call."""

import math

RELATIVE = {"float64": 1e-9, "complex128": 1e-9, "float32": 3e-5, "complex64": 3e-5, "float16": 4e-3, "bfloat16": 3e-2}


def leaves(value):
    """The tensors and numbers of a result, which may be a tuple of tuples."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def plain(value):
    """A tensor as (dtype, shape, values), complex ones as numbers of Python's; a number as itself."""
    if not hasattr(value, "dtype"):
        return value
    t = value.detach()
    return str(t.dtype).split(".")[-1], list(t.shape), list(flat(t.tolist()))


def flat(values):
    if isinstance(values, list):
        for v in values:
            yield from flat(v)
    else:
        yield values


def near(a, b, relative, scale):
    if isinstance(a, complex) or isinstance(b, complex):
        a, b = complex(a), complex(b)
        if cmath_finite(a) and cmath_finite(b):
            return abs(a - b) <= relative * (abs(b) + scale)
        return near(a.real, b.real, relative, scale) and near(a.imag, b.imag, relative, scale)
    if isinstance(a, bool) or isinstance(b, bool) or (isinstance(a, int) and isinstance(b, int)):
        return a == b
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= relative * (abs(b) + scale)


def cmath_finite(z):
    return math.isfinite(z.real) and math.isfinite(z.imag)


def magnitude(values):
    return max((abs(v) for v in values if not isinstance(v, bool) and cmath_finite(complex(v))), default=0.0)


def difference(got, want, check_dtype=True, scale=0.0, relative=0.0):
    """None, or the difference between two plain results in words."""
    if not isinstance(want, tuple):
        if isinstance(got, tuple):
            return f"a tensor of {got[0]}{got[1]}; expected {want!r}"
        return None if type(got) is type(want) and near(got, want, 1e-9, scale) else f"{got!r}; expected {want!r}"
    if not isinstance(got, tuple):
        return f"{got!r}; expected a tensor of {want[0]}{want[1]}"
    if got[1] != want[1]:
        return f"shape {got[1]}; expected {want[1]}"
    if check_dtype and got[0] != want[0]:
        return f"dtype {got[0]}; expected {want[0]}"
    relative = max(relative, RELATIVE.get(got[0], 0), RELATIVE.get(want[0], 0))
    scale = max(scale, magnitude(want[2]))
    for i, (g, w) in enumerate(zip(got[2], want[2])):
        if not near(g, w, relative, scale):
            return f"element {i} is {g!r}; expected {w!r}"
    return None


# PyTorch's messages for calls without a kernel or an overload.
UNIMPLEMENTED = ("not implemented", "yet implemented", "not support", "only support", "unsupported", "received an invalid combination",
                 "is not differentiable with respect", "expect parameter to have scalar type", "m1 and m2 to have the same dtype",
                 "must have the same dtype", "same data type", "Expected floating point", "must be real", "dtype mismatch")


def first_line(error):
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def compare_refusals(ours, theirs):
    """(what, words) of a call that one of the two refuses; words are None where that is no difference."""
    if ours and theirs:
        return "both refuse", None
    if ours:
        return "refused", ours
    if any(text in theirs for text in ("NotImplementedError", *UNIMPLEMENTED)):
        return "not implemented in PyTorch", None
    return "accepted", f"PyTorch: {theirs}"


def compare(call, ours, theirs, exact=lambda: None):
    """Yields (what, difference in words) for two answers to a call; words are None where they agree. `exact` computes PyTorch's
    answer in 64 bits: a result that is near that one is right."""
    if "refused" in ours or "refused" in theirs:
        yield compare_refusals(ours.get("refused"), theirs.get("refused"))
        return
    data = [complex(*v) if isinstance(v, (list, tuple)) else v for t in call.inputs.values() for v in t.data]
    loose = {"scale": magnitude(data), "relative": max((RELATIVE.get(v[0], 0) for v in theirs["values"] if isinstance(v, tuple)),
                                                      default=0)}

    def judged(what, got, want, kind, key):
        tolerance = loose if what == "gradient" else {}
        text = difference(got, want, **tolerance)
        if text and not text.startswith(("dtype", "shape")):
            try:
                reference = exact()[kind][key]
            except (KeyError, IndexError, TypeError):
                return what, text
            if difference(got, reference, check_dtype=False, **tolerance) is None:
                return "PyTorch rounds more", None
        return what, text

    if len(theirs["values"]) != len(ours["values"]):
        yield "value", f"{len(ours['values'])} results; expected {len(theirs['values'])}"
        return
    for i, (got, want) in enumerate(zip(ours["values"], theirs["values"])):
        yield judged("value", got, want, "values", i)
    if "no gradient" in ours or "no gradient" in theirs:
        if "no gradient" in ours and "no gradient" not in theirs:
            yield "no gradient", ours["no gradient"]
        return
    for name in sorted(theirs["gradients"].keys() | ours["gradients"].keys()):
        want, got = theirs["gradients"].get(name), ours["gradients"].get(name)
        if want is None or got is None:
            yield "recorded", f"the gradient of {name} is recorded by {'PyTorch' if got is None else 'Weft'} alone"
        else:
            yield judged("gradient", got, want, "gradients", name)
