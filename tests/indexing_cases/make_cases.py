"""Writes cases.jsonl: what x[index], x[index] = v and x[index] += v give, and their gradients.

    python3 -m venv /tmp/cases && /tmp/cases/bin/pip install numpy==2.4.6 torch==2.15.0
    /tmp/cases/bin/python tests/indexing_cases/make_cases.py

The file is the same for the same seed. Values come from NumPy, gradients from PyTorch, and PyTorch must agree with NumPy
about values and about what is an error, or nothing is written. They differ from each other, and Weft from one of them:

- integers and 0-d integer tensors are taken first, as PyTorch does; NumPy lets them broadcast with lists;
- negative steps work, as in NumPy; for PyTorch the dimension is reversed first;
- an Ellipsis that stands for no dimension separates nothing, as in PyTorch;
- uint8 holds integers, as in NumPy; int8 and int16 are allowed too;
- a value may have leading sizes of 1 for masks too, as in PyTorch;
- an index out of range is an error even where nothing would be read, as in NumPy;
- a value that a later duplicate overwrites has no gradient; PyTorch gives every duplicate the gradient of its place.

A line is a JSON object. x: shape, whose elements are 0, 1, 2, …; i: the index, in which null is None, a string a slice
or Ellipsis, an array a list, and {t, s, v} a tensor of dtype t, shape s and elements v; w: what is written, a number or
a shape whose elements are 40, 41, …; a: 1 to accumulate; d: the dtypes of x and v where they are not all tried; v: v's
elements where they are others. Expected: s: the shape that x[index] has; y: its elements or, for a write, those of x;
dx and dv: the gradients for g = 1, 2, 3, …; e: the error.
"""
import json
import pathlib
import random
import sys

import numpy
import torch

SEED = 20
COUNTS = {"get": 2600, "set": 1900, "add": 500, "error": 500}
INTEGERS = ["int8", "int16", "int32", "int64", "int64", "int64", "uint8"]


# ---- the index as the file has it -> NumPy and PyTorch ---------------------------------------------------------------

def is_tensor(item):
    return isinstance(item, dict)


def array(item):
    """The NumPy array of a list or tensor."""
    if isinstance(item, list):
        return numpy.array(item, numpy.int64)
    return numpy.array(item["v"], item["t"]).reshape(item["s"])


def is_slice(item):
    return isinstance(item, str) and item != "..."


def to_slice(text):
    return slice(*(int(part) if part else None for part in text.split(":")))


def is_integer(item):
    if is_tensor(item):
        return item["s"] == [] and item["t"] not in ("bool", "float32")
    return isinstance(item, int) and not isinstance(item, bool)


def consumed(item):
    if item is None or isinstance(item, bool) or item == "...":
        return 0
    if is_tensor(item) and item["t"] == "bool":
        return len(item["s"])
    return 1


class Refused(Exception):
    """An index or value that is an error; the message is the kind."""


def expand(index, rank):
    """The index without Ellipsis, one item or mask for every dimension."""
    if index.count("...") > 1 or sum(map(consumed, index)) > rank:
        raise Refused("IndexError")
    at = index.index("...") if "..." in index else len(index)
    rest = [":"] * (rank - sum(map(consumed, index)))
    return index[:at] + rest + index[at + 1:]


def numpy_item(item):
    if isinstance(item, (list, dict)):
        return array(item)
    return to_slice(item) if is_slice(item) else Ellipsis if item == "..." else item


def numpy_get(x, index):
    full = expand(index, x.ndim)
    first = []
    for item in full:
        if is_integer(item):
            first.append(int(array(item)) if is_tensor(item) else item)
        else:
            first += [slice(None)] * consumed(item)
    rest = [numpy_item(item) for item in full if not is_integer(item)]
    try:
        out = x[tuple(first)][tuple(rest)]
        if len(rest) == len(full) and "..." not in index:
            assert numpy.array_equal(out, x[tuple(map(numpy_item, index))])
        return out
    except IndexError as error:
        # PyTorch's and Weft's name for an index of floats.
        raise Refused("DTypeError" if "must be of integer" in str(error) else "IndexError") from None
    except ValueError:
        raise Refused("ValueError") from None


def torch_index(index, shape):
    """The index with positive steps, and the dimensions to reverse before it is used."""
    out, reversed_dims, d = [], [], 0
    for item in expand(index, len(shape)):
        if is_slice(item):
            part = to_slice(item)
            if part.step is not None and part.step < 0:
                positions = range(*part.indices(shape[d]))
                last = shape[d] - 1
                part = slice(last - positions[0], last - positions[-1] + 1, -part.step) if positions else slice(0, 0)
                reversed_dims.append(d)
            out.append(part)
        elif isinstance(item, list) or is_tensor(item):
            values = array(item)
            out.append(torch.from_numpy(values.astype(values.dtype if values.dtype.kind in "bf" else numpy.int64)))
        else:
            out.append(item)
        d += consumed(item)
    return tuple(out), reversed_dims


def torch_get(x, index):
    items, reversed_dims = torch_index(index, x.shape)
    return x.flip(reversed_dims)[items]


def torch_set(x, index, v):
    items, reversed_dims = torch_index(index, x.shape)
    y = x.flip(reversed_dims) if reversed_dims else x.clone()
    y[items] = v
    return y.flip(reversed_dims)


def torch_add(x, index, v):
    places = torch_get(torch.arange(x.numel()).reshape(x.shape), index)
    terms = trimmed(v, places.dim()).expand(places.shape)
    return x.reshape(-1).index_put((places.reshape(-1),), terms.reshape(-1), accumulate=True).reshape(x.shape)


def trimmed(v, rank):
    while v.ndim > rank and v.shape[0] == 1:
        v = v[0]
    return v


# ---- what is expected ------------------------------------------------------------------------------------------------

def numbers(values):
    values = numpy.asarray(values).reshape(-1).tolist()
    return [int(v) if v == int(v) else v for v in values]


def counted(shape, first=0):
    return torch.arange(first, first + int(numpy.prod(shape)), dtype=torch.float64).reshape(shape)


def solve_get(case):
    shape = case["x"]
    out = numpy_get(numpy.arange(int(numpy.prod(shape))).reshape(shape), case["i"])
    x = counted(shape).requires_grad_()
    y = torch_get(x, case["i"])
    assert tuple(y.shape) == out.shape and numpy.array_equal(y.detach().numpy(), out)
    y.backward(counted(out.shape, 1))
    case.update(s=list(out.shape), y=numbers(out), dx=numbers(x.grad))


def value_of(case):
    return torch.tensor(float(case["w"])).double() if isinstance(case["w"], int) else counted(case["w"], 40)


def solve_set(case):
    shape, add = case["x"], case.get("a")
    places = numpy_get(numpy.arange(int(numpy.prod(shape))).reshape(shape), case["i"])
    v = value_of(case)
    try:
        terms = numpy.broadcast_to(trimmed(v.numpy(), places.ndim), places.shape)
    except ValueError:
        raise Refused("ShapeError") from None
    out = numpy.arange(int(numpy.prod(shape)), dtype=float)
    for place, term in zip(places.reshape(-1), terms.reshape(-1)):
        out[place] = out[place] + term if add else term
    x = counted(shape).requires_grad_()
    v.requires_grad_()
    y = (torch_add if add else torch_set)(x, case["i"], v)
    # Without accumulation PyTorch leaves open which of the duplicates stays.
    if add or numpy.unique(places).size == places.size:
        assert numpy.array_equal(y.detach().numpy().reshape(-1), out)
    g = counted(shape, 1)
    dx, dv = torch.autograd.grad(y, (x, v), g, allow_unused=True)
    if not add:
        stays = numpy.zeros(places.size)
        stays[list({place: i for i, place in enumerate(places.reshape(-1))}.values())] = 1
        of_terms = g.reshape(-1)[torch.from_numpy(numpy.array(places))] * torch.from_numpy(stays.reshape(places.shape))
        wide = v.reshape(v.shape[max(v.dim() - places.ndim, 0):]).expand(places.shape)
        dv, = torch.autograd.grad(wide, v, of_terms.to(v.dtype), allow_unused=True)
    case.update(s=list(places.shape), y=numbers(out), dx=numbers(g if dx is None else dx))
    if not isinstance(case["w"], int):
        case["dv"] = numbers(torch.zeros_like(v) if dv is None else dv)


def torch_refuses(case):
    x = counted(case["x"])
    try:
        torch_set(x, case["i"], value_of(case)) if "w" in case else torch_get(x, case["i"])
    except (IndexError, RuntimeError, TypeError, ValueError, Refused):
        return True
    return False


def solve(case):
    try:
        solve_set(case) if "w" in case else solve_get(case)
    except Refused as error:
        kind = str(error)
        # A step of 0 cannot be turned around; of the rest PyTorch lets pass what the top of this file names.
        if kind != "ValueError" and not torch_refuses(case):
            assert kind == "IndexError" and 0 in case["x"], case
        case["e"] = kind
    return case


# ---- random cases ----------------------------------------------------------------------------------------------------

class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def shape(self):
        while True:
            rank = self.r.choices([0, 1, 2, 3, 4, 5], [2, 14, 34, 30, 14, 4])[0]
            shape = self.r.choices([0, 1, 2, 3, 4, 5, 7], [3, 14, 30, 28, 14, 7, 4], k=rank)
            if numpy.prod(shape) <= 24:
                return shape

    def integer(self, n):
        return self.r.randrange(-n, n)

    def slice(self, n):
        step = self.r.choice([None, None, None, 1, 2, 3, -1, -1, -2, -3, 9, -9])
        bounds = [self.r.choice([None, self.r.randint(-n - 3, n + 3)]) for _ in range(2)]
        parts = bounds + ([step] if step is not None else [])
        return ":".join("" if part is None else str(part) for part in parts)

    def tensor(self, shape, n, dtype=None):
        count = int(numpy.prod(shape))
        dtype = dtype or self.r.choice(INTEGERS)
        low = 0 if dtype == "uint8" else -n
        return {"t": dtype, "s": shape, "v": [self.r.randrange(low, n) for _ in range(count)]}

    def mask(self, shape, count=None):
        numel = int(numpy.prod(shape))
        if count is None or count > numel:
            bits = [self.r.randrange(2) for _ in range(numel)]
        else:
            bits = [1] * count + [0] * (numel - count)
            self.r.shuffle(bits)
        return {"t": "bool", "s": shape, "v": bits}

    def part_of(self, shape):
        """A shape that broadcasts to `shape`."""
        part = [1 if self.r.random() < 0.2 else n for n in shape]
        return part[self.r.randint(0, len(part)):] if self.r.random() < 0.3 else part

    def index(self, shape, advanced):
        """An index that fits `shape`; `advanced` is the share of lists, tensors and masks."""
        broadcast = self.r.choice([[2], [2], [3], [1], [2, 2], [1, 3], [2, 1], [0], []])
        items, d = [], 0
        while d < len(shape):
            n, extra = shape[d], self.r.random()
            if extra < 0.07:
                items.append(None)
            if extra > 1 - 0.05 * advanced:
                items.append(self.r.random() < 0.7)
            if self.r.random() >= advanced:
                items.append(self.r.choice([self.integer(n), self.slice(n)]) if n else self.slice(n))
            elif self.r.random() < 0.25:
                rank = self.r.randint(1, min(3, len(shape) - d))
                only = not any(isinstance(item, (list, dict)) for item in items)
                count = None if only and self.r.random() < 0.5 else self.r.choice([1, (broadcast or [1])[-1]])
                items.append(self.mask(shape[d:d + rank], count))
                d += rank - 1
            else:
                part = self.part_of(broadcast)
                if n == 0:
                    part = [0]
                tensor = self.tensor(part, n)
                items.append(tensor["v"] if len(part) == 1 and self.r.random() < 0.5 else tensor)
            d += 1
        if self.r.random() < 0.08:
            items.append(None)
        if self.r.random() < 0.02 + (0.2 if not shape else 0):
            items.append(self.r.random() < 0.6)
        if self.r.random() < 0.25:
            items = self.shortened(items)
        return items

    def shortened(self, items):
        """Ellipsis for a run of items, or nothing for the last ones."""
        start = self.r.randint(0, len(items))
        stop = self.r.randint(start, min(len(items), start + 2))
        return items[:start] + ["..."] + items[stop:] if self.r.random() < 0.8 else items[:start]

    def get(self):
        shape = self.shape()
        return {"x": shape, "i": self.index(shape, self.r.choice([0, 0.3, 0.5, 0.8]))}

    def value(self, selected):
        form = self.r.random()
        if form < 0.15:
            return self.r.randint(40, 90)
        if form < 0.25:
            return []
        part = [1 if self.r.random() < 0.25 else n for n in selected]
        if form < 0.5:
            part = part[self.r.randint(0, len(part)):]
        return [1] * (self.r.random() < 0.15) + part if form > 0.8 and len(part) < 7 else part

    def set(self, accumulate=False):
        while True:
            case = self.get()
            try:
                selected = numpy_get(numpy.zeros(case["x"]), case["i"])
            except Refused:
                continue
            if selected.size <= 40:
                break
        case["w"] = self.value(list(selected.shape))
        if accumulate:
            case["a"] = 1
        return case

    def error(self):
        """A case that works, with one mistake in it."""
        mistake = self.r.choice(["range", "list", "many", "mask", "broadcast", "step", "float", "ellipses", "value"])
        if mistake == "value":
            case = self.set()
            selected = list(numpy_get(numpy.zeros(case["x"]), case["i"]).shape)
            bad = [n + 2 for n in selected] or [2]
            case["w"] = self.r.choice([bad, bad[:1] + selected[1:], [0] + selected[1:], [2] + selected])
            return case
        case = self.get()
        shape, items = case["x"], case["i"]
        if mistake == "many":
            case["i"] = [0] * (len(shape) + 1) if 0 not in shape else [":"] * (len(shape) + 1)
        elif mistake == "ellipses":
            case["i"] = ["..."] + items + ["..."] * (2 - items.count("..."))
        elif not shape:
            case["i"] = [0]
        else:
            d = self.r.randrange(len(shape))
            n = shape[d]
            beyond = self.r.choice([n, n + 1, -n - 1, 2**40, -2**40])
            wrong = {
                "range": [beyond],
                "list": [[0] * (n > 0) + [beyond]],
                "mask": [self.mask([n + self.r.choice([1, 2])])],
                "broadcast": [self.tensor([2], max(n, 1)), self.tensor([3], max(n, 1))],
                "step": ["::0"],
                "float": [{"t": "float32", "s": [1], "v": [0]}],
            }[mistake]
            case["i"] = [":"] * d + wrong
            if self.r.random() < 0.3:
                case["i"] = [":"] * d + wrong + [None]
        if self.r.random() < 0.4:
            case["w"] = self.r.choice([7, [], [1]])
        return case


def typed_cases():
    """Values that change on their way into x's dtype."""
    big = 9007199254740993
    return [
        {"x": [3], "i": [1], "w": 16777217, "d": ["int32"], "s": [], "y": [0, 16777217, 2]},
        {"x": [3], "i": [[1, 2]], "w": big, "d": ["int64"], "s": [2], "y": [0, big, big]},
        {"x": [3], "i": [{"t": "bool", "s": [3], "v": [1, 0, 1]}], "w": -big, "d": ["int64"], "s": [2],
         "y": [-big, 1, -big]},
        {"x": [4], "i": ["::-1"], "w": [4], "v": [1.5, -1.5, 2.9, -0.9], "d": ["int32", "float64"], "s": [4],
         "y": [0, 2, -1, 1]},
        {"x": [4], "i": [[3, 0]], "w": [2], "v": [-3.7, 3.7], "d": ["int16", "float32"], "s": [2], "y": [3, 1, 2, -3]},
        {"x": [2], "i": [[1, 1]], "w": [2], "v": [0.5, 0.25], "d": ["float32", "float64"], "a": 1, "s": [2], "y": [0, 1.75]},
        {"x": [2], "i": [[0, 0]], "w": [2], "v": [1, 0], "d": ["bool", "bool"], "a": 1, "s": [2], "y": [1, 1]},
        {"x": [2], "i": [[0, 0]], "w": [2], "v": [1, 0], "d": ["bool", "bool"], "s": [2], "y": [0, 1]},
        {"x": [2], "i": [[0]], "w": [1], "v": [2], "d": ["bool", "int32"], "s": [1], "y": [1, 1]},
    ]


def main():
    maker, cases, seen = Maker(SEED), typed_cases(), set()
    makers = {"get": maker.get, "set": maker.set, "add": lambda: maker.set(True), "error": maker.error}
    for kind, count in COUNTS.items():
        made = 0
        while made < count:
            case = makers[kind]()
            text = json.dumps(case)
            if text in seen:
                continue
            seen.add(text)
            solve(case)
            if kind == "error" and "e" not in case:
                continue
            made += 1
            cases.append(case)
    lines = [json.dumps(case, separators=(",", ":")) for case in cases]
    path = pathlib.Path(__file__).with_name("cases.jsonl")
    path.write_text("\n".join(lines) + "\n")
    errors = sum("e" in case for case in cases)
    print(f"{len(cases)} cases, {errors} of them errors, {path.stat().st_size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
