"""Every op that has a record, on random and special inputs, against PyTorch, or against NumPy where that is not there:
values, dtypes, shapes and gradients. What differs on purpose stands in `known`, with its reason."""

import collections

import numpy as np
import pytest

import weft
from reference import (Array, NumPy, Outcome, Reference, Weft, differing, floats, integers, is_float, special_values,
                       torch)

F = torch.nn.functional if torch is not None else None
every = (*floats, *integers, "bool")
numbers = (*floats, *integers)


class Row:
    """An op: its call in weft, in PyTorch and in NumPy (None: missing), and a generator of arguments."""

    def __init__(self, inputs, weft_call, torch_call, numpy_call=None, dtypes=floats, slack=4.0, **options):
        self.inputs, self.calls, self.dtypes, self.slack = inputs, {"weft": weft_call, "torch": torch_call,
                                                                    "numpy": numpy_call}, dtypes, slack
        self.options = options


# ---- inputs: each gives lists of arguments for one dtype and layout ----

def shaped(elements, layout):
    elements = np.asarray(elements)
    if layout == "empty":
        return elements[:0].reshape(0, 2)
    if layout == "0-d":
        return elements[3 % len(elements)].reshape(())
    if layout in ("strided", "reversed"):
        return elements[:len(elements) // 4 * 4].reshape(4, -1)
    return elements


def random(rng, dtype, shape, low=-3, high=3):
    if is_float(dtype):
        return rng.uniform(low, high, shape)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    return rng.integers(max(low, 0 if dtype == "uint8" else -100), max(high, 2), shape, endpoint=True)


def spread(rng, dtype, n):
    """Numbers of every size."""
    if is_float(dtype):
        return rng.standard_normal(n) * 10.0**rng.integers(-9, 9, n)
    limits = np.iinfo(dtype if dtype != "bool" else "uint8")
    values = rng.integers(limits.min, limits.max, n, endpoint=True, dtype=limits.dtype)
    return values % 2 == 0 if dtype == "bool" else values


def one(rng, dtype, layout):
    return [[Array(shaped(np.concatenate([special_values(dtype), spread(rng, dtype, 500)]), layout), dtype, layout)],
            [Array(shaped(random(rng, dtype, 501), layout), dtype, layout)]]


def pairs(rng, dtype, layout, count=2):
    values = special_values(dtype) if count == 2 else special_values(dtype)[:14]
    grid = [g.reshape(-1) for g in np.meshgrid(*[values] * count)]
    return [[Array(shaped(np.concatenate([g, spread(rng, dtype, 1000)]), layout), dtype, layout) for g in grid],
            [Array(shaped(random(rng, dtype, 1001), layout), dtype, layout) for g in grid],
            [Array(random(rng, dtype, shape), dtype) for shape in ((2, 1, 3), (4, 1), (3,))[:count]]]


def divisions(rng, dtype, layout):
    """Pairs without a divisor of 0, which integers refuse, and without the quotient that wraps around."""
    lists = pairs(rng, dtype, layout)
    if not is_float(dtype):
        for a, b in lists:
            b.elements = np.where((b.elements == 0) | (b.elements == -1), 3, b.elements).astype(dtype)
    return lists


def triples(rng, dtype, layout):
    return pairs(rng, dtype, layout, 3)


def rows_of(rng, dtype, layout):
    """Matrices of random rows, and rows with one special number each."""
    plain = random(rng, dtype, (5, 33))
    odd = random(rng, dtype, (len(special_values(dtype)), 9))
    odd[:, 4] = special_values(dtype)
    fits = layout if layout in ("dense", "strided", "reversed") else "dense"
    return [[Array(x, dtype, fits)] for x in (plain, odd)]


def dims(*choices):
    def inputs(rng, dtype, layout):
        return [[*arguments, choice] for arguments in rows_of(rng, dtype, layout) for choice in choices]

    return inputs


def vectors(rng, dtype, layout):
    return [[*a, Array(random(rng, dtype, a[0].elements.shape), dtype)] for a in rows_of(rng, dtype, layout)]


def products(*shapes):
    def inputs(rng, dtype, layout):
        fits = layout if layout in ("dense", "strided", "reversed") else "dense"
        return [[Array(random(rng, dtype, s), dtype, fits) for s in shapes],
                [Array(random(rng, dtype, [0 if n == 4 else n for n in s]), dtype) for s in shapes]]

    return inputs


def indexed(index_shape, bound, *, source=False, value=False):
    def inputs(rng, dtype, layout):
        x = Array(spread(rng, dtype, 20).reshape(5, 4), dtype, layout if layout in ("strided", "reversed") else "dense")
        places = rng.permutation(np.arange(np.prod(index_shape)) % bound).reshape(index_shape)
        index = Array(places, "int64", grad=False)
        extra = [Array(random(rng, dtype, (*index_shape[:1], 4) if len(index_shape) == 1 else index_shape), dtype)]
        return [[x, index, *(extra if source else []), *([1] if value else [])]]

    return inputs


def masked(*, value=False, source=False):
    def inputs(rng, dtype, layout):
        x = Array(spread(rng, dtype, 20).reshape(5, 4), dtype, layout if layout in ("strided", "reversed") else "dense")
        mask = Array(rng.random((5, 4)) < 0.5, "bool")
        return [[x, mask, *([Array(random(rng, dtype, (20,)), dtype)] if source else []), *([1] if value else [])]]

    return inputs


def losses(rng, dtype, layout):
    lists = [[Array(random(rng, dtype, (5, 4)), dtype), Array(random(rng, dtype, (5, 4)), dtype)]]
    return [[*a, reduction] for a in lists for reduction in ("mean", "sum", "none")]


def probabilities(rng, dtype, layout):
    return [[Array(random(rng, dtype, (5, 4), 0.1, 0.9), dtype), Array(random(rng, dtype, (5, 4), 0.1, 0.9), dtype),
             reduction] for reduction in ("mean", "sum", "none")]


def three(low, high):
    def inputs(rng, dtype, layout):
        return [[Array(random(rng, dtype, (5, 4)), dtype), Array(random(rng, dtype, (5, 4)), dtype),
                 Array(random(rng, dtype, (5, 4), low, high), dtype)]]

    return inputs


def labels(rng, dtype, layout):
    return [[Array(random(rng, dtype, (5, 4)), dtype), Array(rng.integers(-1, 4, (5, 4)), "int64")]]


def sequences(rng, dtype, layout):
    x = random(rng, dtype, (7, 3, 5))
    return [[Array(x, dtype), Array(rng.integers(1, 5, (3, 3)), "int64")]]


def normalized(rng, dtype, layout):
    return [[x, (x.elements.shape[-1],)] for [x] in rows_of(rng, dtype, layout)]


def sorted_values(rng, dtype, layout):
    return [Array(np.sort(random(rng, dtype, 9)), dtype, grad=False)]


def queries(rng, dtype, layout):
    return [Array(random(rng, dtype, (3, 4)), dtype, grad=False)]


def classes(rng, dtype, layout):
    x, y = Array(random(rng, dtype, (6, 5), -20, 20), dtype), Array(np.array([0, 4, 2, -100, 1, 1]), "int64")
    return [[x, y, reduction] for reduction in ("mean", "sum", "none")]


# ---- the table ----

table = {}


def same(name):
    return lambda m, *a: getattr(m, name)(*a)


def of_functional(name):
    return lambda m, *a: getattr(F, name)(*a)


def row(name, inputs, call=None, numpy_call=None, dtypes=every, slack=4.0, torch_call=None, **options):
    call = call or same(name)
    table[name] = Row(inputs, call, torch_call or call, numpy_call, dtypes, slack, **options)


def rows(names, inputs, dtypes=every, numpy_names=None, **options):
    for name in names.split():
        numpy_name = (numpy_names or {}).get(name, name)
        row(name, inputs, None, same(numpy_name) if hasattr(np, numpy_name) else None, dtypes, **options)


rows("neg abs sign square floor ceil round trunc reciprocal sqrt rsqrt exp expm1 log log1p sin cos tan tanh erf sigmoid "
     "relu isnan isinf isfinite logical_not", one, numpy_names={"neg": "negative"}, pointwise=True)
for name in ("silu", "softplus"):
    row(name, one, None, None, floats, torch_call=of_functional(name), pointwise=True, scale=np.abs)
row("gelu_erf", one, None, None, floats, torch_call=lambda m, x: F.gelu(x), pointwise=True, scale=np.abs)
row("gelu_tanh", one, None, None, floats, torch_call=lambda m, x: F.gelu(x, approximate="tanh"), pointwise=True,
    scale=np.abs)
rows("add sub mul div pow maximum minimum atan2 eq ne lt le gt ge logical_and logical_or logical_xor", pairs,
     pointwise=True, numpy_names={"sub": "subtract", "mul": "multiply", "div": "divide", "pow": "power",
                                  "atan2": "arctan2", "eq": "equal", "ne": "not_equal", "lt": "less",
                                  "le": "less_equal", "gt": "greater", "ge": "greater_equal"})
rows("remainder fmod", divisions, numbers, pointwise=True)
row("floor_divide", divisions, None, same("floor_divide"), numbers, pointwise=True,
    torch_call=lambda m, a, b: m.div(a, b, rounding_mode="floor"))
# PyTorch rounds 16-bit quotients before it cuts them.
row("trunc_divide", divisions, None, None, ("float32", "float64", *integers), pointwise=True,
    torch_call=lambda m, a, b: m.div(a, b, rounding_mode="trunc"))
row("clamp", triples, pointwise=True)
row("addcmul", triples, pointwise=True, scale=lambda a, b, c: np.abs(a) + np.abs(b * c))
row("lerp", triples, dtypes=floats, pointwise=True,
    scale=lambda a, b, c: np.abs(a) + np.abs(b) + np.abs((b - a) * c))
rows("exp2 log2 log10 asin acos atan sinh cosh asinh acosh atanh sinc deg2rad rad2deg signbit isposinf isneginf isreal",
     one, pointwise=True, numpy_names={"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
                                       "acosh": "arccosh", "atanh": "arctanh"})
rows("erfc frac", one, floats, pointwise=True)
rows("fmax fmin", pairs, numbers, pointwise=True)
rows("heaviside", pairs, integers, pointwise=True)  # PyTorch has no gradient
rows("hypot copysign logaddexp logaddexp2", pairs, floats, pointwise=True)
rows("float_power", pairs, pointwise=True)
rows("erfinv", one, floats, slack=30, pointwise=True)
rows("lgamma i0", one, floats, slack=30, pointwise=True)
rows("bitwise_and bitwise_or bitwise_xor", pairs, (*integers, "bool"), pointwise=True)
rows("bitwise_left_shift bitwise_right_shift gcd lcm", pairs, integers, pointwise=True)
row("bitwise_not", one, dtypes=(*integers, "bool"), pointwise=True)
row("positive", one, dtypes=numbers, pointwise=True)
rows("xlogy", pairs, floats, pointwise=True)
row("xlog1py", pairs, None, None, floats, pointwise=True, torch_call=lambda m, a, b: m.special.xlog1py(a, b))
row("isclose", pairs, lambda m, a, b: m.isclose(a, b, 0.1, 0.2), lambda m, a, b: m.isclose(a, b, 0.1, 0.2),
    pointwise=True)
row("ldexp", pairs, None, None, floats, pointwise=True)
row("addcdiv", triples, dtypes=floats, pointwise=True, scale=lambda a, b, c: np.abs(a) + np.abs(b / c))
for name in "relu6 logsigmoid hardsigmoid hardswish selu mish softsign tanhshrink".split():
    row(name, one, None, None, floats, torch_call=of_functional(name), pointwise=True, scale=np.abs)
for name, numbers_of in {"leaky_relu": (0.2,), "elu": (1.5,), "celu": (1.5,), "softshrink": (0.7,), "hardshrink": (0.7,),
                         "threshold": (0.5, 2.0), "hardtanh": (-0.5, 1.5)}.items():
    row(name, one, lambda m, x, f=name, n=numbers_of: getattr(m, f)(x, *n), None, floats, pointwise=True, scale=np.abs,
        torch_call=lambda m, x, f=name, n=numbers_of: getattr(F, f)(x, *n))
row("logit", one, lambda m, x: m.logit(x, 0.1), None, floats, 30)
row("nan_to_num", one, None, same("nan_to_num"), floats)
row("prelu", products((3, 4), (4,)), None, None, floats, 8, of_functional("prelu"))
row("glu", rows_of, lambda m, x: m.glu(x[:4], 0), None, floats, 8, lambda m, x: F.glu(x[:4], 0))
row("clip", one, lambda m, x: m.clip(x, 0, 2), lambda m, x: m.clip(x, 0, 2), numbers, 0, pointwise=True)


def reduced(name, takes_none=True):
    """PyTorch's reduction over one, several or all dimensions."""
    def call(m, x, dim):
        f = getattr(m, name)
        if dim is None and takes_none:
            return f(x)
        if name == "prod" and isinstance(dim, tuple):
            return f(f(x, 0), 0)
        return f(x, dim=(0, 1) if dim is None else dim)

    return call


# PyTorch gives bytes for bytes, and multiplies 16-bit floats one after the other.
odd = {("any", "uint8"), ("all", "uint8"), ("prod", "float16"), ("prod", "bfloat16")}
for name in ("sum", "mean", "prod", "amax", "amin", "any", "all"):
    row(name, dims(None, 0, 1, (0, 1)), lambda m, x, d, f=name: getattr(m, f)(x, dim=d),
        lambda m, x, d, f=name: getattr(m, f)(x, axis=d),
        floats if name == "mean" else [t for t in every if (name, t) not in odd], 40,
        reduced(name, name not in ("amax", "amin")))
for name in ("var", "std"):
    row(name, dims((0, 0), (1, 1), (1, 0)), lambda m, x, d, f=name: getattr(m, f)(x, dim=d[0], correction=d[1]),
        lambda m, x, d, f=name: getattr(m, f)(x, axis=d[0], ddof=d[1]), floats, 60)
for name in ("max", "min"):
    row(name, dims(0, 1), lambda m, x, d, f=name: getattr(m, f)(x, dim=d), None, numbers)
for name in ("argmax", "argmin"):
    row(name, dims(None, 0, 1), lambda m, x, d, f=name: getattr(m, f)(x, dim=d),
        lambda m, x, d, f=name: getattr(m, f)(x, axis=d), numbers)
row("logsumexp", dims(0, 1, (0, 1)), lambda m, x, d: m.logsumexp(x, dim=d), None, floats, 20)
row("norm", dims(0, 1, None), lambda m, x, d: m.norm(x, dim=d), None, floats, 20)
row("cumsum", dims(0, 1), lambda m, x, d: m.cumsum(x, dim=d), lambda m, x, d: m.cumsum(x, axis=d), every, 60)
row("count_nonzero", rows_of, None, same("count_nonzero"))
for name in ("softmax", "log_softmax"):
    row(name, dims(0, 1), None, None, floats, 40)
for name in ("layer_norm", "rms_norm"):
    row(name, normalized, None, None, floats, 200, of_functional(name))

rows("matmul mm", products((3, 4), (4, 5)), numbers, {"mm": "matmul"}, slack=30)
rows("bmm", products((2, 3, 4), (2, 4, 5)), numbers, {"bmm": "matmul"}, slack=30)
rows("mv", products((3, 4), (4,)), numbers, {"mv": "matmul"}, slack=30)
rows("dot", products((4,), (4,)), numbers, slack=30)
rows("outer", products((3,), (5,)), numbers, slack=2)
row("addmm", products((3, 5), (3, 4), (4, 5)), lambda m, c, a, b: m.addmm(c, a, b, beta=0.5, alpha=2), None, floats, 30)
row("linear", products((3, 4), (5, 4), (5,)), None, None, floats, 30, of_functional("linear"))
row("scaled_dot_product_attention", products((2, 3, 8), (2, 5, 8), (2, 5, 8)), None, None, floats, 60,
    of_functional("scaled_dot_product_attention"))
for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits"):
    row(name, losses, lambda m, x, y, r, f=name: getattr(m, f)(x, y, reduction=r), None, floats, 30,
        lambda m, x, y, r, f=name: getattr(F, f)(x, y, reduction=r))
for name in ("cross_entropy", "nll_loss"):
    row(name, classes, lambda m, x, y, r, f=name: getattr(m, f)(x, y, reduction=r), None, floats, 60,
        lambda m, x, y, r, f=name: getattr(F, f)(x, y, reduction=r))

for name in ("kl_div", "poisson_nll_loss", "hinge_embedding_loss", "soft_margin_loss", "multilabel_soft_margin_loss"):
    row(name, losses, lambda m, x, y, r, f=name: getattr(m.nn.functional, f)(x, y if f != "soft_margin_loss" else
                                                                             y.detach(), reduction=r),
        None, floats, 60)
row("binary_cross_entropy", probabilities, lambda m, x, y, r: m.nn.functional.binary_cross_entropy(x, y, reduction=r),
    None, floats, 60)
for name, inputs in {"gaussian_nll_loss": three(0.2, 3), "margin_ranking_loss": three(-1, 1),
                     "triplet_margin_loss": three(-3, 3)}.items():
    row(name, inputs, lambda m, *a, f=name: getattr(m.nn.functional, f)(*a), None, ("float32", "float64"), 100)
row("cosine_embedding_loss", three(-1, 1), lambda m, x, y, z: m.nn.functional.cosine_embedding_loss(
    x, y, m.tensor([1, -1, 1, -1, 1])), None, ("float32", "float64"), 100)
row("multi_margin_loss", lambda *a: [[x, Array(np.array([0, 3, 1, 1, 2]), "int64")] for x, _ in labels(*a)],
    lambda m, x, t: m.nn.functional.multi_margin_loss(x, t, margin=0.7), None, ("float32", "float64"), 60)
row("multilabel_margin_loss", labels, lambda m, x, t: m.nn.functional.multilabel_margin_loss(x, t), None,
    ("float32", "float64"), 60)
row("ctc_loss", sequences, lambda m, x, t: m.nn.functional.ctc_loss(
    m.log_softmax(x, 2), t, m.tensor([7, 6, 4]), m.tensor([3, 2, 1])), None, ("float32", "float64"), 200)
row("normalize", lambda *a: [[x] for x, _, _ in losses(*a)[:1]], lambda m, x: m.nn.functional.normalize(x), None,
    floats, 30)
for name in ("cosine_similarity", "pairwise_distance"):
    row(name, lambda *a: [[x, y] for x, y, _ in losses(*a)[:1]], None, None, ("float32", "float64"), 100)
row("cdist", products((2, 30, 6), (2, 7, 6)), lambda m, x, y: m.cdist(x, y, 2.0, "donot_use_mm_for_euclid_dist"), None,
    ("float32", "float64"), 100)
row("pdist", lambda *a: [[x] for x, _, _ in losses(*a)[:1]], None, None, ("float32", "float64"), 100)

copies = {
    "cat": lambda m, x: m.cat([x, x], 0), "stack": lambda m, x: m.stack([x, x], 1),
    "flip": lambda m, x: m.flip(x, (0, 1)), "fliplr": same("fliplr"), "flipud": same("flipud"),
    "roll": lambda m, x: m.roll(x, (1, -2), (0, 1)), "tile": lambda m, x: m.tile(x, (2, 1)),
    "diagonal": lambda m, x: m.diagonal(x, 1), "t": same("t"), "transpose": lambda m, x: m.transpose(x, 0, 1),
    "permute": lambda m, x: m.permute(x, (1, 0)), "reshape": lambda m, x: m.reshape(x, (-1,)),
    "squeeze": lambda m, x: m.squeeze(x[:1]), "unsqueeze": lambda m, x: m.unsqueeze(x, 1), "flatten": same("flatten"),
    "chunk": lambda m, x: m.chunk(x, 2, 1)[0], "split": lambda m, x: m.split(x, 2, 1)[1],
    "unbind": lambda m, x: m.unbind(x, 1)[1], "narrow": lambda m, x: m.narrow(x, 1, 1, 2),
    "select": lambda m, x: m.select(x, 1, 2), "clone": same("clone"), "detach": same("detach"),
    "expand": lambda m, x: x[:1].expand(3, x.shape[1]), "repeat": lambda m, x: x.repeat(2, 1),
    "broadcast_to": lambda m, x: m.broadcast_to(x[:1], (3, x.shape[1])), "unfold": lambda m, x: x.unfold(1, 3, 2),
    "contiguous": lambda m, x: x.contiguous(), "nonzero": same("nonzero"), "argwhere": same("argwhere"),
    "movedim": lambda m, x: m.movedim(x, 0, 1), "moveaxis": lambda m, x: m.moveaxis(x, 0, 1),
    "swapaxes": lambda m, x: m.swapaxes(x, 0, 1), "swapdims": lambda m, x: m.swapdims(x, 0, 1),
    "unflatten": lambda m, x: m.unflatten(x, 1, (3, -1)), "ravel": same("ravel"),
    "atleast_1d": lambda m, x: m.atleast_1d(x[0, 0]), "atleast_2d": lambda m, x: m.atleast_2d(x[0]),
    "atleast_3d": same("atleast_3d"), "broadcast_tensors": lambda m, x: m.broadcast_tensors(x, x[:1])[1],
    "meshgrid": lambda m, x: m.meshgrid(x[0], x[:, 0], indexing="xy")[0],
    "split_with_sizes": lambda m, x: m.split_with_sizes(x, [2, x.shape[1] - 2], 1)[1],
    "tensor_split": lambda m, x: m.tensor_split(x, 4, 1)[1], "hsplit": lambda m, x: m.hsplit(x, (2, 5))[1],
    "vsplit": lambda m, x: m.vsplit(x, (2,))[1], "dsplit": lambda m, x: m.dsplit(x[:, None], 3)[2],
    "hstack": lambda m, x: m.hstack([x, x]), "vstack": lambda m, x: m.vstack([x, x[0]]),
    "row_stack": lambda m, x: m.vstack([x[0], x[1]]), "dstack": lambda m, x: m.dstack([x, x]),
    "column_stack": lambda m, x: m.column_stack([x, x[:, 0]]), "block_diag": lambda m, x: m.block_diag(x, x[0]),
    "cartesian_prod": lambda m, x: m.cartesian_prod(x[0], x[:, 0]),
    "repeat_interleave": lambda m, x: m.repeat_interleave(x, 3, 1), "rot90": lambda m, x: m.rot90(x, -1),
    "pixel_shuffle": lambda m, x: m.pixel_shuffle(x[:4, :9].reshape(4, 3, 3), 2),
    "pixel_unshuffle": lambda m, x: m.pixel_unshuffle(x[:4, :9].reshape(4, 3, 3), 3),
    "channel_shuffle": lambda m, x: m.channel_shuffle(x[:4, :9].reshape(1, 4, 9), 2),
    "diag": lambda m, x: m.diag(x[0], 1), "diag_embed": lambda m, x: m.diag_embed(x, -1, 0, 2),
    "diagonal_scatter": lambda m, x: m.diagonal_scatter(x[:3, :4], x[0, :3], 1),
    "select_scatter": lambda m, x: m.select_scatter(x, x[0], 0, 1),
    "slice_scatter": lambda m, x: m.slice_scatter(x, x[:1], 0, 2, 3), "tril": lambda m, x: m.tril(x, 1),
    "triu": lambda m, x: m.triu(x, -1),
}
for name, call in copies.items():
    row(name, rows_of, call, slack=0)
row("pad", dims((1, 2), (-1, 0, 2, -1)), None, None, slack=0, torch_call=lambda m, x, edges: F.pad(x, edges))
for mode in ("reflect", "replicate", "circular"):
    row(f"pad_{mode}", rows_of, lambda m, x, kind=mode: m.pad(x, (3, -1), kind), None, floats, 4,
        lambda m, x, kind=mode: F.pad(x, (3, -1), mode=kind))
# PyTorch adds the gradients of 16-bit floats one after the other.
row("combinations", rows_of, lambda m, x: m.combinations(x[0], 3), None, ("float32", "float64", *integers, "bool"), 60)
row("trace", rows_of, None, None, slack=20)
row("vander", rows_of, lambda m, x: m.vander(x[0], 3), None, integers, 0)  # PyTorch has no gradient
row("tensordot", products((2, 4), (4, 3)), lambda m, a, b: m.tensordot(a, b, 1), None, numbers, 30)
for name in ("unique", "unique_consecutive"):
    row(name, rows_of, dtypes=(*integers, "bool"), slack=0)

along = {"dtypes": every, "slack": 0}
row("index_select", indexed((6,), 5), lambda m, x, i: m.index_select(x, 0, i), lambda m, x, i: m.take(x, i, axis=0),
    **along)
row("gather", indexed((3, 4), 5), lambda m, x, i: m.gather(x, 0, i), lambda m, x, i: m.take_along_axis(x, i, axis=0),
    **along)
row("take_along_dim", indexed((3, 4), 5), lambda m, x, i: m.take_along_dim(x, i, 0),
    lambda m, x, i: m.take_along_axis(x, i, axis=0), **along)
row("take", indexed((6,), 20), None, same("take"), **along)
row("index", indexed((6,), 5), lambda m, x, i: x[i], lambda m, x, i: x[i], **along)
row("index_add", indexed((6,), 5, source=True), lambda m, x, i, s: m.index_add(x, 0, i, s), None, numbers, 8)
row("index_copy", indexed((4,), 5, source=True), lambda m, x, i, s: m.index_copy(x, 0, i, s), **along)
row("index_fill", indexed((3,), 5, value=True), lambda m, x, i, v: m.index_fill(x, 0, i, v), **along)
row("index_put", indexed((4,), 5, source=True), lambda m, x, i, s: m.index_put(x, [i], s), **along)
row("scatter", indexed((4, 4), 4, source=True),
    lambda m, x, i, s: m.scatter(x, 0, i * 0 + m.arange(4).reshape(4, 1), s), **along)
row("scatter_add", indexed((4, 4), 5, source=True), lambda m, x, i, s: m.scatter_add(x, 0, i, s), None, numbers, 8)
for kind in ("sum", "prod", "mean", "amax", "amin"):
    row(f"scatter_reduce_{kind}", indexed((4, 4), 5, source=True),
        lambda m, x, i, s, k=kind: m.scatter_reduce(x, 0, i, s, k), None,
        [t for t in numbers if t != "float16" or kind != "prod"], 16)
row("embedding", indexed((6,), 5), None, None, floats, 8, lambda m, x, i: F.embedding(i, x))
row("masked_fill", masked(value=True), **along)
row("masked_select", masked(), None, lambda m, x, k: x[k], **along)
row("masked_scatter", masked(source=True), **along)
row("where", masked(value=True), lambda m, x, k, v: m.where(k, x, v), **along)
row("one_hot", lambda rng, dtype, layout: [[Array(np.array([[0, 3], [2, 1]]), dtype), 5]], dtypes=("int64",),
    torch_call=of_functional("one_hot"))
row("bincount", lambda rng, dtype, layout: [[Array(rng.integers(0, 9, 50), dtype)]], None, same("bincount"),
    ("int64", "int32", "uint8"))
row("searchsorted", lambda *a: [[*sorted_values(*a), *queries(*a)]], None, same("searchsorted"), numbers)
row("bucketize", lambda *a: [[*queries(*a), *sorted_values(*a)]], None, None, numbers)



def images(sizes, *arguments, low=-3):
    """[2, 4, *sizes] and the arguments of each call."""
    def inputs(rng, dtype, layout):
        fits = layout if layout in ("dense", "strided", "reversed") else "dense"
        return [[Array(random(rng, dtype, (2, 4, *sizes), low), dtype, fits), *given] for given in arguments]

    return inputs


def image_row(name, inputs, call=None, **options):
    row(name, inputs, call or same(name), None, **{"dtypes": floats, "slack": 16, **options},
        torch_call=call and (lambda m, *a: call(F, *a)) or of_functional(name))


for n, sizes in (("1d", (9,)), ("2d", (7, 8)), ("3d", (4, 5, 4))):
    image_row("max_pool" + n, images(sizes, (2,), (3, 2, 1), (2, 1, 1, 2), (3, 3, 1, 1, True)), dtypes=numbers, slack=0)
    image_row("avg_pool" + n, images(sizes, (2,), (3, 2, 1), (3, 3, 1, True, False), (2, 1, 1)))
    image_row("lp_pool" + n, images(sizes, (2.0, 2), (3.0, 3, 1, True), low=0.5))
    image_row("adaptive_avg_pool" + n, images(sizes, (1,), (2,), (3,), (11,)))
    image_row("adaptive_max_pool" + n, images(sizes, (1,), (2,), (3,), (11,)), slack=0)
    image_row("max_unpool" + n, images([s // 2 * 2 for s in sizes], ()), slack=0, call=lambda m, x, n=n: getattr(m, "max_unpool" + n)(
        *getattr(m if m is F else weft.nn.functional, "max_pool" + n)(x, 2, return_indices=True), 2))
    if n != "1d":
        samples = Array(np.random.default_rng(1).random((2, 4, len(sizes))), "float32", grad=False)
        image_row("fractional_max_pool" + n, images(sizes, (2, 2, None, False, samples)), dtypes=("float32",), slack=0)
image_row("im2col", images((5, 6), (2,), ((2, 3), (2, 1), 1, (1, 2))), call=lambda m, *a: (
    m.unfold if m is F else m.im2col)(*a))
image_row("col2im", lambda rng, dtype, layout: [[Array(random(rng, dtype, (2, 12, 20)), dtype), (5, 6), 2]],
          call=lambda m, *a: (m.fold if m is F else m.col2im)(*a))
image_row("interpolate", images((5, 6), ((3, 9), None, "bilinear"), ((3, 9), None, "bicubic", True), ((8, 2), None, "area"),
                                (None, 1.7, "nearest"), ((3, 4), None, "bicubic", False, None, True)))
image_row("grid_sample", lambda rng, dtype, layout: [
    [Array(random(rng, dtype, (2, 3, 5, 6)), dtype), Array(random(rng, dtype, (2, 4, 3, 2), -1.2, 1.2), dtype), *given]
    for given in (("bilinear", "zeros", False), ("bicubic", "border", True), ("bilinear", "reflection", True))],
    dtypes=("float32", "float64"), slack=64)
image_row("affine_grid", lambda rng, dtype, layout: [
    [Array(random(rng, dtype, (2, 2, 3)), dtype), (2, 1, 4, 5), align] for align in (True, False)])
image_row("local_response_norm", images((5, 6), (3,), (2, 0.5, 0.6, 1.5)))
image_row("rrelu", images((5, 6), (0.1, 0.3)))
image_row("embedding_bag", lambda rng, dtype, layout: [
    [Array(rng.integers(0, 6, 9), "int64", grad=False), Array(random(rng, dtype, (6, 4)), dtype),
     Array(np.array([0, 3, 3, 7]), "int64", grad=False), None, 2.0, kind] for kind in ("sum", "mean", "max")],
    call=lambda m, i, w, o, most, order, kind: m.embedding_bag(i, w, o, most, order, mode=kind))
# Of equal elements PyTorch takes any where no order is stable; its aminmax has the gradient NaN beside a NaN.
for name in ("sort", "argsort"):
    row(name, dims(0, 1), lambda m, x, d, f=name: getattr(m, f)(x, dim=d, stable=True), **along)
row("msort", rows_of, lambda m, x: m.msort(x.detach()), lambda m, x: m.sort(x, axis=0), **along)
for name in ("cummax", "cummin"):
    row(name, dims(0, 1), lambda m, x, d, f=name: getattr(m, f)(x, dim=d), **along)
for name in ("topk", "kthvalue"):
    row(name, dims(0, 1), lambda m, x, d, f=name: getattr(m, f)(x.detach(), 3, dim=d)[0], None, numbers, 0)
for name in ("median", "nanmedian"):
    row(name, dims(0, 1), lambda m, x, d, f=name: getattr(m, f)(x, dim=d)[0], None, numbers, 0)
row("mode", dims(0, 1), lambda m, x, d: m.mode(x, dim=d)[0], None, integers, 0)
row("aminmax", dims(0, 1), lambda m, x, d: m.aminmax(x.detach(), dim=d), None, numbers)
row("diff", dims(0, 1), lambda m, x, d: m.diff(x, dim=d), lambda m, x, d: m.diff(x, axis=d), every)
row("nansum", dims(0, 1, (0, 1)), lambda m, x, d: m.nansum(x, dim=d), lambda m, x, d: m.nansum(x, axis=d), every, 40)
row("cumprod", dims(0, 1), lambda m, x, d: m.cumprod(x[:, :5], dim=d), None, (*integers, "bool"), 0)
row("isin", rows_of, lambda m, x: m.isin(x, x[0]), lambda m, x: m.isin(x, x[0]), numbers, 0)

# Ops that cannot be compared, or that are compared under another name.
elsewhere = {
    "randint_like normal poisson standard_gamma binomial multinomial": "random",
    "logspace geomspace hann_window hamming_window blackman_window bartlett_window kaiser_window":
        "creation: pytorch_cases and tests/ops/network/losses_test.cpp",
    "rand rand_like randn randn_like randint randperm bernoulli dropout dropout1d dropout2d dropout3d alpha_dropout "
    "feature_alpha_dropout": "random",
    "pin_memory is_pinned": "test_streams.py",
    "maxout": "no such function in PyTorch; it is a reshape and a maximum",
    "real imag view_as_real view_as_complex complex polar angle sgn conj": "test_complex.py",
    "fft_fft fft_ifft fft_rfft fft_irfft fft_hfft fft_ihfft fft_fftn fft_ifftn fft_rfftn fft_irfftn fft_hfftn fft_ihfftn fft_fft2 "
    "fft_ifft2 fft_rfft2 fft_irfft2 fft_hfft2 fft_ihfft2 fft_fftshift fft_ifftshift stft istft": "test_fft.py",
    "put set_value slice strided_slice": "no such function in PyTorch; tests/ops compares them with plain loops",
    "scatter_reduce": "as scatter_reduce_sum and its like",
    "cast": "to another dtype: tests/ops/pointwise/cast_test.cpp and test_interop.py",
    "digamma i0e i1 i1e ndtri polygamma mvlgamma nextafter frexp": "pytorch_cases and tests/ops/pointwise/special_test.cpp",
    "foreach_abs foreach_exp foreach_log foreach_neg foreach_reciprocal foreach_rsqrt foreach_sign foreach_sqrt foreach_div "
    "foreach_maximum foreach_minimum foreach_mul foreach_pow foreach_add foreach_sub foreach_addcmul foreach_addcdiv "
    "foreach_lerp foreach_norm": "pytorch_cases and tests/ops/pointwise/foreach_test.cpp",
    "swiglu": "no such function in PyTorch; tests/ops compares it with silu(a) * b",
    "allclose equal": "as isclose and eq; test_values.py", "gelu": "as gelu_erf and gelu_tanh",
    "nanmean var_mean std_mean trapezoid cumulative_trapezoid softmin quantile nanquantile logcumsumexp cov corrcoef dist "
    "renorm histc histogram": "pytorch_cases/reductions.txt holds them",
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d batch_norm group_norm instance_norm":
        "pytorch_cases/convolution.txt holds them, with gradients",
    "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell pack_padded_sequence pad_packed_sequence "
    "pad_sequence bilinear": "network_cases holds them, with gradients",
    "moe_permute moe_unpermute moe_gate_dispatch moe_combine grouped_linear":
        "no such function in PyTorch; tests/ops compares them with plain loops",
    "csr_matmul csr_sampled_product": "no such function in PyTorch; test_sparse.py",
    "attention attention_varlen": "no such function in PyTorch; test_attention.py",
    "quant_blockwise dequant_blockwise fused_act_dequant fused_transpose_split_quant fused_stack_quant "
    "fused_stack_transpose_quant fused_act_dequant_transpose_act_quant fused_weighted_swiglu_act_quant "
    "fused_swiglu_weighted_bwd gemm_fp8_blockwise quantize_weight dequantize_weight quantized_linear":
        "no such function in PyTorch; tests/ops compares them with plain loops",
    "mixture_of_experts moe_topk_gate fused_gate_moe rope_frequencies rope_table rotary_embedding fused_rms_norm_residual "
    "fused_fp8_mlp fused_mlp fused_rms_mlp fused_rms_mlp_res fused_rms_qkv_rope fused_rms_qkv_rope_transposed "
    "fused_rms_qkv_rope_stacked":
        "no such function in PyTorch; test_fused.py compares them with NumPy",
    "einsum inner vdot kron baddbmm addbmm addmv addr chain_matmul logdet cholesky_solve cholesky_inverse "
    "linalg_cholesky linalg_cholesky_ex linalg_solve_triangular linalg_lu_factor linalg_lu_factor_ex linalg_lu "
    "linalg_lu_solve linalg_solve linalg_solve_ex linalg_inv linalg_inv_ex linalg_det linalg_slogdet linalg_qr "
    "linalg_householder_product linalg_eig linalg_eigvals linalg_eigh linalg_eigvalsh linalg_svd linalg_svdvals linalg_pinv "
    "linalg_matrix_rank linalg_lstsq "
    "linalg_matrix_norm linalg_cond linalg_matrix_power linalg_matrix_exp linalg_multi_dot linalg_vander "
    "linalg_tensorsolve linalg_tensorinv linalg_vecdot linalg_cross":
        "pytorch_cases/linalg.txt and linalg_complex.txt hold them, with gradients",
    "vector_norm": "as norm; pytorch_cases holds the other orders",
    "arange empty empty_like eye full full_like linspace ones ones_like zeros zeros_like as_strided to retain_grad "
    "tril_indices triu_indices":
        "no record: creation and conversion, which test_tensor.py and test_values.py look at",
}


def test_every_op_is_compared_or_named():
    ops = {name for name in weft._core._ops if not name.startswith("_") and not name.endswith("_")}
    named = {name for names in elsewhere for name in names.split()}
    assert ops - set(table) - named == set()


def test_pytorch_is_the_reference():
    values = sum(row.calls["numpy"] is not None for row in table.values())
    if torch is None:
        pytest.skip(f"PyTorch is not there: {values} of {len(table)} ops are compared with NumPy, by values alone")


# ---- differences on purpose: (op, what) to a mask of elements, given the arguments and both results ----

def nan_input(arguments, got, want):
    return np.isnan(arguments[0])


def beyond(arguments, got, want):
    return ~np.isfinite(arguments[0]) | (np.abs(arguments[0]) > 1e9) | np.isnan(want)


def tiny(arguments, got, want):
    return np.abs(arguments[0]) < 1e-2


def large(arguments, got, want):
    return arguments[0] > 19


def zero(arguments, got, want):
    return (got == 0) & (want == 0)


def lost(arguments, got, want):
    return np.isnan(want) & ~np.isnan(got) & np.isfinite(arguments[0])


def zero_or_lost(arguments, got, want):
    return zero(arguments, got, want) | lost(arguments, got, want)


def overflow(arguments, got, want):
    a, b, c = (x.astype("float32") for x in arguments)
    with np.errstate(all="ignore"):
        return ~np.isfinite(b * c) | ~np.isfinite((b - a) * (1 - c))


def out_of_range(arguments, got, want):
    with np.errstate(all="ignore"):
        squares = arguments[0].astype("float32")**2 + arguments[1].astype("float32")**2
    return (squares < 1e-3) | ~(squares < 3e4)


def tie(arguments, got, want):
    x, (low, high) = arguments[0], arguments[1:] or (0, 2)
    return (x == low) | (x == high) | (low >= high) | np.isnan(x)


def odd_rows(arguments, got, want):
    x = arguments[0].astype("float64")
    return np.full(np.shape(want), bool((~np.isfinite(x) | (np.abs(x) > 1e18) | (x == 0)).any()))


def undefined(arguments, got, want):
    """Where one of both is NaN, or an argument is NaN or infinite: the limit there, where PyTorch has inf / inf."""
    odd = [~np.isfinite(np.broadcast_to(a.astype("float64"), np.shape(want))) for a in arguments
           if np.ndim(a) == 0 or np.shape(a) == np.shape(want)]
    return np.isnan(got) | np.isnan(want) | np.logical_or.reduce(odd)


def near_one(arguments, got, want):
    return undefined(arguments, got, want) | (np.abs(np.abs(arguments[0]) - 1) < 0.02)


def above_one(arguments, got, want):
    return undefined(arguments, got, want) | (arguments[0] < 1.02) | (arguments[0] > 1e6)


def small(arguments, got, want):
    return undefined(arguments, got, want) | (np.abs(arguments[0]) < 0.6)


def cancelled(arguments, got, want):
    return np.abs(want) < 0.3


def on_the_edge(arguments, got, want):
    a, b = (x.astype("float64") for x in arguments)
    with np.errstate(all="ignore"):
        return np.abs(np.abs(a - b) - (0.2 + 0.1 * np.abs(b))) <= 0.02 * (0.2 + np.abs(b))


def anywhere(arguments, got, want):
    return np.full(np.shape(want), True)


known = {
    **{(name, "gradient"): undefined for name in
       ("copysign", "logaddexp", "logaddexp2", "xlogy", "xlog1py", "addcdiv", "relu6", "hardswish", "selu",
        "mish", "softsign", "elu", "celu", "softshrink", "hardshrink", "hardtanh", "threshold", "logsigmoid", "erfc",
        "prelu", "leaky_relu", "nan_to_num", "float_power", "fmax", "fmin", "sinh", "cosh", "exp2")},
    ("hypot", "gradient"): lambda *a: undefined(*a) | out_of_range(*a),  # squares do not leave the range
    ("ldexp", "gradient"): lambda *a: undefined(*a) | (np.abs(a[0][0].astype("float64")) > 1e37),
    ("logit", "gradient"): lambda *a: undefined(*a) | (np.abs(np.abs(a[0][0] - 0.5) - 0.4) < 1e-3),  # on a bound
    ("hardsigmoid", "gradient"): anywhere,       # PyTorch's 1 / 6 is a float's
    ("hardswish", "value"): beyond, ("mish", "value"): beyond,
    ("asin", "gradient"): near_one, ("acos", "gradient"): near_one, ("atanh", "gradient"): near_one,  # 1 - x * x cancels
    ("acosh", "gradient"): above_one,            # x * x - 1 cancels, and overflows
    ("sinc", "gradient"): small, ("tanhshrink", "gradient"): small, ("tanhshrink", "value"): small,  # differences cancel
    ("logaddexp", "value"): cancelled, ("logaddexp2", "value"): cancelled,
    ("signbit", "value"): nan_input, ("copysign", "value"): undefined,  # 16-bit NaNs lose their sign
    ("isclose", "value"): on_the_edge,           # PyTorch rounds distances to 16 bits
    ("i0", "value"): lambda *a: np.abs(a[0][0]) > 87, ("i0", "gradient"): undefined,  # PyTorch overflows early
    ("sign", "value"): nan_input,                # NaN stays NaN, as in NumPy and the array API
    ("abs", "gradient"): nan_input,
    ("silu", "value"): beyond, ("silu", "gradient"): beyond,  # the limits, where PyTorch has infinity times 0
    ("gelu_erf", "value"): beyond, ("gelu_erf", "gradient"): beyond,
    ("gelu_tanh", "value"): beyond, ("gelu_tanh", "gradient"): beyond,
    ("erf", "value"): tiny,                      # PyTorch's of 16-bit floats is not relatively exact
    ("softplus", "value"): large, ("softplus", "gradient"): large,  # PyTorch cuts off at 20
    ("remainder", "value"): zero_or_lost,        # a zero has the divisor's sign, as in Python and NumPy
    ("fmod", "value"): lost,                     # PyTorch gives NaN where the quotient overflows
    ("addcmul", "value"): overflow, ("lerp", "value"): overflow,  # PyTorch does not round the product
    ("atan2", "gradient"): out_of_range,         # squares do not leave the range
    ("clamp", "gradient"): tie, ("clip", "gradient"): tie,  # an element on a bound keeps its gradient
    ("prod", "gradient"): odd_rows, ("amax", "gradient"): odd_rows, ("amin", "gradient"): odd_rows,  # NaN among them
    ("std", "value"): odd_rows, ("std", "gradient"): odd_rows,  # the variance is a float32 on the way
    ("layer_norm", "gradient"): odd_rows, ("rms_norm", "gradient"): odd_rows,
}


# ---- the comparison ----

def compare(name, row, dtype, layout, arguments, report):
    got, want = Outcome(Weft, row.calls["weft"], arguments), Outcome(Reference, row.calls[Reference.name], arguments)
    if want.error is not None or got.error is not None:
        # PyTorch has no kernels for some dtypes; weft must support all dtypes that PyTorch does.
        if want.error is None:
            report.append(f"{name} {dtype} {layout}: raised {got.error!r}"[:300])
        return 0
    inputs = [Weft.numpy(a.make(Weft)) for a in arguments if isinstance(a, Array)]
    count = 0
    compared = [("value", got.values, want.values), ("gradient", got.gradients, want.gradients)]
    for what, mine, theirs in compared[:1] if Reference is NumPy else compared:
        if len(mine) != len(theirs):
            report.append(f"{name} {dtype} {layout}: {len(mine)} {what}s, {len(theirs)} in the reference")
            continue
        for i, (a, b) in enumerate(zip(mine, theirs)):
            if what == "value" and Reference is not NumPy and got.dtypes[i] != want.dtypes[i]:
                report.append(f"{name} {dtype} {layout}: dtype {got.dtypes[i]}, {want.dtypes[i]} in the reference")
            if Reference is NumPy and is_float(got.dtypes[i]) != is_float(dtype):
                continue  # NumPy makes floats of integers by other rules
            if a is None or b is None:
                if (a is None) != (b is None):
                    report.append(f"{name} {dtype} {layout}: gradient {i} is {'absent' if a is None else 'there'}")
                continue
            if np.shape(a) != np.shape(b):
                report.append(f"{name} {dtype} {layout}: {what} of shape {np.shape(a)}, {np.shape(b)} in the reference")
                continue
            count += np.size(b)
            kind = got.dtypes[i] if what == "value" else dtype
            pointwise = what == "value" and "pointwise" in row.options
            scale = None if pointwise or not is_float(kind) else np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
            if what == "value" and "scale" in row.options and is_float(dtype):
                with np.errstate(all="ignore"):
                    scale = row.options["scale"](*[x.astype("float64") for x in inputs])
            wrong = differing(a, b, kind, row.slack * (1 if what == "value" else 8), scale, zeros=pointwise,
                              brink=what == "gradient")
            excused = known.get((name, what))
            if excused is not None and (len(inputs) == 1 or all(np.shape(x) == np.shape(b) for x in inputs)):
                wrong &= ~excused(inputs, a, b)
            if wrong.any():
                at = tuple(np.argwhere(wrong)[0])
                given = [x[at] if np.shape(x) == np.shape(b) else "..." for x in inputs]
                report.append(f"{name} {dtype} {layout}: {what} {i} differs at {wrong.sum()} of {wrong.size}; "
                              f"of {given}: {a[at]!r}, {b[at]!r} in the reference")
    return count


counted = collections.Counter()


@pytest.mark.parametrize("name", table)
def test_values_dtypes_shapes_and_gradients_are_the_references(name):
    row = table[name]
    if row.calls[Reference.name] is None:
        pytest.skip(f"NumPy has no {name}, and PyTorch is not there")
    report = []
    for dtype in row.dtypes:
        if Reference is NumPy and dtype in ("bfloat16", "float16"):
            continue
        for layout in ("dense", "strided", "reversed", "0-d", "empty"):
            rng = np.random.default_rng(5)
            for arguments in row.inputs(rng, dtype, layout):
                counted[name] += compare(name, row, dtype, layout, arguments, report)
    assert counted[name] > 0, "nothing was compared"
    assert not report, f"{len(report)} differences\n" + "\n".join(report[:12])
