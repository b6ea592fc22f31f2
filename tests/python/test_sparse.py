"""Sparse tensors beside NumPy's sums and SciPy's matrices, and gradients of embeddings as rows."""

import numpy
import pytest

import weft
from weft import sparse


def numbers(x):
    return x.detach().numpy()


class Random:
    """A matrix as a list of elements that repeat, and the same one added up by NumPy."""

    def __init__(self, random, dtype):
        self.shape = tuple(int(n) for n in random.integers(0, 9, 2))
        n = random.integers(0, 20) if self.shape[0] * self.shape[1] else 0
        self.at = numpy.stack([random.integers(0, max(size, 1), n) for size in self.shape])
        values = 5 * random.standard_normal(n)
        self.values = (values + 1j * random.standard_normal(n) if dtype[0] == "c" else values).astype(dtype)
        self.dense = numpy.zeros(self.shape, dtype)
        numpy.add.at(self.dense, tuple(self.at), self.values)

    def ours(self):
        return sparse.Coo(weft.tensor(self.at), weft.tensor(self.values), self.shape)


DTYPES = ["float64", "float32", "complex128", "int64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_thousand_random_matrices_are_numpys(dtype):
    random = numpy.random.default_rng(0)

    def check(ours, theirs):
        tolerance = 1e-5 if dtype == "float32" else 1e-12
        assert str(ours.dtype) == f"weft.{dtype}"
        numpy.testing.assert_allclose(numbers(ours), theirs, rtol=tolerance, atol=tolerance)

    for i in range(1000):
        theirs = Random(random, dtype)
        coo = theirs.ours()
        assert (coo.shape, coo.nnz) == (theirs.shape, len(theirs.values))
        x = (3 * random.standard_normal((theirs.shape[1], 3) if i % 3 else theirs.shape[1])).astype(dtype)
        for ours in (coo, coo.coalesce(), sparse.to_csr(coo), coo.T.T, sparse.to_csr(coo).T.T, sparse.to_csr(coo.T).T):
            check(ours.to_dense(), theirs.dense)
            check(sparse.matmul(ours, weft.tensor(x)), theirs.dense @ x)
        places = numpy.unique(theirs.at, axis=1)
        numpy.testing.assert_array_equal(numbers(coo.coalesce().indices), places)
        csr = sparse.to_csr(coo)
        numpy.testing.assert_array_equal(numbers(csr.columns), places[1])
        counts = numpy.bincount(places[0], minlength=theirs.shape[0])
        numpy.testing.assert_array_equal(numbers(csr.row_starts), numpy.concatenate([[0], numpy.cumsum(counts)]))
        check(sparse.to_coo(weft.tensor(theirs.dense)).to_dense(), theirs.dense)


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_come_from_scipy_and_go_there(dtype):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    random = numpy.random.default_rng(3)
    for i in range(300):
        theirs = Random(random, dtype)
        matrix = scipy_sparse.coo_array((theirs.values, tuple(theirs.at)), shape=theirs.shape)
        given = (matrix, matrix.tocsr(), matrix.tocsc())[i % 3]
        ours = sparse.from_scipy(given)
        assert isinstance(ours, sparse.Csr if given.format == "csr" else sparse.Coo)
        assert (ours.shape, str(ours.dtype)) == (theirs.shape, f"weft.{dtype}")
        numpy.testing.assert_allclose(numbers(ours.to_dense()), theirs.dense, atol=1e-5)
        x = (3 * random.standard_normal((theirs.shape[1], 2))).astype(dtype)
        numpy.testing.assert_allclose(numbers(ours @ weft.tensor(x)), given @ x, rtol=1e-4, atol=1e-4)
        back = sparse.to_scipy(sparse.to_csr(ours))
        assert back.format == "csr" and back.has_canonical_format
        numpy.testing.assert_allclose(back.toarray(), theirs.dense, atol=1e-5)
        back = sparse.to_scipy(sparse.to_coo(ours))
        assert back.format == "coo"
        numpy.testing.assert_allclose(back.toarray(), theirs.dense, atol=1e-5)
    with pytest.raises(TypeError, match="expected a matrix of scipy.sparse"):
        sparse.from_scipy(numpy.eye(2))
    with pytest.raises(ValueError, match="SciPy has no dense dimensions"):
        sparse.to_scipy(sparse.to_coo(weft.ones(3, 2), 1))


def test_products_have_gradients():
    random = numpy.random.default_rng(1)
    for _ in range(100):
        theirs = Random(random, "float64")
        ours = theirs.ours()
        values = ours.values.detach().clone().requires_grad_()
        x = weft.tensor(random.standard_normal((theirs.shape[1], 2)), requires_grad=True)
        g = random.standard_normal((theirs.shape[0], 2))
        (sparse.Coo(ours.indices, values, ours.shape) @ x).backward(weft.tensor(g))
        rows, columns = theirs.at
        numpy.testing.assert_allclose(numbers(x.grad), theirs.dense.T @ g, atol=1e-12)
        numpy.testing.assert_allclose(numbers(values.grad), (g[rows] * numbers(x)[columns]).sum(1), atol=1e-12)


def test_the_ops_of_products_are_sums_of_elements():
    random = numpy.random.default_rng(4)
    for _ in range(200):
        csr = sparse.to_csr(Random(random, "float64").ours())
        columns = numbers(csr.columns)
        rows = numpy.repeat(numpy.arange(csr.shape[0]), numpy.diff(numbers(csr.row_starts)))
        a, b = random.standard_normal((csr.shape[0], 5)), random.standard_normal((csr.shape[1], 5))
        dots = weft.csr_sampled_product(csr.row_starts, csr.columns, weft.tensor(a), weft.tensor(b))
        numpy.testing.assert_allclose(numbers(dots), (a[rows] * b[columns]).sum(1), atol=1e-13)
        product = weft.csr_matmul(csr.row_starts, csr.columns, csr.values, weft.tensor(b))
        numpy.testing.assert_allclose(numbers(product), numbers(csr.to_dense()) @ b, atol=1e-12)


def test_blocks_of_dense_dimensions():
    a = sparse.Coo(weft.tensor([[2, 0, 2]]), weft.tensor([[1.0, 2.0], [3.0, 4.0], [10.0, 20.0]]), (3, 2))
    assert (a.sparse_dims, a.dense_dims, a.nnz, a.is_coalesced) == (1, 1, 3, False)
    assert a.to_dense().tolist() == [[3, 4], [0, 0], [11, 22]]
    assert a.coalesce().values.tolist() == [[3, 4], [11, 22]]
    assert repr(a) == "Coo(shape=(3, 2), nnz=3, dtype=weft.float32)"
    assert sparse.to_coo(a.to_dense(), 1).indices.tolist() == [[0, 2]]


def test_wrong_arguments_name_the_line():
    v = weft.tensor([1.0, 2.0])
    with pytest.raises(IndexError, match=r"index 5 of element 0 is none of 3[\s\S]*test_sparse.py"):
        sparse.Coo(weft.tensor([[5, 0]]), v, (3,))
    with pytest.raises(TypeError, match="shape: expected several integers"):
        sparse.Coo(weft.tensor([[0, 0]]), v, "shape")
    with pytest.raises(ValueError, match="expected at least 0"):
        sparse.to_coo(v, -1)
    with pytest.raises(ValueError, match="row_starts must ascend"):
        sparse.Csr(weft.tensor([0, 3, 2]), weft.tensor([0, 1]), v, (2, 2))


def test_embeddings_keep_rows():
    table = weft.nn.Embedding(7, 3, padding_idx=0, sparse=True)
    assert repr(table) == "Embedding(7, 3, padding_idx=0, sparse=True)"
    (table(weft.tensor([[1, 0], [4, 1]])) ** 2).sum().backward()
    rows = sparse.sparse_grad(table.weight)
    assert rows.indices.tolist() == [[1, 4]] and rows.shape == (7, 3)
    expected = 2 * numbers(table.weight)[[1, 4]] * numpy.array([[2.0], [1.0]])
    numpy.testing.assert_allclose(numbers(rows.values), expected, rtol=1e-6)
    dense = table.weight.grad
    assert dense.shape == (7, 3) and sparse.sparse_grad(table.weight) is None
    numpy.testing.assert_allclose(numbers(rows.to_dense()), numbers(dense))
    bag = weft.nn.EmbeddingBag(7, 3, mode="sum", sparse=True)
    bag(weft.tensor([[1, 2], [2, 6]])).sum().backward()
    assert sparse.sparse_grad(bag.weight).indices.tolist() == [[1, 2, 6]]
    weight = weft.randn(4, 2, requires_grad=True)
    weft.embedding(weight, weft.tensor([3, 3]), sparse=True).sum().backward()
    assert sparse.sparse_grad(weight).values.tolist() == [[2, 2]]
    with pytest.raises(NotImplementedError, match="scale_grad_by_freq"):
        weft.nn.Embedding(4, 2, scale_grad_by_freq=True)


@pytest.mark.parametrize("make", [lambda p: weft.optim.SparseAdam(p, lr=0.1), lambda p: weft.optim.SGD(p, lr=0.1),
                                  lambda p: weft.optim.Adagrad(p, lr=0.1), lambda p: weft.optim.AdamW(p, lr=0.1)])
def test_optimizers_step_rows_as_dense_gradients(make):
    weight = numpy.random.default_rng(2).standard_normal((50, 4))
    trained = []
    for as_rows in (False, True):
        w = weft.tensor(weight, requires_grad=True)
        optimizer = make([w])
        for step in range(6):
            optimizer.zero_grad()
            ids = weft.tensor([(7 * step + k * k) % 50 for k in range(8)])
            (weft.embedding(w, ids, sparse=as_rows) ** 3).sum().backward()
            weft.nn.utils.clip_grad_norm_([w], 0.5)
            optimizer.step()
        trained.append(numbers(w))
        state = optimizer.state_dict()
        again = make([w])
        again.load_state_dict(state)
        assert again.state_dict().keys() == state.keys()
    numpy.testing.assert_allclose(trained[1], trained[0], rtol=1e-12)


def test_sparse_adam_has_pytorchs_keywords():
    w = weft.zeros(3, 2, requires_grad=True)
    optimizer = weft.optim.SparseAdam([w], lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False)
    assert optimizer.param_groups[0]["betas"] == (0.9, 0.999)
    assert "SparseAdam (" in repr(optimizer)


def test_a_million_rows_are_not_touched():
    table = weft.nn.Embedding(1000000, 8, sparse=True)
    optimizer = weft.optim.SGD(table.parameters(), lr=0.5)
    before = numbers(table.weight)[[5, 6]].copy()
    used = weft.memory_stats()["allocated"]
    table(weft.tensor([5, 999999, 5])).sum().backward()
    optimizer.step()
    assert weft.memory_stats()["allocated"] - used < 1 << 20
    after = numbers(table.weight)[[5, 6]]
    numpy.testing.assert_allclose(after, before - numpy.array([[1.0], [0.0]]), rtol=1e-5, atol=1e-6)
