"""Random calls of functions that PyTorch and Weft share.

A line of calls.txt is a call with placeholders, `m.add(<x>, <x:broadcast>, alpha=<number>?)`: `m` is torch or weft, `F` its
nn.functional, and `?` drops an argument in half of the calls. `draw(line, seed)` fills the placeholders from left to right. The
first tensor is the base: later placeholders take its shape and dtype into account."""

import dataclasses
import random
import re

REAL = ["float64"] * 6 + ["float32"] * 4 + ["float16", "bfloat16"]
INTEGER = ["int64"] * 3 + ["int32", "int16", "int8", "uint8"]
COMPLEX = ["complex128", "complex64"]
DTYPES = {
    "x": REAL + INTEGER[:4] + ["uint8", "bool"] + COMPLEX, "real": REAL + INTEGER + ["bool"], "ordered": REAL + INTEGER,
    "float": REAL, "double": ["float64"] * 2 + ["float32"], "inexact": REAL + COMPLEX, "linear": ["float64"] * 3 + ["float32"] + COMPLEX,
    "integer": INTEGER, "complex": COMPLEX, "bool": ["bool"], "bits": INTEGER + ["bool"],
}


@dataclasses.dataclass
class Tensor:
    """A tensor by its dtype, its shape, its values in row-major order and how they are laid out in memory."""
    dtype: str
    shape: list
    data: list
    layout: str = "contiguous"

    def make(self, m):
        pairs = self.dtype.startswith("complex")
        flat = m.tensor(self.data, dtype=m.float64 if pairs else getattr(m, self.dtype))
        t = flat.reshape(self.shape + [2] if pairs else self.shape)
        t = m.view_as_complex(t.contiguous()).to(getattr(m, self.dtype)) if pairs else t
        if self.layout == "transposed" and t.dim() > 1:
            return t.transpose(0, -1).contiguous().transpose(0, -1)
        if self.layout == "stepped" and t.dim() > 0:
            return m.stack([t, t], -1).flatten(-2)[..., ::2]
        if self.layout == "offset":
            return m.cat([t.reshape(-1)[:1], t.reshape(-1)])[min(1, t.numel()):].view(self.shape)
        return t


@dataclasses.dataclass
class Call:
    expression: str
    inputs: dict

    def __str__(self):
        given = ", ".join(f"{name} = {t.dtype}{t.shape} {t.layout} {t.data[:12]}" for name, t in self.inputs.items())
        return f"{self.expression}   with {given}"


class Draw:
    """Draws the arguments of one call."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.base = None
        self.inputs = {}
        self.sizes = {}

    # ---- values
    def value(self, dtype, low=-4.0, high=4.0):
        rng = self.rng
        if dtype.startswith("complex"):
            return [self.value("float64", low, high), self.value("float64", low, high)]
        if dtype == "bool":
            return rng.random() < 0.5
        if "int" in dtype:
            return int(rng.randint(max(0, int(low)) if dtype[0] == "u" else int(low), int(high)))
        if rng.random() < 0.15:
            return float(rng.choice([x for x in (0.0, 1.0, -1.0, 2.0, 0.5) if low <= x <= high] or [high]))
        return round(rng.uniform(low, high) * 8) / 8 if rng.random() < 0.5 else rng.uniform(low, high)

    def size(self):
        return self.rng.choice([1, 2, 2, 3, 3, 4, 5] if self.rng.random() < 0.97 else [0])

    def shape(self, rank=None):
        rank = self.rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4]) if rank is None else rank
        return [self.size() for _ in range(rank)]

    def tensor(self, dtype, shape, low=-4.0, high=4.0, values=None):
        count = 1
        for size in shape:
            count *= size
        if values is None:
            values = [self.value(dtype, low, high) for _ in range(count)]
        layout = self.rng.choice(["contiguous", "contiguous", "transposed", "stepped", "offset"])
        drawn = Tensor(dtype, list(shape), values, layout)
        name = "abcdefghij"[len(self.inputs)]
        self.inputs[name] = drawn
        if self.base is None:
            self.base = drawn
        return name

    def dtype_of(self, group):
        """The base's dtype in two draws of three, where the group has it."""
        if self.base and self.base.dtype in DTYPES[group] and self.rng.random() < 0.67:
            return self.base.dtype
        return self.rng.choice(DTYPES[group])

    def broadcast(self, shape):
        shape = [1 if self.rng.random() < 0.2 else size for size in shape]
        return shape[self.rng.randint(0, len(shape)) if self.rng.random() < 0.2 else 0:]

    # ---- placeholders: text in the brackets is NAME, NAME:FORM or NAME:FORM:RANGE
    def fill(self, text):
        name, *forms = text.split(":")
        form = forms[0] if forms else ""
        if name in DTYPES:
            return self.operand(name, form, forms[1] if len(forms) > 1 else "")
        return str(getattr(self, "pick_" + name)(form))

    def operand(self, group, form, limits):
        low, high = map(float, limits.split("..")) if limits else (-4.0, 4.0)
        if form == "same":
            return self.tensor(self.base.dtype, self.base.shape, low, high)
        dtype = self.dtype_of(group)
        if form == "broadcast":
            return self.tensor(dtype, self.broadcast(self.base.shape), low, high)
        if form == "like":
            return self.tensor(dtype, self.base.shape, low, high)
        if form.isdigit():
            return self.tensor(dtype, self.shape(int(form)), low, high)
        if form.endswith("+"):
            return self.tensor(dtype, self.shape(self.rng.randint(int(form[:-1]), 4)), low, high)
        if form == "kept":  # the dtype is the base's, the shape a new one
            return self.tensor(self.base.dtype, self.shape(), low, high)
        if form:  # sizes by name, [n m 3]: letters are drawn once in a call
            shape = [int(s) if s.isdigit() else self.named(s) for s in form.strip("[]").split()]
            return self.tensor(self.base.dtype if self.base else dtype, shape, low, high)
        return self.tensor(dtype, self.shape(), low, high)

    def named(self, name):
        return self.sizes.setdefault(name, self.rng.randint(1, 4))

    def pick_number(self, form):
        dtype = self.base.dtype if self.base else "float64"
        if form == "int" or (form != "float" and ("int" in dtype or dtype == "bool") and self.rng.random() < 0.8):
            return self.rng.randint(-3, 3) if dtype[0] != "u" else self.rng.randint(0, 3)
        if dtype.startswith("complex") and form != "float" and self.rng.random() < 0.4:
            return complex(self.value("float64"), self.value("float64"))
        return self.value("float64")

    def pick_positive(self, form):
        return self.rng.choice([0.5, 1.0, 2.0, 1.5, 3.0, 0.1])

    def pick_count(self, form):
        low, high = map(int, form.split(".."))
        return self.rng.randint(low, high)

    def pick_flag(self, form):
        return self.rng.random() < 0.5

    def pick_choice(self, form):
        return self.rng.choice(form.split("|"))

    def pick_dtype(self, form):
        return "m." + self.rng.choice(DTYPES[form or "x"])

    def pick_dim(self, form):
        rank = max(1, len(self.base.shape))
        self.last_dim = self.rng.randint(-rank, rank - 1)
        return self.last_dim

    def pick_dims(self, form):
        rank = len(self.base.shape)
        count = self.rng.randint(0 if form == "empty" else 1, max(1, rank))
        dims = self.rng.sample(range(rank), min(count, rank)) or [0] * (form != "empty" and rank == 0)
        return tuple(d - rank if rank and self.rng.random() < 0.3 else d for d in dims)

    def pick_permutation(self, form):
        order = list(range(len(self.base.shape)))
        self.rng.shuffle(order)
        return tuple(order)

    def pick_mask(self, form):
        shape = self.base.shape if form == "like" else self.broadcast(self.base.shape)
        return self.tensor("bool", shape)

    def along(self):
        """The size of the last drawn dimension of the base."""
        return self.base.shape[self.last_dim] if self.base.shape else 1

    def pick_indices(self, form):
        """Positions along the last dimension that was drawn: `1` a vector, `like` a tensor that gather takes."""
        limit = self.along()
        if form == "like":
            shape = [self.rng.randint(0 if s == 0 else 1, s) for s in self.base.shape]
            if shape:
                shape[self.last_dim] = self.rng.randint(1, 4)
        else:
            shape = [self.rng.randint(1, 4)]
        self.index_shape = shape
        count = 1
        for size in shape:
            count *= size
        if limit == 0:
            shape, count = [0 for _ in shape], 0
        return self.tensor("int64", shape, values=[self.rng.randrange(limit) for _ in range(count)])

    def pick_distinct(self, form):
        """Positions along the last dimension, each once."""
        order = list(range(self.along()))
        self.rng.shuffle(order)
        kept = order[:self.rng.randint(0, len(order))]
        self.index_shape = [len(kept)]
        return self.tensor("int64", self.index_shape, values=kept)

    def pick_source(self, form):
        """A tensor of the base's dtype: `like` the indices, or the base with as many slices as there are indices."""
        if form == "like":
            return self.tensor(self.base.dtype, self.index_shape)
        shape = list(self.base.shape)
        if shape:
            shape[self.last_dim] = self.index_shape[0]
        else:
            shape = self.index_shape
        return self.tensor(self.base.dtype, shape)

    def pick_classes(self, form):
        """Class numbers for the base, [n, C] or [n, C, …]."""
        n, classes, *rest = self.base.shape
        count = n
        for size in rest:
            count *= size
        return self.tensor("int64", [n, *rest], values=[self.rng.randrange(max(1, classes)) for _ in range(count)])

    def pick_positive_definite(self, form):
        n = self.named("n")
        rows = [[self.value("float64", -1, 1) for _ in range(n)] for _ in range(n)]
        values = [sum(rows[i][k] * rows[j][k] for k in range(n)) + (2.0 if i == j else 0.0) for i in range(n) for j in range(n)]
        return self.tensor(self.rng.choice(["float64", "float64", "float32"]), [n, n], values=values)

    def pick_well(self, form):
        """A batch of well-conditioned square matrices, with named size n."""
        n, batch = self.named("n"), self.rng.choice([[], [], [2], [1, 3]])
        count = 1
        for size in batch:
            count *= size
        dtype = self.rng.choice(DTYPES["linear"])
        values = []
        for _ in range(count):
            for i in range(n):
                for j in range(n):
                    low, high = (4.0, 6.0) if i == j else (-1.0, 1.0)
                    values.append(self.value(dtype, low, high) if not dtype.startswith("complex") else
                                  [self.value("float64", low, high), self.value("float64", -1.0, 1.0)])
        return self.tensor(dtype, [*batch, n, n], values=values)

    def pick_shape(self, form):
        return tuple(self.shape())

    def pick_regroup(self, form):
        """Another shape with as many elements as the base."""
        sizes = [s for s in self.base.shape if s != 1]
        while len(sizes) > 1 and self.rng.random() < 0.6:
            i = self.rng.randrange(len(sizes) - 1)
            sizes[i:i + 2] = [sizes[i] * sizes[i + 1]]
        for _ in range(self.rng.randint(0, 2)):
            sizes.insert(self.rng.randint(0, len(sizes)), 1)
        if sizes and 0 not in sizes and self.rng.random() < 0.4:
            sizes[self.rng.randrange(len(sizes))] = -1
        return tuple(sizes)

    def pick_start(self, form):
        return self.rng.randint(0, max(0, self.along() - 1))

    def pick_pads(self, form):
        count = self.rng.randint(1, max(1, len(self.base.shape)))
        return tuple(self.rng.randint(0, 2) for _ in range(2 * count))


def draw(line, seed):
    """The call that `line` and `seed` give; the same on every machine."""
    state = Draw(f"{line} {seed}")
    text = re.sub(r",?\s*[^,()<>\[\]]*<[^<>]*>\?", lambda part: part.group() if state.rng.random() < 0.5 else "", line)
    text = re.sub(r"\(\s*,\s*", "(", text.replace(">?", ">"))
    return Call(re.sub(r"<([^<>]*)>", lambda hole: state.fill(hole.group(1)), text), state.inputs)


def lines(path):
    """The calls of a table: `{a|b}` means each in turn, `#` begins a remark."""
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            yield from expanded(line)


def expanded(line):
    match = re.search(r"\{([^{}]*)\}", line)
    if not match:
        return [line]
    return [whole for choice in match.group(1).split("|")
            for whole in expanded(line[:match.start()] + choice.strip() + line[match.end():])]
