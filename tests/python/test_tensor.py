"""weft.Tensor as Python sees it: creation, properties, operators, protocols, printing, copying."""

import copy
import pickle
import weakref

import numpy as np
import pytest

import weft


def test_literals_have_pytorchs_dtypes():
    assert weft.tensor(1).dtype is weft.int64 and weft.tensor(1.0).dtype is weft.float32
    assert weft.tensor(True).dtype is weft.bool and weft.tensor([]).dtype is weft.float32
    assert weft.tensor([[1, 2], [3, 4]]).shape == (2, 2) and weft.tensor([1, 2.5]).tolist() == [1, 2.5]
    assert weft.tensor([2**62]).item() == 2**62
    assert weft.tensor([2**63], dtype=weft.uint64).item() == 2**63
    assert weft.tensor([weft.tensor(1.0), weft.tensor(2.0)]).tolist() == [1, 2]
    assert weft.tensor([np.float32(1.5), 2]).tolist() == [1.5, 2]
    assert weft.tensor(np.arange(3, dtype=np.int16)).dtype is weft.int16
    assert weft.tensor(range(3)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("data, kind", [([[1], [1, 2]], ValueError), ("abc", TypeError), ({1: 2}, TypeError),
                                        ([None], TypeError), (object(), TypeError), ([1, "a"], TypeError),
                                        ([[1, 2], 3], ValueError)])
def test_other_objects_than_arrays_raise(data, kind):
    with pytest.raises(kind):
        weft.tensor(data)


def test_creation_functions():
    assert weft.zeros(2, 3).shape == (2, 3) and weft.zeros((2, 3)).shape == (2, 3) and weft.zeros([]).shape == ()
    assert weft.full((2,), 7).dtype is weft.int64 and weft.full((2,), 7.0).dtype is weft.float32
    assert weft.arange(3).tolist() == [0, 1, 2] and weft.arange(1, 2, 0.5).tolist() == [1, 1.5]
    assert weft.linspace(0, 1, 3).tolist() == [0, 0.5, 1]
    assert weft.eye(2, dtype=weft.int32).tolist() == [[1, 0], [0, 1]]
    assert weft.ones_like(weft.zeros(2, dtype=weft.float64)).dtype is weft.float64
    assert weft.ones(2, requires_grad=True).requires_grad
    assert weft.randint(5, (100,)).max().item() < 5 and weft.randint(3, 5, (9,)).min().item() >= 3
    assert sorted(weft.randperm(5).tolist()) == [0, 1, 2, 3, 4]


def test_generators_are_independent_and_repeat():
    g = weft.Generator().manual_seed(3)
    a = weft.rand(4, generator=g)
    before = weft.get_rng_state()
    assert (weft.rand(4, generator=g.manual_seed(3)) == a).all()
    assert (weft.get_rng_state() == before).all()
    state = g.get_state()
    b = weft.randn(3, generator=g)
    g.set_state(state)
    assert (weft.randn(3, generator=g) == b).all()
    with pytest.raises(TypeError):
        weft.rand(2, generator=5)


@pytest.mark.parametrize("dtype, highest", [
    ("float32", 2**24), ("float16", 2**11), ("bfloat16", 2**8), ("uint8", 255), ("int8", 127), ("int16", 2**15 - 1),
    ("int64", 2**63 - 1), ("bool", True)])
def test_random_integers_of_every_dtype(dtype, highest):
    x = weft.zeros(4000, dtype=getattr(weft, dtype))
    assert x.random_() is x
    drawn = x.tolist()
    assert min(drawn) >= 0 and highest / 2 < max(drawn) <= highest and all(n == int(n) for n in drawn)
    assert set(x.random_(2).tolist()) == {0, 1}
    if dtype != "bool":
        assert set(x.random_(2, 5).tolist()) == set(x.random_(2, to=5).tolist()) == {2, 3, 4}
        assert set(x.random_(**{"from": 7, "to": 8}).tolist()) == {7} and min(x.random_(100, None).tolist()) >= 100
    state = weft.Generator().manual_seed(3)
    again = x.random_(generator=state).clone()
    assert weft.equal(again, x.random_(generator=state.manual_seed(3)))


def test_random_integers_reject_bounds_beyond_the_dtype():
    x = weft.zeros(3, dtype=weft.int8)
    for bounds in ((300,), (0,), (-129, 3), (5, 5)):
        with pytest.raises(ValueError):
            x.random_(*bounds)
    for wrong in (lambda: x.random_(1, 2, 3), lambda: x.random_(1, 2, to=3), lambda: x.random_(high=3),
                  lambda: x.random_(2.5)):
        with pytest.raises(TypeError):
            wrong()
    assert x.tolist() == [0, 0, 0]


def test_types_have_pytorchs_names():
    x = weft.tensor([1.5, -2.0])
    assert x.type() == "weft.FloatTensor" and x.type(weft.int32).type() == "weft.IntTensor"
    assert x.type("weft.DoubleTensor").dtype is weft.float64 and weft.tensor([True]).type() == "weft.BoolTensor"
    for dtype in {d for d in vars(weft).values() if isinstance(d, weft.dtype)}:
        assert x.type(weft.zeros(1).to(dtype).type()).dtype is dtype
    for wrong in ("FloatTensor", "weft.float32"):
        with pytest.raises(ValueError, match=wrong):
            x.type(wrong)


def test_names_are_listed_once():
    names = dir(weft)
    assert len(names) == len(set(names)) and {"fft", "Tensor", "gradient", "replay"} <= set(names)


def test_properties():
    x = weft.zeros(2, 3, 4)
    assert (x.ndim, x.dim(), x.numel(), x.itemsize, x.element_size(), x.nbytes) == (3, 3, 24, 4, 4, 96)
    assert x.stride() == (12, 4, 1) and x.stride(1) == 4 and x.size() == (2, 3, 4) and x.size(-1) == 4
    assert x.T.shape == (4, 3, 2) and x.mT.shape == (2, 4, 3) and x[1].storage_offset() == 12
    assert x.is_contiguous() and not x.mT.is_contiguous() and x.device == weft.device("cpu")
    assert x.view(6, 4).data_ptr() == x.data_ptr() and x.is_leaf and x.grad is None and x.grad_fn is None
    assert len(x) == 2 and [t.shape for t in x] == [(3, 4), (3, 4)]
    with pytest.raises(TypeError):
        len(weft.tensor(1))
    with pytest.raises(TypeError):
        iter(weft.tensor(1))
    for bad in (lambda: x.stride(2**32), lambda: x.size(5)):
        with pytest.raises(IndexError):
            bad()
    with pytest.raises(AttributeError):
        x.bogus
    with pytest.raises(AttributeError):
        weft.bogus


def test_dtypes_are_single_objects_and_equal_nothing_foreign():
    assert weft.zeros(1).dtype is weft.float32 is weft.float
    assert weft.float32 != "float32" and weft.float32 != np.float32 and weft.float32 != None and not weft.float32 == 1  # noqa
    assert pickle.loads(pickle.dumps(weft.int8)) is weft.int8 and copy.deepcopy(weft.int8) is weft.int8
    assert repr(weft.bfloat16) == "weft.bfloat16" and len({weft.float32, weft.float64}) == 2
    with pytest.raises(TypeError):
        weft.dtype()
    assert weft.device("cpu") == weft.device("cpu") and weft.device("cpu") != "cpu"
    assert repr(weft.device("hpu:1")) == "device(type='hpu', index=1)"
    with pytest.raises(RuntimeError):
        weft.device("toaster")


def test_operators():
    a, b = weft.tensor([1.0, 2.0]), weft.tensor([3.0, 5.0])
    for got, want in [(a + b, [4, 7]), (a - b, [-2, -3]), (a * b, [3, 10]), (b / a, [3, 2.5]), (b // a, [3, 2]),
                      (b % a, [0, 1]), (a**b, [1, 32]), (2 + a, [3, 4]), (2 - a, [1, 0]), (2 * a, [2, 4]),
                      (2 / a, [2, 1]), (2**a, [2, 4]), (-a, [-1, -2]), (+a, [1, 2]), (abs(-a), [1, 2]),
                      (a < b, [True, True]), (a == b, [False, False]), (7 // a, [7, 3])]:
        assert got.tolist() == want
    assert (a @ b).item() == 13
    m = weft.tensor([True, False])
    assert (m & ~m).tolist() == [False, False] and (m | ~m).tolist() == [True, True] and (m ^ True).tolist() == [False, True]
    c = a
    c += 1
    c *= 2
    assert c is a and a.tolist() == [4, 6]
    with pytest.raises(TypeError):
        a + "x"
    for sum_of_both in (a + np.ones(2), np.ones(2) + a):
        assert sum_of_both.dtype is weft.float64 and sum_of_both.tolist() == [5, 7]
    assert (a + np.float32(1)).dtype is weft.float32 and (np.float64(1) + a).tolist() == [5, 7]
    assert a in {a} and divmod(b, 2.0)[0].tolist() == [1, 2]


def test_in_place_ops_give_the_object_they_were_called_on():
    x = weft.tensor([1.0, 4.0])
    for call in (lambda: x.sqrt_(), lambda: x.add_(1), lambda: x.add_(1, alpha=3), lambda: x.clamp_(max=5),
                 lambda: x.fill_(2), lambda: x.zero_(), lambda: x.copy_(weft.ones(2)), lambda: x.uniform_(1, 2),
                 lambda: x.masked_fill_(x > 0, 3.0), lambda: x.requires_grad_(False)):
        assert call() is x
    assert x.tolist() == [3, 3] and x._version > 5


def test_ops_without_an_in_place_kernel_have_the_form_all_the_same():
    x = weft.tensor([1.0, 2.0, 3.0])
    assert x.index_fill_(0, weft.tensor([1]), 9.0) is x and x.tolist() == [1, 9, 3]
    w = weft.ones(3, requires_grad=True)
    y = w * 2
    y.index_fill_(0, weft.tensor([0]), 0.0)
    y.sum().backward()
    assert w.grad.tolist() == [0, 2, 2]
    assert x.flip(0).tolist() == [3, 9, 1] and x.repeat(2, 1).shape == (2, 3)


def test_one_element_converts():
    x = weft.tensor([[2.5]])
    assert float(x) == 2.5 and int(x) == 2 and bool(x) and x.item() == 2.5 and f"{x:.1f}" == "2.5"
    assert [10, 20, 30][weft.tensor(1)] == 20 and weft.tensor(2**60).item() == 2**60
    assert weft.tensor(float("nan")).item() != weft.tensor(float("nan")).item()
    for bad in (lambda: float(weft.ones(2)), lambda: bool(weft.ones(2)), lambda: weft.ones(0).item()):
        with pytest.raises(ValueError):
            bad()
    with pytest.raises(TypeError):
        [1, 2][weft.tensor(1.0)]
    with pytest.raises((OverflowError, ValueError)):
        int(weft.tensor(float("inf")))


def test_views_share_memory():
    x = weft.arange(6.0)
    y = x.view(2, 3)
    y[0, 0] = 9
    assert x[0].item() == 9
    assert x.view(weft.int32).dtype is weft.int32 and x.view(weft.uint8).shape == (24,)
    assert x.view(weft.float64).shape == (3,)
    with pytest.raises(ValueError):
        weft.ones(3).view(weft.float64)
    assert x.reshape(3, -1).shape == (3, 2) and x.split([1, 5])[1].shape == (5,) and len(x.chunk(4)) == 3
    assert x.unsqueeze(0).squeeze().shape == (6,) and weft.ones(1, 2, 1).squeeze((0, 2)).shape == (2,)
    assert x.unbind()[2].item() == 2 and y.permute(1, 0).shape == (3, 2) and y.flatten().shape == (6,)
    assert y.expand(2, 2, 3).stride() == (0, 3, 1) and x.as_strided((2, 2), (1, 2)).tolist() == [[9, 2], [1, 3]]


def test_to_converts_and_keeps():
    x = weft.ones(2)
    assert x.to(weft.float32) is not None and x.to(weft.float32).data_ptr() == x.data_ptr()
    assert x.to(weft.int8).dtype is weft.int8 and x.double().dtype is weft.float64 and x.long().dtype is weft.int64
    assert x.to("cpu", weft.float16).dtype is weft.float16 and x.to(weft.ones(1, dtype=weft.int32)).dtype is weft.int32
    assert x.to(weft.float32, copy=True).data_ptr() != x.data_ptr()
    with pytest.raises(RuntimeError):
        x.to("hpu:77")


def test_printing_is_pytorchs():
    assert repr(weft.tensor([1.0, 2.0])) == "tensor([1., 2.])"
    assert repr(weft.tensor([[True], [False]])) == "tensor([[ True],\n        [False]])"
    assert str(weft.tensor(3)) == "tensor(3)" and "float64" in repr(weft.ones(1, dtype=weft.float64))
    assert "requires_grad=True" in repr(weft.ones(1, requires_grad=True))


@pytest.mark.parametrize("dtype", [d for d in vars(weft._core).values() if isinstance(d, weft.dtype)])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_pickle_and_deepcopy_keep_everything(dtype, shape):
    x = (weft.ones(shape) * 3).to(dtype)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert y.dtype is dtype and y.shape == shape and y.tolist() == x.tolist() and type(y) is weft.Tensor


def test_deepcopy_keeps_sharing_inside_and_the_gradient():
    w = weft.ones(2, requires_grad=True)
    w.sum().backward()
    a, b = copy.deepcopy([w, w])
    assert a is b and a.grad.tolist() == [1, 1] and a.requires_grad and a.data_ptr() != w.data_ptr()
    with pytest.raises(ValueError):
        copy.deepcopy(w * 2)


def test_tensors_can_be_subclassed_and_referred_to_weakly():
    class Mine(weft.Tensor):
        pass

    m = Mine([1.0, 2.0])
    m.note = "kept"
    assert isinstance(m + m, weft.Tensor) and m.tolist() == [1, 2] and m.note == "kept"
    r = weakref.ref(m)
    del m
    assert r() is None
    x = weft.ones(1)
    r = weakref.ref(x)
    assert r() is x


def test_files(tmp_path):
    x = {"a": weft.arange(4.0), "b": weft.ones(2, 2, dtype=weft.bfloat16)}
    weft.save_file(x, tmp_path / "x.safetensors", {"note": "hello"})
    y = weft.load_file(tmp_path / "x.safetensors")
    assert y["a"].tolist() == [0, 1, 2, 3] and y["b"].dtype is weft.bfloat16
    weft.save_npy(x["a"], tmp_path / "a.npy")
    assert np.load(tmp_path / "a.npy").tolist() == [0, 1, 2, 3] and weft.load_npy(tmp_path / "a.npy").shape == (4,)
    with pytest.raises(OSError):
        weft.load_file(tmp_path / "nowhere")


def test_squeeze_takes_dimensions_as_every_op_does():
    scalar = weft.tensor(1.0)
    assert scalar.squeeze(0).shape == () and scalar.squeeze(-1).shape == () and scalar.squeeze((0,)).shape == ()
    assert weft.ones(1, 2, 1).squeeze((0, -1)).shape == (2,)
    for dim in (1, -2, 2**32, 2**63 - 1):
        with pytest.raises(IndexError):
            scalar.squeeze(dim)


def test_sizes_and_dimensions_may_be_0d_tensors():
    two, three, last = weft.tensor(2), weft.tensor(3, dtype=weft.int32), weft.tensor(-1)
    x = weft.arange(6)
    assert x.view(two, three).shape == x.view((two, three)).shape == x.reshape([two, three]).shape == (2, 3)
    assert weft.ones(two, three).shape == weft.zeros((two, 3)).shape == weft.ones(two).expand(three, two).shape[::-1]
    assert x.view(2, 3).sum(last).tolist() == [3, 12] and x.view(2, 3).permute(weft.tensor(1), 0).shape == (3, 2)
    assert x.narrow(0, two, three).tolist() == [2, 3, 4]


def test_sizes_never_wrap():
    x = weft.ones(4)
    for call in (lambda: x.split([2**63 - 1, 2**63 - 1, 6]), lambda: weft.ones(1, 1).expand(2**32, 2**32),
                 lambda: x.as_strided((2,), (2**62,)), lambda: x.repeat(2**62), lambda: weft.empty(2**32, 2**32)):
        with pytest.raises(ValueError):
            call()


def test_errors_quote_no_thousands_of_characters():
    long = "x" * 5000
    calls = [lambda: weft.zeros(2, device=long), lambda: weft.nn.functional.mse_loss(weft.ones(2), weft.ones(2), reduction=long),
             lambda: getattr(weft.ones(1), "to")(long), lambda: weft.sum(weft.ones(2), **{long: 1})]
    for call in calls:
        with pytest.raises((ValueError, TypeError, RuntimeError)) as caught:
            call()
        assert len(str(caught.value)) < 1200


def test_a_false_index_writes_nothing():
    x = weft.ones(2, 3)
    x[False] = 7
    x[weft.tensor(False)] = weft.zeros(0, 2, 3)
    assert x.sum().item() == 6
    x[True] = 2
    assert x.sum().item() == 12


def test_devices_are_named_beside_tensors_large_enough_to_give_the_interpreter_away(device):
    n = 100_000
    x = weft.zeros(n, device=device)
    assert x.to("cpu").numel() == x.to(device).numel() == x.to(device=device).numel() == x.cpu().numel() == n
    for make in (weft.empty, weft.ones, weft.rand, weft.randn):
        assert make(n, device=device).numel() == n
    assert weft.full((n,), 2, device=device).numel() == weft.randint(0, 3, (n,), device=device).numel() == n
    assert weft.ones_like(x, device="cpu").numel() == weft.arange(n, device=device).numel() == n
    with pytest.raises((ValueError, RuntimeError), match="test_tensor.py"):
        x.to("gpu")


def test_bit_operators_write_in_place():
    for write, want in ((lambda x: x.__iand__(4), 4), (lambda x: x.__ior__(2), 7), (lambda x: x.__ixor__(1), 4),
                        (lambda x: x.__ilshift__(1), 10), (lambda x: x.__irshift__(1), 2)):
        x = weft.tensor([5], dtype=weft.int8)
        assert write(x) is x and x.dtype is weft.int8 and x.tolist() == [want]
    mask = weft.tensor([True, False])
    kept = mask
    mask &= weft.tensor([True, True])
    assert mask is kept and mask.tolist() == [True, False]
    with pytest.raises(TypeError, match="cannot be written into bool"):
        mask |= weft.tensor([4, 4])


@pytest.mark.parametrize("call", [
    lambda: weft.zeros((1,) * 9), lambda: weft.full((1,) * 9, 1), lambda: weft.ones(2).reshape((1,) * 8 + (2,)),
    lambda: weft.ones(1).expand((1,) * 9), lambda: weft.ones(1).repeat((1,) * 9)])
def test_too_many_dimensions_name_the_callers_line(call):
    with pytest.raises(ValueError, match="at most 8 dimensions(.|\n)*test_tensor.py:"):
        call()


def test_a_tensor_as_a_condition_raises_with_a_remedy():
    with pytest.raises(ValueError, match=r"any\(\), t.all\(\) or weft.equal"):
        bool(weft.ones(2) == weft.ones(2))


def test_ops_are_methods_if_their_first_argument_is_a_tensor():
    for name in ("hann_window", "geomspace", "einsum", "pad_sequence", "chain_matmul", "cat", "zeros", "tril_indices"):
        assert name in weft._core._ops and not hasattr(weft.Tensor, name), name
    for name in ("add", "add_", "softmax", "searchsorted", "addmm", "one_hot"):
        assert getattr(weft.Tensor, name) is weft._core._ops[name], name
