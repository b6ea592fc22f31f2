"""Complex tensors beside NumPy's arrays: values on random calls, and conversions between the two."""
import copy
import pickle

import numpy
import pytest

import weft

KINDS = [(weft.complex64, numpy.complex64, 2e-5), (weft.complex128, numpy.complex128, 1e-12)]
UNARY = ["negative", "conj", "square", "reciprocal", "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
         "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh",
         "abs", "angle"]
BINARY = ["add", "subtract", "multiply", "divide", "power", "equal", "not_equal", "logical_and", "logical_or"]
REDUCTIONS = ["sum", "mean", "prod", "var", "std", "any", "all"]


def array(random, kind, shape):
    if kind in (numpy.complex64, numpy.complex128):
        return (random.uniform(-2, 2, shape) + 1j * random.uniform(-2, 2, shape)).astype(kind)
    return random.uniform(0.5, 2, shape).astype(kind)


def shape_of(random):
    return tuple(int(n) for n in random.integers(0, 5, random.integers(0, 4)))


def strided(random, x):
    """The array or a view of it with other strides, and the same view of a tensor."""
    x = numpy.array(x)
    t = weft.from_numpy(x.copy())
    if x.ndim and random.random() < 0.5:
        order = tuple(int(d) for d in random.permutation(x.ndim))
        x, t = x.transpose(order), t.permute(order)
    if x.ndim and random.random() < 0.5:
        x, t = x[::2], t[::2]
    return x, t


def same(found, wanted, tolerance):
    found = found.numpy()
    assert found.shape == numpy.shape(wanted)
    wanted = numpy.asarray(wanted)
    assert found.dtype == wanted.dtype
    if wanted.dtype == bool:
        assert (found == wanted).all()
        return
    scale = numpy.maximum(1, numpy.abs(wanted))
    assert (numpy.abs(found - wanted) <= tolerance * scale).all(), (found, wanted)


@pytest.mark.parametrize("dtype, kind, tolerance", KINDS)
@pytest.mark.parametrize("name", UNARY)
def test_functions_have_numpys_values(name, dtype, kind, tolerance):
    random = numpy.random.default_rng(1)
    op = getattr(weft, {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
                        "arctanh": "atanh", "negative": "neg"}.get(name, name))
    for _ in range(60):
        x, t = strided(random, array(random, kind, shape_of(random)))
        same(op(t), getattr(numpy, name)(x), tolerance)


@pytest.mark.parametrize("dtype, kind, tolerance", KINDS)
@pytest.mark.parametrize("name", BINARY)
def test_pairs_have_numpys_values(name, dtype, kind, tolerance):
    random = numpy.random.default_rng(2)
    op = getattr(weft, {"equal": "eq", "not_equal": "ne", "subtract": "sub", "multiply": "mul", "divide": "div",
                        "power": "pow"}.get(name, name))
    real = numpy.float32 if kind is numpy.complex64 else numpy.float64
    for i in range(100):
        shape = shape_of(random)
        other = shape[random.integers(0, len(shape) + 1):]
        kinds = [(kind, kind), (kind, real), (real, kind)][i % 3]
        a, s = strided(random, array(random, kinds[0], shape))
        b = array(random, kinds[1], other)
        if a.shape != shape:
            b = array(random, kinds[1], a.shape)
        same(op(s, weft.from_numpy(numpy.array(b))), getattr(numpy, name)(a, b), 10 * tolerance)


@pytest.mark.parametrize("dtype, kind, tolerance", KINDS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_have_numpys_values(name, dtype, kind, tolerance):
    random = numpy.random.default_rng(3)
    for _ in range(60):
        shape = tuple(n + 1 for n in shape_of(random))
        x, t = strided(random, array(random, kind, shape))
        dims = tuple(d for d in range(x.ndim) if random.random() < 0.5) or None
        more = {"correction": 0} if name in ("var", "std") else {}
        wanted = getattr(numpy, name)(x, axis=dims)
        found = getattr(weft, name)(t, **more) if dims is None else getattr(weft, name)(t, dims, **more)
        same(found, wanted, 20 * tolerance)


@pytest.mark.parametrize("dtype, kind, tolerance", KINDS)
def test_products_have_numpys_values(dtype, kind, tolerance):
    random = numpy.random.default_rng(4)
    for _ in range(200):
        m, k, n, batch = (int(i) for i in random.integers(0, 7, 4))
        shapes = [((m, k), (k, n)), ((k,), (k, n)), ((m, k), (k,)), ((batch, m, k), (k, n)),
                  ((batch, m, k), (batch, k, n))][random.integers(0, 5)]
        a, b = (array(random, kind, s) for s in shapes)
        same(weft.from_numpy(a) @ weft.from_numpy(b), a @ b, 50 * tolerance)


@pytest.mark.parametrize("dtype, kind, tolerance", KINDS)
def test_indexing_is_numpys(dtype, kind, tolerance):
    random = numpy.random.default_rng(5)
    for _ in range(200):
        x = array(random, kind, (5, 4, 3))
        t = weft.from_numpy(x.copy())
        index = random.integers(-5, 5, 6)
        mask = x.real > 0
        value = complex(random.normal(), random.normal())
        same(t[weft.from_numpy(index)], x[index], 0)
        same(t[weft.from_numpy(mask)], x[mask], 0)
        t[weft.from_numpy(mask)] = value
        x[mask] = value
        t[weft.from_numpy(index), 1] = 2j
        x[index, 1] = 2j
        t[::-2, ..., 0] += 1 - 1j
        x[::-2, ..., 0] += 1 - 1j
        same(t, x, tolerance)


def test_numbers_become_tensors_and_tensors_numbers():
    assert weft.tensor(1j).dtype is weft.complex64
    assert weft.tensor([1, 2.5, 3j]).tolist() == [1, 2.5, 3j]
    assert weft.tensor([1, 2], dtype=weft.complex128).dtype is weft.complex128
    assert weft.tensor([1, 2], dtype=complex).dtype is weft.complex128
    assert weft.tensor(numpy.complex64(1 + 2j)).item() == 1 + 2j
    assert complex(weft.tensor(2 - 1j)) == 2 - 1j
    assert (weft.ones(2) * 1j).dtype is weft.complex64
    assert (1j * weft.ones(2, dtype=weft.float64)).dtype is weft.complex128
    assert (weft.ones(2) * numpy.complex64(1j)).dtype is weft.complex64
    assert bool(weft.tensor(1j)) and not bool(weft.tensor(0j))
    with pytest.raises(TypeError):
        float(weft.tensor(1j))
    with pytest.raises(TypeError):
        int(weft.tensor(1 + 0j))
    assert weft.tensor([[1 + 2j]]).is_complex() and not weft.tensor([[1 + 2j]]).is_floating_point()
    assert weft.complex64.is_complex and weft.complex128.itemsize == 16


def test_parts_are_properties_that_share_memory():
    z = weft.tensor([1 + 2j, 3 - 4j], dtype=weft.complex128)
    z.real[0] = 7
    z.imag.mul_(2)
    assert z.tolist() == [7 + 4j, 3 - 8j]
    assert z.real.tolist() == [7, 3]
    assert z.reshape(1, 2).mH.tolist() == [[7 - 4j], [3 + 8j]]
    assert weft.view_as_complex(weft.view_as_real(z)).tolist() == z.tolist()
    assert weft.ones(2).real.tolist() == [1, 1]
    with pytest.raises(TypeError):
        weft.ones(2).imag


@pytest.mark.parametrize("dtype, kind, tolerance", KINDS)
def test_memory_is_shared_with_numpy(dtype, kind, tolerance):
    x = numpy.arange(6).reshape(2, 3).astype(kind)
    t = weft.from_numpy(x)
    assert t.dtype is dtype
    t[0, 0] = 5j
    assert x[0, 0] == 5j
    assert numpy.shares_memory(t.numpy(), x)
    assert weft.from_dlpack(x.copy()).dtype is dtype
    assert numpy.from_dlpack(t).dtype == kind
    assert memoryview(t).format == {weft.complex64: "Zf", weft.complex128: "Zd"}[dtype]


@pytest.mark.parametrize("dtype, kind, tolerance", KINDS)
def test_files_keep_complex_numbers(dtype, kind, tolerance, tmp_path):
    x = weft.tensor([1 + 2j, -3.5j], dtype=dtype)
    numpy.savez(tmp_path / "x.npz", x=x.numpy())
    assert weft.load_npz(tmp_path / "x.npz")["x"].tolist() == x.tolist()
    weft.save_npz({"x": x}, tmp_path / "y.npz")
    assert numpy.load(tmp_path / "y.npz")["x"].tolist() == x.tolist()
    numpy.save(tmp_path / "x.npy", x.numpy().astype(x.numpy().dtype.newbyteorder(">")))
    assert weft.load_npy(tmp_path / "x.npy").tolist() == x.tolist()
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()
    assert copy.deepcopy(x).dtype is dtype
    if dtype is weft.complex64:
        weft.save({"x": x}, tmp_path / "x.safetensors")
        assert weft.load(tmp_path / "x.safetensors")["x"].tolist() == x.tolist()
    else:
        with pytest.raises(TypeError, match="safetensors"):
            weft.save({"x": x}, tmp_path / "x.safetensors")
        assert not (tmp_path / "x.safetensors").exists()


def test_a_gradient_points_uphill_as_pytorchs_does():
    """Values of PyTorch 2.15 for the same expressions."""
    z = weft.tensor([1 + 2j, -0.5 + 0.25j], dtype=weft.complex128, requires_grad=True)
    (z * z).real.sum().backward()
    assert z.grad.tolist() == [2 - 4j, -1 - 0.5j]
    z.grad = None
    z.abs().sum().backward()
    assert numpy.allclose(z.grad.numpy(), [0.4472135954999579 + 0.8944271909999159j,
                                           -0.8944271909999159 + 0.4472135954999579j])
    z.grad = None
    weft.exp(z).imag.sum().backward()
    assert numpy.allclose(z.grad.numpy(), numpy.conj(-1j * numpy.exp(z.detach().numpy())))


@pytest.mark.parametrize("dtype, kind, tolerance", KINDS)
def test_products_by_letters_are_numpys(dtype, kind, tolerance):
    random = numpy.random.default_rng(6)
    for equation, shapes in (("ij,jk->ik", ((3, 4), (4, 2))), ("bij,bkj->bik", ((2, 3, 4), (2, 5, 4))), ("i,i", ((4,), (4,))),
                             ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 2))), ("ii->i", ((3, 3),)), ("ij->", ((3, 2),)),
                             ("i,j->ij", ((2,), (3,))), ("...i,ij->...j", ((2, 3, 4), (4, 2)))):
        arrays = [array(random, kind, s) for s in shapes]
        same(weft.einsum(equation, *map(weft.from_numpy, arrays)), numpy.einsum(equation, *arrays), 20 * tolerance)
    a, b = array(random, kind, (5,)), array(random, kind, (5,))
    x, y = weft.from_numpy(a), weft.from_numpy(b)
    same(weft.vdot(x, y), numpy.vdot(a, b), 20 * tolerance)
    same(weft.inner(x, y), numpy.inner(a, b), 20 * tolerance)
    same(weft.kron(x, y), numpy.kron(a, b), 20 * tolerance)
    same(weft.outer(x, y), numpy.outer(a, b), 20 * tolerance)
    same(weft.linalg.vecdot(x, y), numpy.vecdot(a, b), 20 * tolerance)
    m = array(random, kind, (4, 4))
    same(weft.linalg.matrix_power(weft.from_numpy(m), 3), numpy.linalg.matrix_power(m, 3), 200 * tolerance)
