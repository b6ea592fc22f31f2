"""uint16, uint32 and uint64 beside NumPy, over numbers at the ends of their ranges."""

import numpy
import pytest

import weft

dtypes = ["uint16", "uint32", "uint64"]
limits = {t: int(numpy.iinfo(t).max) for t in dtypes}


def operands(rng, t, n=200):
    top = limits[t]
    edges = [0, 1, 2, 3, top, top - 1, top // 2, top // 2 + 1, top // 2 + 2]
    return numpy.concatenate([rng.choice(numpy.array(edges, t), n),
                              rng.integers(0, top, n, dtype=t, endpoint=True)])


def same(ours, expected):
    assert str(ours.dtype).split(".")[-1] == str(expected.dtype)
    assert numpy.array_equal(ours.to("cpu").numpy(), expected)


binary = {
    "add": numpy.add, "sub": numpy.subtract, "mul": numpy.multiply, "maximum": numpy.maximum, "minimum": numpy.minimum,
    "floor_divide": numpy.floor_divide, "remainder": numpy.remainder, "fmod": numpy.fmod,
    "eq": numpy.equal, "ne": numpy.not_equal, "lt": numpy.less, "le": numpy.less_equal, "gt": numpy.greater,
    "ge": numpy.greater_equal, "logical_and": numpy.logical_and, "logical_or": numpy.logical_or,
    "logical_xor": numpy.logical_xor,
}


@pytest.mark.parametrize("t", dtypes)
@pytest.mark.parametrize("name", binary)
def test_ops_of_two_arrays_and_of_one_and_a_number(rng, device, t, name):
    a, b = operands(rng, t), operands(rng, t)
    if name in ("floor_divide", "remainder", "fmod"):
        b[b == 0] = 3
    ours, theirs = getattr(weft, name), binary[name]
    x, y = weft.tensor(a, device=device), weft.tensor(b, device=device)
    same(ours(x, y), theirs(a, b))
    same(ours(x[::2], y[1::2]), theirs(a[::2], b[1::2]))
    same(ours(x[:1], y), theirs(a[:1], b))
    number = limits[t] // 2 + 5
    same(ours(x, number), theirs(a, numpy.array(number, t)))


@pytest.mark.parametrize("t", dtypes)
@pytest.mark.parametrize("name", ["abs", "sign", "square", "neg", "floor", "ceil", "round", "logical_not"])
def test_ops_of_one_array(rng, device, t, name):
    a = operands(rng, t)
    theirs = {"neg": numpy.negative, "floor": lambda v: v, "ceil": lambda v: v, "round": lambda v: v}
    same(getattr(weft, name)(weft.tensor(a, device=device)), theirs.get(name, getattr(numpy, name, None))(a))


@pytest.mark.parametrize("t", dtypes)
def test_powers_wrap(rng, device, t):
    a, b = operands(rng, t), rng.integers(0, 70, 400).astype(t)
    same(weft.pow(weft.tensor(a, device=device), weft.tensor(b, device=device)), numpy.power(a, b))


@pytest.mark.parametrize("t", dtypes)
def test_reductions(rng, device, t):
    a = operands(rng, t, 1000).reshape(40, 50)
    x = weft.tensor(a, device=device)
    wide = "uint64" if t == "uint64" else "int64"  # PyTorch's int64 for the others; a sum of uint64 has no sign
    for dim in (None, 0, 1):
        dims = {} if dim is None else {"dim": dim}
        same(weft.sum(x, **dims), a.sum(axis=dim).astype(wide))
        same(weft.prod(x, **dims), a.prod(axis=dim).astype(wide))
        same(weft.amax(x, **dims), a.max(axis=dim))
        same(weft.amin(x, **dims), a.min(axis=dim))
        same(weft.argmax(x, **dims), a.argmax(axis=dim))
        same(weft.argmin(x, **dims), a.argmin(axis=dim))
        same(weft.any(x, **dims), a.any(axis=dim))
        same(weft.all(x, **dims), a.all(axis=dim))
        if dim is not None:
            same(weft.max(x, dim).values, a.max(axis=dim))
            same(weft.cumsum(x, dim), a.cumsum(axis=dim).astype(wide))
            same(weft.count_nonzero(x, dim), numpy.count_nonzero(a, axis=dim))


@pytest.mark.parametrize("t", dtypes)
def test_sets_and_searches(rng, device, t):
    a, b = operands(rng, t), operands(rng, t)
    x, y = weft.tensor(a, device=device), weft.tensor(b, device=device)
    same(weft.unique(x), numpy.unique(a))
    same(weft.searchsorted(weft.tensor(numpy.sort(a), device=device), y), numpy.searchsorted(numpy.sort(a), b))
    same(weft.where(x > y, x, y), numpy.where(a > b, a, b))
    same(weft.where(x > y, x, 7), numpy.where(a > b, a, numpy.array(7, t)))
    low, high = limits[t] // 4, limits[t] // 2 + 9
    same(weft.clamp(x, low, high), numpy.clip(a, numpy.array(low, t), numpy.array(high, t)))
    same(weft.nonzero(x)[:, 0], numpy.nonzero(a)[0])


@pytest.mark.parametrize("t", dtypes)
def test_products_of_matrices_wrap(rng, device, t):
    a, b = operands(rng, t, 300).reshape(20, 30), operands(rng, t, 300).reshape(30, 20)
    same(weft.matmul(weft.tensor(a, device=device), weft.tensor(b, device=device)), numpy.matmul(a, b))


@pytest.mark.parametrize("t", dtypes)
def test_writes_through_indices(rng, device, t):
    a, values, index = operands(rng, t, 50), operands(rng, t, 20), rng.integers(0, 100, 40)
    x, i, v = weft.tensor(a, device=device), weft.tensor(index, device=device), weft.tensor(values, device=device)
    expected = a.copy()
    numpy.add.at(expected, index, values)
    same(weft.scatter_add(x, 0, i, v), expected)
    same(weft.index_add(x, 0, i, v), expected)
    for how, ufunc in (("amax", numpy.maximum), ("amin", numpy.minimum), ("prod", numpy.multiply)):
        expected = a.copy()
        ufunc.at(expected, index, values)
        same(weft.scatter_reduce(x, 0, i, v, how), expected)
    small = weft.tensor(rng.integers(0, 100, 100).astype(t), device=device)
    wide = small.to(weft.int64)
    same(weft.scatter_reduce(small, 0, i, small[:40], "mean"),
         weft.scatter_reduce(wide, 0, i, wide[:40], "mean").to("cpu").numpy().astype(t))


@pytest.mark.parametrize("t", dtypes)
def test_divisions_give_floats(rng, device, t):
    a = operands(rng, t)
    a[a == 0] = 1
    x = weft.tensor(a, device=device)
    assert (x / 2).dtype == weft.float32
    assert numpy.array_equal((x / 2).to("cpu").numpy(), a.astype("float32") / numpy.float32(2))
    assert numpy.allclose(weft.sqrt(x).to("cpu").numpy(), numpy.sqrt(a.astype("float32")), rtol=1e-6)


@pytest.mark.parametrize("t", dtypes)
def test_in_place_and_creation(rng, device, t):
    a = operands(rng, t)
    x = weft.tensor(a, device=device)
    x += 1
    x[3:9] -= 5
    expected = a + numpy.array(1, t)
    expected[3:9] -= numpy.array(5, t)
    same(x, expected)
    same(weft.arange(3, 60000, 7, dtype=getattr(weft, t), device=device), numpy.arange(3, 60000, 7, dtype=t))
    same(weft.full((3,), limits[t], dtype=getattr(weft, t), device=device), numpy.full(3, limits[t], t))
    drawn = weft.randint(5, 9, (1000,), dtype=getattr(weft, t), device=device).to("cpu").numpy()
    assert drawn.min() == 5 and drawn.max() == 8
    with pytest.raises(ValueError):
        weft.randint(-1, 9, (3,), dtype=getattr(weft, t))


def test_integers_with_and_without_a_sign_meet_in_one_that_holds_both(device):
    def of(value, t):
        return weft.tensor([value], dtype=getattr(weft, t), device=device)

    for t, other, together in (("uint16", "int8", "int32"), ("uint16", "int64", "int64"), ("uint32", "int32", "int64"),
                               ("uint8", "uint64", "uint64"), ("uint16", "uint32", "uint32")):
        x = of(250, t) + of(-3 if other[0] == "i" else 3, other)
        assert x.dtype == getattr(weft, together)
        assert x.item() == (247 if other[0] == "i" else 253)
    with pytest.raises(TypeError, match="no common type"):
        of(1, "uint64") + of(1, "int64")
