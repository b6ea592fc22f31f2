"""x[...] and x[...] = v against NumPy."""

import numpy as np
import pytest

import weft

a = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
mask = a % 3 == 0
cases = [
    0, -1, slice(None), slice(1, None), slice(None, None, 2), slice(-2, None), None, Ellipsis, True, False, np.True_,
    (0, 1), (0, 1, 2), (slice(None), 1), (Ellipsis, 0), (0, Ellipsis), (None, Ellipsis, None), (1, None, slice(1, 3)),
    slice(5, 1), slice(-100, 100), (slice(None, None, 3), slice(1, 4, 2)),
    [0, 2], [True, False, True], ([0, 1], [1, 2]), ([[0], [1]], [1, 2]), (slice(None), [0, 0, 3]),
    ([0, 1], slice(None), [1, 2]), mask, (slice(None), mask[0]), mask[:, 0, 0],
    np.array([0, 2]), np.array(1), np.int64(2), np.uint8(1), np.array([True, False, False]), (np.array([0, 1]), None, 2),
    [], ([],), (slice(None), []), range(2), -2, (np.array([-1, -3]),), slice(None, None, -1), (slice(None), slice(3, None, -2)),
]


def numpys(index):
    return tuple(list(i) if isinstance(i, range) else i for i in index) if isinstance(index, tuple) else \
        list(index) if isinstance(index, range) else index


def want_of(index):
    index = numpys(index)
    if isinstance(index, list) and not index:
        index = np.array([], dtype=int)
    if isinstance(index, tuple):
        index = tuple(np.array([], dtype=int) if isinstance(i, list) and not i else i for i in index)
    return index


@pytest.mark.parametrize("index", cases, ids=str)
def test_reading_is_numpys(index, device):
    x = weft.tensor(a).to(device)
    want = a[want_of(index)]
    got = x[index].to("cpu").numpy()
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("index", cases, ids=str)
def test_writing_is_numpys(index, device):
    for value in (7.0, "row"):
        x, want = weft.tensor(a).to(device), a.copy()
        if value == "row":
            value = np.arange(want[want_of(index)].shape[-1] if want[want_of(index)].ndim else 1, dtype=np.float32)
            if not want[want_of(index)].ndim:
                value = value[0]
        want[want_of(index)] = value
        x[index] = weft.tensor(value).to(device) if isinstance(value, np.ndarray) else value
        np.testing.assert_array_equal(x.to("cpu").numpy(), want)


def test_tensors_index(device):
    x = weft.tensor(a).to(device)
    i = weft.tensor([2, 0]).to(device)
    np.testing.assert_array_equal(x[i].to("cpu").numpy(), a[[2, 0]])
    np.testing.assert_array_equal(x[:, i].to("cpu").numpy(), a[:, [2, 0]])
    np.testing.assert_array_equal(x[weft.tensor(1).to(device)].to("cpu").numpy(), a[1])
    np.testing.assert_array_equal(x[x > 30].to("cpu").numpy(), a[a > 30])
    x[x > 30] = 0
    assert x.max().item() == 30
    x[0] = [[1.0] * 5] * 4
    assert x[0].sum().item() == 20
    x[1] = np.ones(5)
    assert x[1].sum().item() == 20


def test_an_integer_beside_a_list_selects_first_as_in_pytorch():
    assert weft.tensor(a)[0, :, [1, 2]].shape == (4, 2)


def test_basic_indices_are_views_and_gradients_flow():
    x = weft.tensor(a.copy())
    x[1][2] = 0
    assert x[1, 2].sum().item() == 0
    w = weft.ones(3, 2, requires_grad=True)
    (w[0].sum() + (w[[0, 0, 2]] * 2).sum()).backward()
    assert w.grad.tolist() == [[5, 5], [0, 0], [2, 2]]


@pytest.mark.parametrize("index, kind", [
    (3, IndexError), (-4, IndexError), ((0, 0, 0, 0), IndexError), ([5], IndexError), (1.5, IndexError),
    ("a", IndexError), (object(), IndexError), ((Ellipsis, Ellipsis), IndexError), (slice(None, None, 0), ValueError),
    (slice("a"), TypeError), (np.array([1.5]), IndexError), ([1.5], IndexError), (weft.tensor(0.5), IndexError), ([[0, 1], [0]], ValueError), (np.ones((2, 2), bool), IndexError),
    (10**30, IndexError), ({}, IndexError), (1j, IndexError),
])
def test_bad_indices(index, kind):
    x = weft.tensor(a)
    with pytest.raises(kind):
        x[index]
    with pytest.raises(kind):
        x[index] = 0


def test_an_assignment_with_an_operator_writes_once():
    x = weft.tensor(a.copy())
    before = x._version
    x[1] += 1
    assert x._version == before + 1 and x[1, 0, 0].item() == a[1, 0, 0] + 1
    x[:, 2] *= 2
    assert x._version == before + 2 and x[0, 2, 1].item() == 2 * a[0, 2, 1]
    x[[0, 0]] += 1  # a copy is read, changed and written
    assert x._version == before + 3 and x[0, 0, 0].item() == a[0, 0, 0] + 1
    x[0] = x[1]
    assert x[0].tolist() == x[1].tolist()
    w = weft.ones(2, 2, requires_grad=True)
    y = w * 1
    y[0] *= 3
    y.sum().backward()
    assert w.grad.tolist() == [[3, 3], [1, 1]]
    w.grad, y = None, w * 1
    y[0] = y[0].detach()  # the same elements, but outside the graph
    y.sum().backward()
    assert w.grad.tolist() == [[0, 0], [1, 1]]


def test_bad_values():
    x = weft.tensor(a)
    for value, kind in [("a", TypeError), (weft.ones(7), ValueError), (None, TypeError), (object(), TypeError)]:
        with pytest.raises(kind):
            x[0] = value
    with pytest.raises(TypeError):
        del x[0]


def last_gradients(write):
    z, v = weft.zeros(2), weft.tensor([1.0, 2.0, 3.0], requires_grad=True)
    out = write(z, v)
    ((z if out is None else out) * weft.tensor([10.0, 20.0])).sum().backward()
    return v.grad.tolist()


def test_of_repeated_indices_only_the_last_has_a_gradient():
    at = weft.tensor([0, 0, 1])
    writes = [lambda z, v: z.__setitem__([0, 0, 1], v), lambda z, v: z.__setitem__(at, v), lambda z, v: z.index_put_((at,), v),
              lambda z, v: weft.index_put(z, [at], v), lambda z, v: z.put_(at, v), lambda z, v: z.scatter(0, at, v),
              lambda z, v: z.scatter_(0, at, v), lambda z, v: z.index_copy(0, at, v), lambda z, v: z.index_copy_(0, at, v)]
    for write in writes:
        assert last_gradients(write) == [0, 10, 20]
    z, v = weft.zeros(2), weft.tensor(1.0, requires_grad=True)
    z[[0, 0, 1]] = v
    z.sum().backward()
    assert v.grad.item() == 2
    x, v = weft.zeros(3, 2), weft.ones(1, 2, requires_grad=True)
    x[[0, 0, 2]] = v
    (x * weft.tensor([[1.0], [10.0], [100.0]])).sum().backward()
    assert v.grad.tolist() == [[101, 101]]


def test_negative_indices_are_out_of_range_as_in_pytorch(device):
    F = weft.nn.functional
    x, v, at, both = weft.rand(3, 2).to(device), weft.rand(3).to(device), weft.tensor([-1]).to(device), \
        weft.tensor([[-1, -1]]).to(device)
    image, places = weft.rand(1, 1, 2).to(device), weft.tensor([[[-1, 2]]]).to(device)
    row = x[:1].clone()
    calls = [lambda: x.index_select(0, at), lambda: v.index_select(0, at), lambda: x.gather(0, both), lambda: v.gather(0, at),
             lambda: x.scatter(0, both, row), lambda: x.scatter(0, both, 1.0), lambda: x.scatter_add(0, both, row),
             lambda: x.index_add(0, at, row), lambda: x.index_copy(0, at, row), lambda: F.embedding(at, x),
             lambda: weft.nn.Embedding(200, 2).to(device)(weft.tensor([-100]).to(device)),
             lambda: F.embedding(at, x, padding_idx=-1), lambda: F.max_unpool1d(image, places, 2),
             lambda: F.max_unpool2d(image.unsqueeze(2), places.unsqueeze(2), (1, 2)),
             lambda: weft.searchsorted(v, v, sorter=weft.tensor([-1, 0, 1]).to(device)),
             lambda: F.cross_entropy(x, weft.tensor([-1, 0, 1]).to(device)),
             lambda: F.nll_loss(x, weft.tensor([-1, 0, 1]).to(device))]
    calls += [lambda how=how: F.embedding_bag(both, x, mode=how) for how in ("sum", "mean", "max")]
    calls += [lambda: F.embedding_bag(both, x, padding_idx=-1, mode="sum")]
    calls += [lambda how=how: x.scatter_reduce(0, both, row, how) for how in ("sum", "prod", "mean", "amax", "amin")]
    calls += [lambda how=how: weft.index_reduce(x, 0, at, row, how) for how in ("prod", "mean", "amax", "amin")]
    for i, call in enumerate(calls):
        with pytest.raises(IndexError):
            call().cpu()
            pytest.fail(f"call {i}")
    assert F.cross_entropy(x, weft.tensor([-100, 0, 1]).to(device)).isfinite().item()
    assert F.embedding(weft.tensor([2]).to(device), x, padding_idx=-1).tolist() == x[2:].tolist()
    for got, want in [(x[at], x[2:]), (x.take(at), x.view(-1)[5:]), (weft.take_along_dim(x, both, 0), x[2:]),
                      (x.put(at, row.view(-1)[:1])[2, 1], row[0, 0]), (x.index_fill(0, at, 7.0)[2, 0], weft.tensor(7.0))]:
        assert got.tolist() == want.tolist()


def test_float_sums_by_index_keep_their_precision():
    n = 1_000_000
    at, tenth = weft.zeros(n, dtype=weft.int64), weft.full((n,), 0.1)
    want = float(np.float32(0.1)) * n

    def near(total):
        assert abs(total - want) < 2e-7 * want

    near(weft.zeros(1).index_add(0, at, tenth).item())
    near(weft.zeros(1).scatter_add(0, at, tenth).item())
    near(weft.zeros(1).put(at, tenth, accumulate=True).item())
    near(weft.zeros(1).index_put((at,), tenth, accumulate=True).item())
    near(weft.bincount(at, tenth).item())
    near(weft.zeros(1).scatter_reduce(0, at, tenth, "mean").item() * (n + 1))
    near(weft.nn.functional.embedding_bag(weft.zeros(1, n, dtype=weft.int64), weft.full((1, 1), 0.1), mode="sum").item())
    ones = weft.zeros(1, dtype=weft.bfloat16).index_add_(0, weft.zeros(20_000_000, dtype=weft.int64),
                                                         weft.ones(20_000_000, dtype=weft.bfloat16))
    assert ones.item() == 20054016
    for read in (lambda w: w[at], lambda w: w.take(at), lambda w: w.index_select(0, at), lambda w: w.gather(0, at),
                 lambda w: weft.nn.functional.embedding(at, w.unsqueeze(1)).squeeze(1),
                 lambda w: weft.nn.functional.embedding_bag(at, w.unsqueeze(1), at[:1], mode="sum").expand(1, 1) * 1):
        w = weft.zeros(1, requires_grad=True)
        out = read(w)
        out.backward(tenth if out.numel() == n else weft.full_like(out, 0.1))
        if out.numel() == n:
            near(w.grad.item())
        else:
            assert abs(w.grad.item() - want) < 2e-7 * want
