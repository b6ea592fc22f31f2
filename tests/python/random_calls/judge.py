"""Compares the answers of PyTorch and Weft to one call."""

import math

RELATIVE = {"float64": 1e-9, "complex128": 1e-9, "float32": 3e-5, "complex64": 3e-5, "float16": 4e-3, "bfloat16": 3e-2,
            "complex32": 4e-3, "bcomplex32": 3e-2}


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


def differences(got, want, check_dtype=True, scale=0.0, relative=0.0):
    """Yields the differences between two plain results in words, one for each element that differs."""
    if not isinstance(want, tuple):
        if isinstance(got, tuple):
            yield f"a tensor of {got[0]}{got[1]}; expected {want!r}"
        elif type(got) is not type(want) or not near(got, want, 1e-9, scale):
            yield f"{got!r}; expected {want!r}"
    elif not isinstance(got, tuple):
        yield f"{got!r}; expected a tensor of {want[0]}{want[1]}"
    elif got[1] != want[1]:
        yield f"shape {got[1]}; expected {want[1]}"
    else:
        if check_dtype and got[0] != want[0]:
            yield f"dtype {got[0]}; expected {want[0]}"
        relative = max(relative, RELATIVE.get(got[0], 0), RELATIVE.get(want[0], 0))
        scale = max(scale, magnitude(want[2]))
        for i, (g, w) in enumerate(zip(got[2], want[2])):
            if not near(g, w, relative, scale):
                yield f"element {i} is {g!r}; expected {w!r}"


def difference(got, want, **options):
    """The first of the differences, or None."""
    return next(differences(got, want, **options), None)


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
    """Yields (what, difference in words) for two answers to a call; words are None where they agree, and begin with the number of
    the result or the name of the input that the gradient is of. `exact` computes PyTorch's answer in 64 bits: a result that is
    near that one is right."""
    if "refused" in ours or "refused" in theirs:
        yield compare_refusals(ours.get("refused"), theirs.get("refused"))
        return
    data = [complex(*v) if isinstance(v, (list, tuple)) else v for t in call.inputs.values() for v in t.data]
    loose = {"scale": magnitude(data), "relative": max((RELATIVE.get(v[0], 0) for v in theirs["values"] if isinstance(v, tuple)),
                                                      default=0)}

    def judged(what, got, want, kind, key):
        tolerance = loose if what == "gradient" else {}
        found = [(what, f"{key}: {text}") for text in differences(got, want, **tolerance)]
        elements = [told for told in found if " element " in told[1]]
        if elements:
            try:
                reference = exact()[kind][key]
            except (KeyError, IndexError, TypeError):
                reference = None
            if reference is not None and difference(got, reference, check_dtype=False, **tolerance) is None:
                found = [told for told in found if told not in elements] + [("PyTorch rounds more", None)]
        return found or [(what, None)]

    if len(theirs["values"]) != len(ours["values"]):
        yield "value", f"{len(ours['values'])} results; expected {len(theirs['values'])}"
        return
    for i, (got, want) in enumerate(zip(ours["values"], theirs["values"])):
        yield from judged("value", got, want, "values", i)
    if "no gradient" in ours or "no gradient" in theirs:
        if "no gradient" in ours and "no gradient" not in theirs:
            yield "no gradient", ours["no gradient"]
        return
    for name in sorted(theirs["gradients"].keys() | ours["gradients"].keys()):
        want, got = theirs["gradients"].get(name), ours["gradients"].get(name)
        if want is None or got is None:
            yield "recorded", f"the gradient of {name} is recorded by {'PyTorch' if got is None else 'Weft'} alone"
        else:
            yield from judged("gradient", got, want, "gradients", name)
