"""One call in weft and in a reference library: inputs of every dtype and layout, and the comparison of results.

The reference is PyTorch where it can be imported, else NumPy, which has no bfloat16 and no gradients."""

import math

import numpy as np

import weft

try:
    import torch
except ImportError:
    torch = None

inf, nan = math.inf, math.nan
floats = ("float32", "float64", "float16", "bfloat16")
integers = ("int64", "int32", "int16", "int8", "uint8")
layouts = ("dense", "strided", "reversed", "expanded", "0-d", "empty")
specials = [0.0, -0.0, 1.0, -1.0, nan, inf, -inf, 1e-45, -1e-45, 1e-40, 3.4e38, -3.4e38, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0,
            -3.0, 7.0, 0.1, 1e10, -1e10, 1e8, 100.0, -100.0, 30.0, -30.0, 1e-8, -1e-8, 88.0, -88.0, 1e-20, -1e20, 10.0]
extremes = [0, 1, -1, 2, -2, 3, -3, 7, -7, 100, 127, -128, 255, 2**15 - 1, -2**15, 2**31 - 1, -2**31, 2**53 + 1, 2**62,
            2**63 - 1, -2**63]
epsilon = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def is_float(dtype):
    return dtype in floats


def special_values(dtype):
    if is_float(dtype):
        return np.array(specials)
    if dtype == "bool":
        return np.array([False, True])
    limits = np.iinfo(dtype)
    return np.array([v for v in extremes if limits.min <= v <= limits.max], dtype=dtype)


class Array:
    """Elements of one dtype in one layout, to be made in either library."""

    def __init__(self, elements, dtype, layout="dense", grad=None):
        self.elements, self.dtype, self.layout = np.asarray(elements), dtype, layout
        self.grad = is_float(dtype) if grad is None else grad

    def make(self, peer):
        host = self.elements.astype({"bfloat16": "float32", "float16": "float32"}.get(self.dtype, self.dtype))
        if self.layout == "strided":
            spread = np.zeros([2 * n for n in host.shape], dtype=host.dtype)
            spread[tuple(slice(1, None, 2) for _ in host.shape)] = host
            return peer.array(spread, self.dtype)[tuple(slice(1, None, 2) for _ in host.shape)]
        if self.layout == "reversed":  # the last dimension outermost
            turned = peer.array(np.ascontiguousarray(host.T), self.dtype)
            return turned.T if peer is NumPy else turned.permute(tuple(range(host.ndim))[::-1])
        return peer.array(host, self.dtype)


class Weft:
    name = "weft"
    module = weft

    @staticmethod
    def array(host, dtype):
        return weft.tensor(host).to(getattr(weft, dtype))

    @staticmethod
    def numpy(t):
        t = t.detach()
        return (t.to(weft.float64) if t.dtype.is_floating_point else t).numpy()

    @staticmethod
    def dtype(t):
        return t.dtype.name


class Torch:
    name = "torch"
    module = torch

    @staticmethod
    def array(host, dtype):
        return torch.tensor(host).to(getattr(torch, dtype))

    @staticmethod
    def numpy(t):
        t = t.detach()
        return (t.double() if t.is_floating_point() else t).numpy()

    @staticmethod
    def dtype(t):
        return str(t.dtype).split(".")[1]


class NumPy:
    name = "numpy"
    module = np

    @staticmethod
    def array(host, dtype):
        return host.astype(dtype)

    @staticmethod
    def numpy(t):
        return np.asarray(t)

    @staticmethod
    def dtype(t):
        return np.asarray(t).dtype.name


Reference = Torch if torch is not None else NumPy


class Outcome:
    """The result of a call: tensors, gradients of the floating inputs, or an error."""

    def __init__(self, peer, call, arguments):
        self.values, self.dtypes, self.gradients, self.error = [], [], [], None
        tensors = [x.make(peer) if isinstance(x, Array) else x for x in arguments]
        leaves = [(t, x) for t, x in zip(tensors, arguments) if isinstance(x, Array) and x.grad]
        if peer is not NumPy:
            for t, _ in leaves:
                t.requires_grad_()
        try:
            with np.errstate(all="ignore"):
                results = call(peer.module, *tensors)
        except Exception as error:
            self.error = error
            return
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        self.values, self.dtypes = [peer.numpy(r) for r in results], [peer.dtype(r) for r in results]
        if peer is NumPy:
            return
        for number, result in enumerate(results):
            if not result.requires_grad:
                continue
            # Weights that differ, so that no two elements can be mistaken for each other.
            weights = (np.arange(result.numel()) % 7 + 1.0) / 4
            seed = peer.array(weights.reshape(tuple(result.shape)).astype("float32"), peer.dtype(result))
            result.backward(seed, retain_graph=number + 1 < len(results))
        self.gradients = [None if t.grad is None else peer.numpy(t.grad) for t, _ in leaves]


largest = {"float32": 3.4e38, "float64": 1.7e308, "float16": 65504.0, "bfloat16": 3.4e38}


def differing(got, want, dtype, slack=4.0, scale=None, zeros=True, brink=False):
    """Where two arrays differ by more than `slack` units in the last place, measured at `scale` where that is larger.
    NaN equals NaN; zeros must have one sign unless `zeros` is False. With `brink` the largest numbers equal infinity:
    what overflows on the way depends on the order of the factors."""
    got, want = (x.astype(np.uint8) if x.dtype == bool else x for x in (np.asarray(got), np.asarray(want)))
    if not is_float(dtype):
        return got != want
    with np.errstate(all="ignore"):
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        if zeros:
            same &= (np.signbit(got) == np.signbit(want)) | np.isnan(want) | (want != 0)
        smallest = {"float16": 2.0**-24, "float64": 5e-324}.get(dtype, 2.0**-133 if dtype == "bfloat16" else 2.0**-149)
        size = np.maximum(np.abs(want), 0 if scale is None else scale)
        near = np.abs(got - want) <= np.maximum(slack * epsilon[dtype] * size, 2 * smallest)
        if brink:
            same |= (np.minimum(np.abs(got), np.abs(want)) > largest[dtype] / 8) & (np.sign(got) == np.sign(want))
        return ~(same | near & np.isfinite(got) & np.isfinite(want))
