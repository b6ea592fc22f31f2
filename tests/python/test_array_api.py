"""weft.array_api: its functions follow the standard; missing ones are listed."""

import inspect

import numpy as np
import pytest

import weft
import weft.array_api as xp


def test_namespace_and_inspection():
    x = xp.asarray([1.0, 2.0])
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError):
        x.__array_namespace__(api_version="1999.01")
    info = xp.__array_namespace_info__()
    assert info.capabilities()["max dimensions"] == 8 and info.default_dtypes()["integral"] is weft.int64
    assert weft.device("cpu") in info.devices() and info.dtypes(kind="bool") == {"bool": weft.bool}
    assert xp.__array_api_version__ == "2024.12"


def test_dtypes():
    assert xp.isdtype(xp.int8, "signed integer") and xp.isdtype(xp.uint8, ("bool", "integral"))
    assert not xp.isdtype(xp.bool, "numeric") and xp.isdtype(xp.float32, xp.float32)
    assert xp.result_type(xp.int8, xp.int32) is xp.int32 and xp.can_cast(xp.int8, xp.float32)
    assert not xp.can_cast(xp.float32, xp.int64)
    assert xp.finfo(xp.float32).eps == np.finfo(np.float32).eps and xp.iinfo(xp.int16).min == -32768
    assert xp.finfo(xp.float64).max == np.finfo(float).max and xp.finfo(xp.float32).smallest_normal == \
        np.finfo(np.float32).smallest_normal
    with pytest.raises(TypeError):
        xp.finfo(xp.int8)


def test_missing_functions_are_listed_and_no_others_are_missing():
    for name in xp.missing():
        with pytest.raises(AttributeError, match="not there yet"):
            getattr(xp, name)
    for name in set(xp._standard) - set(xp.missing()):
        assert callable(getattr(xp, name)), name


# Of array_api_strict 2.6.1 for 2024.12, without annotations; after the names of its functions, each signature once.
signatures = """
abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log
    log10 log1p log2 logical_not matrix_transpose negative nonzero positive real reciprocal round sign signbit sin
    sinh sqrt square tan tanh trunc unique_all unique_counts unique_inverse unique_values: (x, /)
add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide
    greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor matmul maximum minimum
    multiply nextafter not_equal pow remainder subtract: (x1, x2, /)
all any argmax argmin count_nonzero max mean min: (x, /, *, axis=None, keepdims=False)
arange: (start, /, stop=None, step=1, *, dtype=None, device=None)
argsort sort: (x, /, *, axis=-1, descending=False, stable=True)
asarray: (obj, /, *, dtype=None, device=None, copy=None)
astype: (x, dtype, /, *, copy=True, device=None)
broadcast_arrays: (*arrays)
broadcast_to: (x, /, shape)
can_cast: (from_, to, /)
clip: (x, /, min=None, max=None)
concat stack: (arrays, /, *, axis=0)
cumulative_prod cumulative_sum: (x, /, *, axis=None, dtype=None, include_initial=False)
diff: (x, /, *, axis=-1, n=1, prepend=None, append=None)
empty ones zeros: (shape, *, dtype=None, device=None)
empty_like ones_like zeros_like: (x, /, *, dtype=None, device=None)
expand_dims unstack: (x, /, *, axis=0)
eye: (n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
finfo iinfo: (type, /)
flip: (x, /, *, axis=None)
from_dlpack: (x, /, *, device=None, copy=None)
full: (shape, fill_value, *, dtype=None, device=None)
full_like: (x, /, fill_value, *, dtype=None, device=None)
isdtype: (dtype, kind)
linspace: (start, stop, /, num, *, dtype=None, device=None, endpoint=True)
meshgrid: (*arrays, indexing='xy')
moveaxis: (x, source, destination, /)
permute_dims: (x, /, axes)
prod sum: (x, /, *, axis=None, dtype=None, keepdims=False)
repeat: (x, repeats, /, *, axis=None)
reshape: (x, /, shape, *, copy=None)
result_type: (*arrays_and_dtypes)
roll: (x, /, shift, *, axis=None)
searchsorted: (x1, x2, /, *, side='left', sorter=None)
squeeze: (x, /, axis)
std var: (x, /, *, axis=None, correction=0.0, keepdims=False)
take: (x, indices, /, *, axis=None)
take_along_axis: (x, indices, /, *, axis=-1)
tensordot: (x1, x2, /, *, axes=2)
tile: (x, repetitions, /)
tril triu: (x, /, *, k=0)
vecdot: (x1, x2, /, *, axis=-1)
where: (condition, x1, x2, /)
"""


def signatures_by_name():
    for line in signatures.replace("\n    ", " ").strip().splitlines():
        names, _, signature = line.partition(": ")
        for name in names.split():
            yield name, signature


@pytest.mark.parametrize("name, signature", list(signatures_by_name()))
def test_signatures_are_the_standards(name, signature):
    if name in xp.missing():
        pytest.skip(f"{name} is not there yet")
    scope = {}
    exec(f"def {name}{signature}: pass", scope)
    given = inspect.signature(getattr(xp, name)).parameters
    wanted = inspect.signature(scope[name]).parameters
    assert list(given) == list(wanted)
    for key, parameter in wanted.items():
        assert given[key].default == parameter.default, key
        if not (name == "expand_dims" and key == "axis"):  # where older versions have it by position, too
            assert given[key].kind is parameter.kind, key


same = {
    "sum": lambda m, a: m.sum(a, axis=0), "max": lambda m, a: m.max(a, axis=1, keepdims=True), "std": lambda m, a: m.std(a),
    "var": lambda m, a: m.var(a, axis=0, correction=1), "prod": lambda m, a: m.prod(a), "mean": lambda m, a: m.mean(a, axis=1),
    "cumulative_sum": lambda m, a: m.cumulative_sum(a, axis=1, include_initial=True),
    "permute_dims": lambda m, a: m.permute_dims(a, (1, 0)), "expand_dims": lambda m, a: m.expand_dims(a, axis=1),
    "concat": lambda m, a: m.concat([a, a], axis=None), "stack": lambda m, a: m.stack([a, a], axis=-1),
    "matrix_transpose": lambda m, a: m.matrix_transpose(a), "vecdot": lambda m, a: m.vecdot(a, a),
    "tensordot": lambda m, a: m.tensordot(a, a, axes=((0, 1), (0, 1))), "clip": lambda m, a: m.clip(a, 0.5, 1.5),
    "take": lambda m, a: m.take(a, m.asarray([1, 0]), axis=1), "astype": lambda m, a: m.astype(a, m.int32),
    "where": lambda m, a: m.where(a > 1, a, -a), "eye": lambda m, a: m.eye(3, 4, k=1), "linspace":
    lambda m, a: m.linspace(0, 1, 5, endpoint=False), "tile": lambda m, a: m.tile(a, (2, 1)), "squeeze":
    lambda m, a: m.squeeze(m.expand_dims(a, axis=0), axis=0), "moveaxis": lambda m, a: m.moveaxis(a, 0, 1),
    "broadcast_to": lambda m, a: m.broadcast_to(a, (2, 2, 3)), "floor_divide": lambda m, a: m.floor_divide(a, 0.4),
    "argmax": lambda m, a: m.argmax(a, axis=1), "pow": lambda m, a: m.pow(a, a), "flip": lambda m, a: m.flip(a, axis=1),
    "sort": lambda m, a: m.sort(-a, axis=1), "roll": lambda m, a: m.roll(a, 1, axis=1),
    "unique_values": lambda m, a: m.unique_values(m.floor(a)), "nonzero": lambda m, a: m.nonzero(m.floor(a))[1],
    "unique_counts": lambda m, a: m.unique_counts(m.floor(a)).counts,
    "unique_all": lambda m, a: m.unique_all(m.floor(a * 2)).indices,
    "unique_inverse": lambda m, a: m.unique_inverse(m.floor(a * 2)).inverse_indices,
    "take_along_axis": lambda m, a: m.take_along_axis(a, m.asarray([[2, 0], [1, 1]])),
    "count_nonzero": lambda m, a: m.count_nonzero(m.floor(a), axis=1, keepdims=True),
    "searchsorted": lambda m, a: m.searchsorted(m.asarray([1.0, 0.5]), a, side="right", sorter=m.asarray([1, 0])),
    "meshgrid": lambda m, a: m.meshgrid(a[0], a[:, 0])[1], "reshape": lambda m, a: m.reshape(a, (3, 2), copy=True),
    "unstack": lambda m, a: m.unstack(a, axis=1)[1], "tril": lambda m, a: m.tril(a), "remainder": lambda m, a: m.remainder(a, 0.4),
}


@pytest.mark.parametrize("name", same)
def test_values_are_numpys(name, rng):
    if name in xp.missing() or not hasattr(np, name):
        pytest.skip(f"{name} is not there")
    a = rng.uniform(0.1, 2, (2, 3))
    got, want = same[name](xp, xp.asarray(a)), same[name](np, a)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "std", "var", "any", "all", "count_nonzero"])
@pytest.mark.parametrize("axis", [(), (0,), (0, -1), None])
@pytest.mark.parametrize("keepdims", [False, True])
def test_an_empty_tuple_of_axes_reduces_nothing(name, axis, keepdims, rng):
    a = rng.uniform(-2, 2, (2, 3))
    got, want = (getattr(m, name)(m.asarray(a), axis=axis, keepdims=keepdims) for m in (xp, np))
    assert tuple(got.shape) == want.shape
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_0d_arrays_promote_as_others_do():
    small, number = xp.asarray([1, 2], dtype=xp.int8), xp.asarray(3, dtype=xp.int32)
    assert xp.add(small, number).dtype is xp.int32 and xp.result_type(small, number) is xp.int32
    assert xp.add(small, 3).dtype is xp.int8 and xp.result_type(small, 3) is xp.int8
    f = xp.asarray([1.0], dtype=xp.float32)
    assert xp.multiply(f, xp.asarray(2.0, dtype=xp.float64)).dtype is xp.float64
    assert xp.where(xp.asarray([True]), f, xp.asarray(2.0, dtype=xp.float64)).dtype is xp.float64
    assert xp.multiply(f, 2.0).dtype is xp.float32 and xp.matmul(f, xp.asarray([2.0], dtype=xp.float64)).item() == 2
    assert xp.clip(small, xp.asarray(2), None).dtype is xp.int8


def test_sums_of_unsigned_integers_are_unsigned():
    x = xp.asarray([200, 100], dtype=xp.uint8)
    assert xp.sum(x).dtype is xp.uint64 and xp.prod(x).item() == 20000 and xp.prod(x).dtype is xp.uint64
    assert xp.sum(x, dtype=xp.int32).dtype is xp.int32 and xp.sum(xp.asarray([1], dtype=xp.int8)).dtype is xp.int64


def test_products_over_axes():
    a, b = np.arange(24.0).reshape(2, 3, 4), np.arange(12.0).reshape(4, 3)
    for axes in (0, 1, ((-2, -1), (1, 0)), ([2], [0]), (1, 1)):
        got, want = (m.tensordot(m.asarray(a), m.asarray(b), axes=axes) for m in (xp, np))
        assert tuple(got.shape) == want.shape
        np.testing.assert_allclose(got.numpy(), want)
    empty = xp.tensordot(xp.zeros((2, 0)), xp.zeros((0, 3)), axes=1)
    assert tuple(empty.shape) == (2, 3) and not xp.any(empty)
    with pytest.raises(ValueError, match="do not fit"):
        xp.tensordot(xp.asarray(a), xp.asarray(b), axes=((1,), (0,)))
    assert xp.vecdot(xp.asarray(a), xp.asarray(a[0]), axis=-2).tolist() == np.einsum("ijk,jk->ik", a, a[0]).tolist()
    small = xp.asarray([1, 2], dtype=xp.int8)
    assert xp.vecdot(small, small).dtype is xp.int8
    with pytest.raises(ValueError, match="differ in size"):
        xp.vecdot(xp.asarray(a), xp.ones((2, 3, 1)))


def test_flip_linspace_meshgrid_nonzero_and_to_device():
    x = xp.asarray([[1, 2], [3, 4]])
    assert xp.flip(x).tolist() == [[4, 3], [2, 1]] and xp.flip(x, axis=(0,)).tolist() == [[3, 4], [1, 2]]
    for num in (0, 1, 2, 7):
        for end in (True, False):
            got = xp.linspace(-1, 2, num, endpoint=end, dtype=xp.float64)
            np.testing.assert_allclose(got.numpy(), np.linspace(-1, 2, num, endpoint=end), rtol=1e-15, atol=1e-15)
    grids = xp.meshgrid(xp.asarray([1, 2, 3]), xp.asarray([4, 5]))
    assert isinstance(grids, list) and grids[0].tolist() == [[1, 2, 3], [1, 2, 3]] and grids[1].tolist() == [[4] * 3, [5] * 3]
    assert isinstance(xp.broadcast_arrays(x, xp.asarray(1)), list)
    assert [i.tolist() for i in xp.nonzero(xp.asarray([[0, 3], [4, 0]]))] == [[0, 1], [1, 0]]
    with pytest.raises(ValueError):
        xp.nonzero(xp.asarray(3))
    assert x.to_device("cpu") is x and x.to_device(weft.device("meta")).device == weft.device("meta")
    with pytest.raises(NotImplementedError):
        x.to_device("cpu", stream=1)
    with pytest.raises(ValueError):
        xp.reshape(x.mT, (4,), copy=False)


# ---- the extensions ----

def _same(found, wanted):
    found = found.numpy() if isinstance(found, weft.Tensor) else found
    assert found.shape == np.shape(wanted)
    assert np.allclose(found, wanted, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", ["linalg", "fft"])
def test_extensions_have_every_function_of_the_standard(kind):
    module = getattr(xp, kind)
    for name in module.__all__:
        assert callable(getattr(module, name)), name
    if kind == "linalg":
        assert len(module.__all__) == 23
    else:
        assert len(module.__all__) == 14


@pytest.mark.parametrize("unit", [0, 1j])
def test_linear_algebra_is_numpys(unit):
    random = np.random.default_rng(5)
    a, b = (random.normal(size=size) + unit * random.normal(size=size) for size in ((2, 3, 3), (2, 3, 2)))
    s = a @ a.swapaxes(-1, -2).conj() + np.eye(3)
    x, y, p = xp.asarray(a), xp.asarray(b), xp.asarray(s)
    _same(xp.linalg.cholesky(p), np.linalg.cholesky(s))
    _same(xp.linalg.cholesky(p, upper=True), np.linalg.cholesky(s).swapaxes(-1, -2).conj())
    _same(xp.linalg.det(x), np.linalg.det(a))
    _same(xp.linalg.diagonal(x, offset=1), np.linalg.diagonal(a, offset=1))
    _same(xp.linalg.eigvalsh(p), np.linalg.eigvalsh(s))
    values, vectors = xp.linalg.eigh(p)
    assert xp.linalg.eigh(p).eigenvalues is not None
    _same(vectors @ (values[..., None] * vectors.mH), s)
    _same(xp.linalg.inv(x), np.linalg.inv(a))
    for ord in ("fro", "nuc", 1, -1, 2, -2, xp.inf, -xp.inf):
        _same(xp.linalg.matrix_norm(y, ord=ord, keepdims=True), np.linalg.matrix_norm(b, ord=ord, keepdims=True))
    for n in (-2, 0, 1, 5):
        _same(xp.linalg.matrix_power(x, n), np.linalg.matrix_power(a, n))
    _same(xp.linalg.matrix_rank(x), np.linalg.matrix_rank(a))
    _same(xp.linalg.outer(x[0, 0], y[0, :, 0]), np.outer(a[0, 0], b[0, :, 0]))
    _same(xp.linalg.pinv(y), np.linalg.pinv(b))
    q, r = xp.linalg.qr(y)
    _same(q @ r, b)
    assert xp.linalg.qr(y, mode="complete").Q.shape == (2, 3, 3)
    _same(xp.linalg.slogdet(x).logabsdet, np.linalg.slogdet(a).logabsdet)
    _same(xp.linalg.solve(x, y), np.linalg.solve(a, b))
    _same(xp.linalg.solve(x, y[0, :, 0]), np.linalg.solve(a, b[0, :, 0]))
    _same(xp.linalg.solve(x[0], xp.asarray(a)), np.linalg.solve(a[0], a))
    u, d, vh = xp.linalg.svd(y, full_matrices=False)
    _same(u @ (d[..., None] * vh), b)
    _same(xp.linalg.svdvals(y), np.linalg.svdvals(b))
    _same(xp.linalg.trace(x, offset=-1), np.trace(a, -1, -2, -1))
    for ord in (0, 1, 2, 3.5, xp.inf, -xp.inf):
        _same(xp.linalg.vector_norm(y, axis=(0, 2), ord=ord), np.linalg.vector_norm(b, axis=(0, 2), ord=ord))
    _same(xp.linalg.vector_norm(y), np.linalg.vector_norm(b))
    _same(xp.linalg.cross(x, xp.flip(x)), np.linalg.cross(a, np.flip(a)))
    _same(xp.linalg.vecdot(x, x + 1, axis=1), np.vecdot(a, a + 1, axis=1))


def test_fourier_transforms_are_numpys():
    random = np.random.default_rng(6)
    a = random.normal(size=(3, 4, 5)) + 1j * random.normal(size=(3, 4, 5))
    x, r = xp.asarray(a), xp.asarray(a.real.copy())
    for name in ("fft", "ifft", "irfft", "hfft"):
        _same(getattr(xp.fft, name)(x, n=6, axis=1, norm="ortho"), getattr(np.fft, name)(a, n=6, axis=1, norm="ortho"))
    for name in ("rfft", "ihfft"):
        _same(getattr(xp.fft, name)(r, axis=0), getattr(np.fft, name)(a.real, axis=0))
    for name in ("fftn", "ifftn", "irfftn"):
        _same(getattr(xp.fft, name)(x, axes=(0, 2)), getattr(np.fft, name)(a, axes=(0, 2)))
    _same(xp.fft.rfftn(r, s=(4, 6), axes=(1, 2)), np.fft.rfftn(a.real, s=(4, 6), axes=(1, 2)))
    _same(xp.fft.fftfreq(7, d=0.1, dtype=xp.float64), np.fft.fftfreq(7, d=0.1))
    _same(xp.fft.rfftfreq(8), np.fft.rfftfreq(8))
    _same(xp.fft.fftshift(x, axes=1), np.fft.fftshift(a, axes=1))
    _same(xp.fft.ifftshift(x), np.fft.ifftshift(a))


def test_complex_arrays_are_of_the_standard():
    z = xp.asarray([1 + 2j, -3j])
    assert z.dtype is xp.complex64 and xp.isdtype(z.dtype, "complex floating") and xp.isdtype(z.dtype, "numeric")
    assert not xp.isdtype(z.dtype, ("real floating", "integral", "signed integer"))
    assert xp.real(z).dtype is xp.float32 and xp.imag(z).tolist() == [2, -3] and xp.conj(z).tolist() == [1 - 2j, 3j]
    assert xp.finfo(xp.complex128).bits == 64 and xp.result_type(xp.float64, xp.complex64) is xp.complex128
    assert xp.can_cast(xp.float32, xp.complex64) and not xp.can_cast(xp.complex64, xp.float32)
    assert xp.missing() == []
    with pytest.raises(TypeError):
        xp.astype(z, xp.float32)
