"""Factors, solutions and spectra of real and complex matrices beside NumPy's, on random and on special matrices."""
import numpy
import pytest

import weft

KINDS = [(numpy.float32, 3e-4), (numpy.float64, 1e-11), (numpy.complex64, 3e-4), (numpy.complex128, 1e-11)]
SIZES = [0, 1, 2, 3, 4, 5, 8, 13, 16, 17, 31, 33, 40, 65]


def normal(random, kind, *shape):
    x = random.standard_normal(shape)
    if issubclass(kind, numpy.complexfloating):
        x = x + 1j * random.standard_normal(shape)
    return x.astype(kind)


def adjoint(x):
    return numpy.conj(numpy.swapaxes(x, -1, -2))


def tensor(random, x):
    """The array, sometimes with other strides."""
    t = weft.from_numpy(numpy.array(x))
    if random.random() < 0.3:
        return t.transpose(-2, -1).contiguous().transpose(-2, -1)
    if random.random() < 0.3:
        wide = weft.zeros(*x.shape[:-1], 2 * x.shape[-1] + 1, dtype=t.dtype)[..., 1::2]
        wide.copy_(t)
        return wide
    return t


def near(found, wanted, tolerance):
    wanted = numpy.asarray(wanted)
    assert found.shape == wanted.shape
    if wanted.size:
        assert numpy.abs(found - wanted).max() <= tolerance * max(1, numpy.abs(wanted).max())


def orthonormal(x, tolerance):
    near(adjoint(x) @ x, numpy.broadcast_to(numpy.eye(x.shape[-1]), (*x.shape[:-2], x.shape[-1], x.shape[-1])), tolerance)


def shapes(random):
    m, n = (int(random.choice(SIZES)) for _ in range(2))
    batch = [(), (3,), (2, 2), (5,)][random.integers(0, 4)] if m < 34 and n < 34 else ()
    return batch, m, n


@pytest.mark.parametrize("kind, tolerance", KINDS)
def test_factors_multiply_to_their_matrix(kind, tolerance):
    random = numpy.random.default_rng(1)
    for _ in range(40):
        batch, m, n = shapes(random)
        a = normal(random, kind, *batch, m, n)
        square = normal(random, kind, *batch, n, n)
        hermitian, positive = square + adjoint(square), square @ adjoint(square) + numpy.eye(n, dtype=kind)
        p, low, up = (x.numpy() for x in weft.linalg.lu(tensor(random, a)))
        near(p @ low @ up, a, tolerance)
        for mode in ("reduced", "complete"):
            q, r = (x.numpy() for x in weft.linalg.qr(tensor(random, a), mode))
            near(q @ r, a, tolerance)
            orthonormal(q, tolerance)
        low = weft.linalg.cholesky(tensor(random, numpy.tril(positive))).numpy()
        near(low @ adjoint(low), positive, tolerance)
        up = weft.linalg.cholesky(tensor(random, numpy.triu(positive)), upper=True).numpy()
        near(adjoint(up) @ up, positive, tolerance)
        for half, triangle in ((numpy.tril, "L"), (numpy.triu, "U")):
            w, v = (x.numpy() for x in weft.linalg.eigh(tensor(random, half(hermitian)), triangle))
            near((v * w[..., None, :]) @ adjoint(v), hermitian, tolerance)
            near(w, numpy.linalg.eigvalsh(hermitian), tolerance)
            orthonormal(v, tolerance)
        for full in (True, False):
            u, s, vh = (x.numpy() for x in weft.linalg.svd(tensor(random, a), full))
            k = min(m, n)
            near((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, tolerance)
            orthonormal(u, tolerance)
            orthonormal(adjoint(vh), tolerance)
        near(weft.linalg.svdvals(tensor(random, a)).numpy(), s, tolerance)


@pytest.mark.parametrize("kind, tolerance", KINDS)
def test_solutions_solve(kind, tolerance):
    random = numpy.random.default_rng(2)
    for _ in range(40):
        batch, columns, n = shapes(random)
        a = normal(random, kind, *batch, n, n) + (2 * n ** 0.5 * numpy.eye(n)).astype(kind)
        b = normal(random, kind, *batch, n, columns)
        t, side, across = tensor(random, a), tensor(random, b), tensor(random, adjoint(b))
        near(a @ weft.linalg.solve(t, side).numpy(), b, tolerance)
        near(weft.linalg.solve(t, across, left=False).numpy() @ a, adjoint(b), tolerance)
        factors = weft.linalg.lu_factor(t)
        near(adjoint(a) @ weft.linalg.lu_solve(*factors, side, adjoint=True).numpy(), b, tolerance)
        near(weft.linalg.lu_solve(*factors, across, left=False).numpy() @ a, adjoint(b), tolerance)
        for half, upper in ((numpy.triu, True), (numpy.tril, False)):
            near(half(a) @ weft.linalg.solve_triangular(t, side, upper=upper).numpy(), b, tolerance)
        near(weft.linalg.inv(t).numpy() @ a, numpy.broadcast_to(numpy.eye(n), a.shape), tolerance)
        sign, size = (x.numpy() for x in weft.linalg.slogdet(t))
        near(sign, numpy.linalg.slogdet(a)[0], tolerance)
        near(size, numpy.linalg.slogdet(a)[1], tolerance)
        near(weft.linalg.pinv(t).numpy(), numpy.linalg.pinv(a), 10 * tolerance)


def apart(found, wanted):
    """How far two sets of numbers are apart: each is given the nearest one that is left."""
    distance = numpy.abs(found[:, None] - wanted[None])
    most = 0
    for row in distance:
        most = max(most, row.min(initial=numpy.inf))
        distance[:, row.argmin()] = numpy.inf
    return most


def jordan(random, n, kind):
    return (numpy.eye(n) * 2 + numpy.eye(n, k=1)).astype(kind)


def companion(random, n, kind):
    x = numpy.eye(n, k=-1).astype(kind)
    x[:, n - 1:] = normal(random, kind, n, 1)[:, :min(n, 1)]
    return x


def of_normal(random, n, kind):
    q = numpy.linalg.qr(normal(random, kind, n, n))[0]
    return q @ numpy.diag(normal(random, kind, n)) @ adjoint(q)


SPECIAL = {
    "random": lambda r, n, kind: normal(r, kind, n, n),
    "jordan": jordan,
    "lower_jordan": lambda r, n, kind: jordan(r, n, kind).T,
    "companion": companion,
    "normal": of_normal,
    "orthogonal": lambda r, n, kind: numpy.linalg.qr(normal(r, kind, n, n))[0],
    "graded": lambda r, n, kind: normal(r, kind, n, n) * 10.0 ** -numpy.arange(n)[:, None] * 10.0 ** -numpy.arange(n),
    "unbalanced": lambda r, n, kind: normal(r, kind, n, n) * 10.0 ** r.integers(-8, 8, (n, n)),
    "zero": lambda r, n, kind: numpy.zeros((n, n), kind),
    "ones": lambda r, n, kind: numpy.ones((n, n), kind),
    "upper": lambda r, n, kind: numpy.triu(normal(r, kind, n, n)),
    "lower": lambda r, n, kind: numpy.tril(normal(r, kind, n, n)),
    "permutation": lambda r, n, kind: numpy.eye(n)[r.permutation(n)].astype(kind),
    "skew": lambda r, n, kind: (lambda x: x - adjoint(x))(normal(r, kind, n, n)),
    "integers": lambda r, n, kind: r.integers(-2, 3, (n, n)).astype(kind),
    "sparse": lambda r, n, kind: normal(r, kind, n, n) * (r.random((n, n)) < 0.2),
    "of_rank_one": lambda r, n, kind: normal(r, kind, n, 1) @ normal(r, kind, 1, n),
    "huge": lambda r, n, kind: normal(r, kind, n, n) * 1e300,
    "tiny": lambda r, n, kind: normal(r, kind, n, n) * 1e-300,
}


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("kind", [numpy.float64, numpy.complex128])
def test_eigenvalues_of_any_matrix_are_lapacks(name, kind):
    random = numpy.random.default_rng(3)
    for _ in range(30):
        n = int(random.choice([0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 16, 17, 20, 33]))
        a = SPECIAL[name](random, n, kind)
        w, v = (x.numpy() for x in weft.linalg.eig(weft.from_numpy(a)))
        alone = weft.linalg.eigvals(weft.from_numpy(a)).numpy()
        assert w.dtype == v.dtype == numpy.complex128
        assert w.shape == (n,) and v.shape == (n, n)
        largest = numpy.abs(a).max(initial=0)
        if largest == 0:
            assert (w == 0).all()
            continue
        a, w, alone = a / largest, w / largest, alone / largest
        size = numpy.linalg.norm(a)
        assert numpy.isfinite(w).all()
        numpy.testing.assert_allclose(numpy.linalg.norm(v, axis=0), 1, atol=1e-12)
        expected, vectors = numpy.linalg.eig(a)
        own = numpy.abs(a @ v - v * w).max() / size
        assert own <= max(1e-13 * n, 10 * numpy.abs(a @ vectors - vectors * expected).max() / size)
        # A value's error is amplified by its vectors.
        bound = min(1e-12 * n * size * numpy.linalg.cond(vectors), 0.2 * size) + 1e-14
        assert apart(w, expected) <= bound and apart(alone, expected) <= bound
        if kind is numpy.float64:
            assert apart(w[w.imag != 0], w[w.imag != 0].conj()) == 0
            assert (v[:, w.imag == 0].imag == 0).all()
        if name in ("upper", "lower"):
            assert apart(w * largest, numpy.diag(a) * largest) <= 1e-15 * largest


def test_a_batch_of_eigenvalues_is_that_of_its_matrices():
    random = numpy.random.default_rng(4)
    for kind, tolerance in KINDS:
        a = normal(random, kind, 3, 2, 6, 6)
        w, v = weft.linalg.eig(weft.from_numpy(a))
        near(a @ v.numpy(), v.numpy() * w.numpy()[..., None, :], tolerance)
        alone = weft.linalg.eig(weft.from_numpy(a[1, 1].copy()))
        assert (alone[0].numpy() == w[1, 1].numpy()).all() and (alone[1].numpy() == v[1, 1].numpy()).all()


def test_non_finite_matrices_raise():
    for bad in (float("nan"), float("inf")):
        x = weft.ones(2, 2, dtype=weft.complex128)
        x[0, 1] = bad
        for f in (weft.linalg.eig, weft.linalg.eigvals, weft.linalg.svd, weft.linalg.eigh):
            with pytest.raises(weft.linalg.LinAlgError):
                f(x + x.mH)
