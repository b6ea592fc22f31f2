"""Names that programs written for PyTorch call in passing."""

import numpy as np
import pytest

import weft
from weft.testing import assert_close


def test_accelerators_answer_where_there_is_none():
    for kind, name in ((weft.cuda, "cuda"), (weft.hpu, "hpu")):
        assert kind.device_count() == weft.device_count(name) and kind.is_available() == (kind.device_count() > 0)
        kind.manual_seed_all(1)
        kind.empty_cache()
        if not kind.is_available():
            with pytest.raises((RuntimeError, ValueError), match="there is no device"):
                kind.synchronize()


def test_threads_are_counted():
    before = weft.get_num_threads()
    weft.set_num_threads(1)
    assert weft.get_num_threads() == 1
    weft.set_num_threads(before)
    assert weft.Size((2, 3)) == weft.ones(2, 3).shape


@pytest.mark.parametrize("default", [weft.float64, weft.float16, weft.bfloat16, weft.float32], ids=str)
def test_the_default_dtype_is_that_of_new_tensors(default):
    whole, bools, single = weft.tensor([1, 2, 3]), weft.tensor([True, False]), weft.ones(2, dtype=weft.float32)
    weft.set_default_dtype(default)
    try:
        assert weft.get_default_dtype() is default
        made = [weft.tensor(1.5), weft.ones(2), weft.tensor([1, 2.5]), weft.tensor([]), whole + 2.5, whole / 2,
                weft.sqrt(whole), weft.rand(2).mean(), bools * 0.5, weft.arange(0, 1, 0.5), weft.linspace(0, 1, 3),
                weft.full((2,), 1.5), weft.eye(2), weft.nn.Linear(2, 2).weight, weft.where(bools, 1.5, 2.5),
                weft.nn.LSTM(2, 2)(weft.ones(3, 1, 2))[0], weft.nn.BatchNorm1d(2).running_mean]
        assert [t.dtype for t in made] == [default] * len(made)
        assert [t.dtype for t in (single * 2.5, whole.float())] == [weft.float32] * 2
        assert [t.dtype for t in (weft.arange(3), weft.full((2,), 1), whole + 1)] == [weft.int64] * 3
    finally:
        weft.set_default_dtype(weft.float32)


def test_a_default_dtype_is_floating():
    for wrong in (weft.int64, weft.bool, weft.float8_e5m2, "x"):
        with pytest.raises(TypeError):
            weft.set_default_dtype(wrong)
    assert weft.get_default_dtype() is weft.float32


def test_close_tensors_pass():
    x = weft.randn(3, 4)
    for pair in ((x, x + 1e-6), (1.0, 1.0 + 1e-8), ([x, 2], [x, 2]), ({"a": x}, {"a": x}), (np.ones(2, "f4"), np.ones(2, "f4")),
                 (weft.ones(0), weft.ones(0)), (weft.tensor(True), weft.tensor(True)), (float("inf"), float("inf"))):
        assert_close(*pair)
    assert_close(weft.tensor([1.0, float("nan")]), weft.tensor([1.0, float("nan")]), equal_nan=True)
    assert_close(weft.ones(2), weft.ones(2, dtype=weft.float64), check_dtype=False)
    assert_close(weft.ones(2), weft.ones(2) * 1.5, rtol=0.5, atol=0)
    assert_close(weft.ones(2, dtype=weft.bfloat16), weft.ones(2, dtype=weft.bfloat16) * 1.01)


def test_documented_differences_hold():
    x = weft.zeros(2, 3)
    y = x.clone()
    y[1, 2] = 2.0
    for actual, expected, said in ((x, y, r"1 of 6 elements differ .* the first at \[1, 2\]: 0 and 2"), (x, x[0], "shapes"),
                                   (x, x.to(weft.float64), "dtypes"), ([x], [x, x], "lengths"), ({"a": x}, {"b": x}, "keys"),
                                   (float("nan"), float("nan"), "1 of 1"), (1, 2, "first at \\[\\]: 1 and 2"),
                                   (float("inf"), -float("inf"), "inf and -inf")):
        with pytest.raises(AssertionError, match=said):
            assert_close(actual, expected)
    with pytest.raises(AssertionError, match="mine"):
        assert_close(x, y, msg="mine")
    with pytest.raises(ValueError, match="together"):
        assert_close(x, x, rtol=1)


def test_members_are_found_by_their_path():
    net = weft.nn.Sequential(weft.nn.Linear(2, 3), weft.nn.BatchNorm1d(3))
    assert net.get_parameter("0.weight") is net[0].weight
    assert weft.equal(net.get_buffer("1.running_mean"), weft.zeros(3)) and net[0].get_parameter("bias").shape == (3,)
    for target, said in (("0.nothing", "no parameter 'nothing'"), ("1.running_mean", "no parameter"), ("2.weight", "2")):
        with pytest.raises(AttributeError, match=said):
            net.get_parameter(target)
    if not weft.cuda.is_available():
        with pytest.raises((RuntimeError, ValueError), match="there is no device"):
            net.cuda()


def test_indices_on_devices_are_checked_at_the_call_in_a_scope():
    said = "indices on devices checked at the call: "
    assert said + "no" in weft.config()
    with weft.check_indices():
        assert said + "yes" in weft.config()
        with weft.check_indices(False):
            assert said + "no" in weft.config()
    assert said + "no" in weft.config()


def test_tf32_is_off_unless_it_is_switched_on():
    assert not weft.tf32_state()
    with weft.tf32():
        assert weft.tf32_state()
        with weft.tf32(matmul=False):
            assert not weft.tf32_state()
        assert weft.tf32_state()
    assert not weft.tf32_state()
    weft.set_tf32(matmul=True)
    assert weft.tf32_state() and "TF32 in products: on" in weft.config()
    weft.set_tf32()
    assert not weft.tf32_state()
