"""Tensors that get another shape or other memory in place, sizes, storages and print options: PyTorch's results."""

import copy
import gc
import pickle
import warnings

import numpy as np
import pytest

import weft
import weft.torch as torch
from weft import nn, optim


# ---- shapes in place ----

def test_shape_methods_change_the_tensor_itself():
    x = weft.ones(1, 2, 1)
    same = x
    assert x.squeeze_() is x and same.shape == (2,)
    assert x.unsqueeze_(0).shape == (1, 2) and x.t_().shape == (2, 1) and x.transpose_(0, 1).shape == (1, 2)
    assert x.swapaxes_(0, 1).shape == (2, 1) and x.swapdims_(0, 1).shape == (1, 2)
    assert x.squeeze_(dim=0).shape == (2,)
    assert weft.ones(1, 2, 1).squeeze_((0, 2)).shape == (2,)
    assert x.as_strided_((2, 2), (0, 1)).tolist() == [[1, 1], [1, 1]] and same is x
    assert x._version == 8  # squeeze, unsqueeze, t, transpose, swapaxes, swapdims, squeeze, as_strided


def test_gradients_flow_through_a_change_of_shape():
    x = weft.ones(2, 3, requires_grad=True)
    y = x.clone()
    row = y[0:1]
    row.t_()
    row.mul_(2)
    (row * weft.arange(3.0).view(3, 1)).sum().backward()
    assert x.grad.tolist() == [[0, 2, 4], [0, 0, 0]]
    for change in (lambda: x.t_(), lambda: x[0].unsqueeze_(0), lambda: x.resize_(2), lambda: x.set_(weft.ones(1))):
        with pytest.raises(RuntimeError):
            change()
    squares = y * y
    y.t_()
    with pytest.raises(RuntimeError, match="t_"):
        squares.sum().backward()


def test_detach_in_place():
    x = weft.ones(2, requires_grad=True) * 2
    assert x.detach_() is x and x.is_leaf and not x.requires_grad and x.grad_fn is None
    with pytest.raises(RuntimeError, match="view"):
        weft.ones(2)[0].detach_()


def test_resize():
    x = weft.arange(6.0)[::2]
    assert x.resize_(3).stride() == (2,) and x.tolist() == [0, 2, 4]
    assert x.resize_(2, 3).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x.resize_((50,))[:6].tolist() == [0, 1, 2, 3, 4, 5] and x.resize_as_(weft.ones(2, 2)).shape == (2, 2)
    assert x.resize_(()).shape == () and weft.ones(2).resize_(0).shape == (0,)
    with pytest.raises(RuntimeError, match="outside"):
        weft.from_numpy(np.ones(3)).resize_(8)


def test_set():
    x, y = weft.ones(2, 3), weft.arange(6.0)
    assert x.set_(y) is x and x.data_ptr() == y.data_ptr() and x.shape == (6,)
    assert x.set_(y, 1, (2, 2), (2, 1)).tolist() == [[1, 2], [3, 4]]
    assert x.set_(y.storage(), 1, (2, 2)).tolist() == [[1, 2], [3, 4]]
    assert x.set_(y.untyped_storage()).tolist() == y.tolist()
    assert x.set_().shape == (0,)
    with pytest.raises(RuntimeError, match="float64"):
        x.set_(weft.ones(3, dtype=weft.float64))


# ---- data ----

def test_data_takes_another_shape_and_dtype():
    layer = nn.Linear(3, 2)
    p = layer.weight
    p.sum().backward()
    p.data = p.data.half()
    assert p.dtype is weft.float16 and p.grad.dtype is weft.float16 and layer.weight is p and p.requires_grad
    p.grad = None
    (p * p).sum().backward()
    assert p.grad.dtype is weft.float16 and p.grad.shape == (2, 3)
    p.data = weft.full((4, 3), 2.0)
    assert p.grad is None and layer(weft.ones(1, 3)).shape == (1, 4) if layer.bias is None else p.shape == (4, 3)
    p.sum().backward()
    assert p.grad.tolist() == [[1, 1, 1]] * 4
    with pytest.raises((TypeError, RuntimeError)):
        p.data = weft.ones(2, dtype=weft.int64)
    with pytest.raises(TypeError):
        p.data = 3
    y = p * 2
    with pytest.raises(RuntimeError):
        y.data = weft.ones(3)


def test_data_shares_memory_both_ways():
    x, y = weft.ones(2, requires_grad=True), weft.zeros(3)
    x.data = y
    y.fill_(4)
    assert x.tolist() == [4, 4, 4] and x.data.data_ptr() == y.data_ptr() and not x.data.requires_grad
    x.data.add_(1)
    assert y.tolist() == [5, 5, 5]
    other = x.data
    other.t_()
    with pytest.raises(RuntimeError, match=r"written by set_data at .*test_own_memory\.py"):
        z = x * x
        x.data = weft.ones(3)
        z.sum().backward()


def test_exported_memory_stays():
    x = weft.arange(1000.0)
    array, view, other = x.numpy(), memoryview(x), np.from_dlpack(x)
    x.data = weft.ones(2)
    filler = [weft.zeros(1000) for _ in range(50)]
    assert array[999] == view[999] == other[999] == 999 and len(filler) == 50
    x.data = weft.ones(2, 3)
    array = x.numpy()
    x.t_()
    assert array.shape == (2, 3) and x.shape == (3, 2)


def test_optimizers_name_a_state_of_another_shape():
    p = nn.Parameter(weft.ones(2, 3))
    adam, sgd = optim.Adam([p]), optim.SGD([p], 0.5)
    p.sum().backward()
    adam.step()
    p.data = weft.ones(2)
    p.sum().backward()
    with pytest.raises(RuntimeError, match="exp_avg"):
        adam.step()
    sgd.step()
    assert p.tolist() == [0.5, 0.5]


def test_a_gradient_of_another_shape_is_refused():
    x = weft.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="shape"):
        x.grad = weft.ones(3)
    with pytest.raises(RuntimeError):
        x.grad = weft.ones(2, 3).double()
    with pytest.raises(TypeError):
        x.grad = 3
    x.grad = weft.ones(2, 3)
    x.grad.data = weft.ones(3)
    with pytest.raises(RuntimeError, match="gradient"):
        x.sum().backward()


def test_memory_is_freed():
    gc.collect()
    before = weft.live_tensors()
    x = weft.ones(3, requires_grad=True)
    views = [x.data[0], x.detach()]
    for n in range(5):
        x.data = weft.ones(n)
    y = (x * 1).unsqueeze_(0)
    del x, y, views
    gc.collect()
    assert weft.live_tensors() == before


def test_the_old_memory_of_a_large_tensor_is_freed():
    before = weft.memory_stats("cpu")
    x = weft.ones(1 << 20)
    for _ in range(3):
        x.data = weft.ones(1 << 20)
    now = weft.memory_stats("cpu")
    assert now["allocated"] - before["allocated"] < 6 << 20


def test_share_memory():
    x = weft.arange(3.0)
    assert not x.is_shared() and x.share_memory_() is x and x.is_shared() and x.tolist() == [0, 1, 2]
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    before = list(model.parameters())
    optimizer = optim.SGD(model.parameters(), 1.0)
    assert model.share_memory() is model
    assert all(a is b and b.is_shared() for a, b in zip(before, model.parameters()))
    model(weft.randn(4, 2)).square().sum().backward()
    optimizer.step()
    assert all(p.is_shared() for p in model.parameters())


def test_swap_tensors():
    a, b = nn.Parameter(weft.ones(2)), nn.Parameter(weft.zeros(3))
    a.grad = weft.full((2,), 5.0)
    torch.utils.swap_tensors(a, b)
    assert a.tolist() == [0, 0, 0] and b.tolist() == [1, 1] and a.grad is None and b.grad.tolist() == [5, 5]


# ---- facts ----

def test_base_retains_grad_and_storages():
    x = weft.arange(6.0)
    view = x.view(2, 3)[1]
    assert x._base is None and view._base is x
    leaf = weft.ones(2, requires_grad=True)
    result = leaf * 2
    assert not leaf.retains_grad and not result.retains_grad
    result.retain_grad()
    assert result.retains_grad
    untyped, typed = view.untyped_storage(), view.storage()
    assert untyped.nbytes() == len(untyped) == 24 and untyped.data_ptr() == x.data_ptr()
    assert len(typed) == 6 and typed[5] == 5 and list(typed) == x.tolist() and typed.dtype is weft.float32
    typed[0] = 9
    assert x[0].item() == 9 and untyped.device == x.device and typed.nbytes() == 24


def test_size_is_a_tuple():
    size = weft.ones(2, 3).shape
    assert isinstance(size, weft.Size) and isinstance(size, tuple) and size == (2, 3) and hash(size) == hash((2, 3))
    assert isinstance(weft.ones(2).size(), weft.Size) and size.numel() == 6 and weft.Size().numel() == 1
    for other in (size[1:], size + (4,), (4,) + size, size * 2, 2 * size, copy.copy(size), copy.deepcopy(size),
                  pickle.loads(pickle.dumps(size))):
        assert type(other) is weft.Size
    assert type(size[0]) is int and type(weft.ones(2).stride()) is tuple
    assert weft.zeros(size).shape == size and weft.zeros(*size).shape == size
    with pytest.raises(TypeError):
        weft.Size([1.5])


def test_missing_gradients_are_none_on_request():
    seen = []

    class Both(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            seen.append((a, b))
            return b * 3, None

    for materialize in (True, False):
        x = weft.ones(2, requires_grad=True)
        Both.apply(x, materialize)[1].sum().backward()
        assert x.grad.tolist() == [3, 3]
    assert seen[0][0].tolist() == [0, 0] and seen[1][0] is None


# ---- texts ----

def test_print_options():
    try:
        weft.set_printoptions(precision=2)
        assert repr(weft.tensor([1.23456, 2])) == "tensor([1.23, 2.00])"
        weft.set_printoptions(sci_mode=True)
        assert repr(weft.tensor([1.23456, 2])) == "tensor([1.23e+00, 2.00e+00])"
        weft.set_printoptions(profile="default")
        weft.set_printoptions(threshold=4, edgeitems=1)
        assert repr(weft.arange(10.0)) == "tensor([0.,  ..., 9.])"
        weft.set_printoptions(profile="full")
        weft.set_printoptions(linewidth=30)
        assert repr(weft.arange(12.0)).count("\n") == 2
        weft.set_printoptions(profile="short")
        assert repr(weft.arange(2000.0) / 7) == "tensor([0.00e+00, 1.43e-01,  ..., 2.85e+02, 2.86e+02])"
        assert weft.get_printoptions() == {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80,
                                           "sci_mode": None}
        with weft.printoptions(precision=1):
            assert repr(weft.tensor([0.25])) == "tensor([0.2])"
        assert weft.get_printoptions()["precision"] == 2
        with pytest.raises(ValueError):
            weft.set_printoptions(profile="large")
        with pytest.raises(ValueError):
            weft.set_printoptions(precision=-1)
    finally:
        weft.set_printoptions(profile="default")


def test_texts_are_pytorchs_while_it_is_installed(installed):
    assert repr(weft.float32) == "torch.float32" and repr(weft.ones(2, 3).shape) == "torch.Size([2, 3])"
    assert repr(weft.ones(2, dtype=weft.float64)) == "tensor([1., 1.], dtype=torch.float64)"
    x = weft.ones(2, requires_grad=True)
    assert repr(x * 2) == "tensor([2., 2.], grad_fn=<MulBackward0>)"
    assert torch.Tensor(2, 3).shape == (2, 3) and torch.Tensor(x.shape).shape == (2,)
    torch.uninstall()
    assert repr(weft.float32) == "weft.float32" and repr(weft.ones(2, 3).shape) == "(2, 3)"


def test_uint8_tensors_are_masks_while_pytorch_is_installed(installed):
    x, mask = weft.arange(4.0), weft.tensor([0, 1, 1, 0], dtype=weft.uint8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert x[mask].tolist() == [1, 2]
        x[mask] = 9
    assert x.tolist() == [0, 9, 9, 3] and len(caught) == 2
    assert all("uint8" in str(warning.message) for warning in caught)
    assert x.index_put_((mask,), weft.tensor([1.0, 2.0])) is x and x.tolist() == [0, 1, 2, 3]
    assert x.index_put((mask,), weft.tensor([1.0]), accumulate=True).tolist() == [0, 2, 3, 3]
    torch.uninstall()
    assert x[mask].tolist() == [0, 1, 1, 0]
