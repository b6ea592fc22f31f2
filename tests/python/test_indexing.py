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
