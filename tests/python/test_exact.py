"""Numbers beyond a dtype, in-place forms with wider operands, complex numbers as arguments, Python's types as dtypes."""

import math

import pytest

import weft
import weft.nn.functional as F


def test_comparisons_are_exact():
    u = weft.tensor([3], dtype=weft.uint8)
    true = [u > -1, u < 256, u != 259, u <= 300, -1 < u, u != 3.5, u > -math.inf, u < 2**63, u < 2**64, u > -2**70,
            weft.lt(u, 2**70), weft.ne(u, other=259), u.to(weft.int64) < 2**63, u.float() < 2**70, u == 3.0, u == 3 + 0j]
    false = [u == 259, u == 3.5, u > 255.5, weft.isin(u, 259), weft.isin(u, weft.tensor([259])), u == math.nan, u == 2**70,
             u == -2**70, u > 2**64, u.eq(259), u == 3 + 1j, weft.tensor([2**53 + 1]) == float(2**53),
             weft.tensor([2**53 + 1]) == weft.tensor([2.0**53], dtype=weft.float64), u == weft.tensor(259),
             weft.tensor([255], dtype=weft.uint8) == weft.tensor([-1], dtype=weft.int8),
             weft.tensor([2**63], dtype=weft.uint64) == weft.tensor([-2**63])]
    assert all(bool(x) for x in true) and not any(bool(x) for x in false)
    assert (weft.tensor([0.1], dtype=weft.bfloat16) == 0.1).item() and (weft.tensor([0.1]) == 0.1).item()
    x = weft.tensor([1, 2], dtype=weft.uint8)
    assert x.eq_(258).tolist() == [0, 0] and weft.tensor([1, 2], dtype=weft.uint8).lt_(258).tolist() == [1, 1]


def test_places_and_bounds_are_exact():
    u = weft.tensor([1, 2], dtype=weft.uint8)
    assert weft.searchsorted(u, 300).item() == 2 and weft.searchsorted(u, -1).item() == 0
    assert weft.searchsorted(u, weft.tensor([300, -1, 2])).tolist() == [2, 0, 1]
    assert weft.bucketize(weft.tensor([1.5, math.nan]), u).tolist() == [1, 2]
    assert u.clamp(-5, 300).tolist() == [1, 2] and u.clamp(weft.tensor(-5), weft.tensor(300)).tolist() == [1, 2]
    assert u.clone().clamp_(weft.tensor(2)).tolist() == [2, 2] and weft.clamp_min(u, weft.tensor([2, 5])).tolist() == [2, 5]
    assert u.clone().clamp_max_(weft.tensor(1)).tolist() == [1, 1]
    with pytest.raises(TypeError):
        u.clone().clamp_(0.5)


def test_bounds_of_clip_have_gradients():
    x = weft.tensor([-1.0, 0.5, 3.0], requires_grad=True)
    for f in (weft.clip, weft.clamp, lambda t, a, b: (t * 1).clamp_(a, b), lambda t, a, b: (t * 1).clip_(a, b),
              lambda t, a, b: weft.clamp_max(weft.clamp_min(t, a), b)):
        low, high = weft.tensor(0.0, requires_grad=True), weft.tensor([[1.0], [2.0]], requires_grad=True)
        x.grad = None
        if f(x.expand(2, 3), low, high).shape == (2, 3):
            f(x.expand(2, 3), low, high).sum().backward()
        assert x.grad.tolist() == [0, 2, 0] and low.grad.item() == 2 and high.grad.tolist() == [[1], [1]]


def test_arithmetic_refuses_numbers_beyond_the_dtype():
    u = weft.tensor([3], dtype=weft.uint8)
    calls = [lambda: u + 300, lambda: 300 - u, lambda: u * 300, lambda: u ** 300, lambda: u // 300, lambda: u % 300,
             lambda: u & 300, lambda: u << 300, lambda: u.add_(300), lambda: u.mul_(weft.tensor(300)), lambda: u % -2,
             lambda: weft.maximum(u, weft.tensor(300)), lambda: weft.add(u, u, alpha=300), lambda: weft.remainder(300, u),
             lambda: u.masked_fill(u > 0, weft.tensor(300)), lambda: weft.where(u > 0, u, weft.tensor(300)),
             lambda: u.index_fill(0, weft.tensor([0]), weft.tensor(300)), lambda: weft.full_like(u, 300)]
    for call in calls:
        with pytest.raises(ValueError):
            call()
    u += -1
    assert u.tolist() == [2] and (u - 1).tolist() == [1]


def test_in_place_forms_compute_in_the_wider_dtype():
    assert weft.tensor([100], dtype=weft.int8).floor_divide_(weft.tensor([300])).item() == 0
    assert weft.tensor([1e-30]).mul_(weft.tensor([1e40], dtype=weft.float64)).item() == pytest.approx(1e10)
    x = weft.tensor([1.0], dtype=weft.bfloat16)
    x -= weft.tensor([1.001953125], dtype=weft.float64)
    assert x.item() == -0.001953125
    for target, value in ((weft.tensor([True]), 1), (weft.tensor([1]), 0.5), (weft.tensor([1.0]), 1j)):
        for name in ("add_", "mul_", "sub_", "maximum_", "addcmul_", "lerp_"):
            arguments = (target, value) if name == "addcmul_" else (value, value) if name == "lerp_" else (value,)
            with pytest.raises((TypeError, NotImplementedError)):
                getattr(target, name)(*[weft.tensor(a) if name != "add_" and not isinstance(a, weft.Tensor) else a
                                        for a in arguments])


def test_factors_of_mixed_dtypes_are_rounded_once():
    a, b, c = weft.tensor([0.0], dtype=weft.float64), weft.tensor([1.0009765625], dtype=weft.float16), weft.tensor([1.0], dtype=weft.float16)
    for f in (weft.addcmul, weft.addcdiv):
        assert f(a, b, c, value=1.0001).item() == pytest.approx(1.0009765625 * 1.0001, rel=1e-12)


def test_complex_numbers_are_arguments():
    x, y = weft.tensor([1 + 2j, 3 - 1j]), weft.tensor([2j, 1.0])
    assert weft.add(x, y, alpha=2j).tolist() == [-3 + 2j, 3 + 1j] and weft.sub(x, y, alpha=2j).tolist() == [5 + 2j, 3 - 3j]
    assert weft.addcmul(x, y, y, value=1j).tolist() == [1 - 2j, 3 + 0j]
    assert weft.addcmul(x, y, y, value=0.5).tolist() == [-1 + 2j, 3.5 - 1j]
    assert weft.addcdiv(x, y, y, value=1j).tolist() == [1 + 3j, 3 + 0j]
    assert weft.lerp(x, y, 0.5).tolist() == [0.5 + 2j, 2 - 0.5j] and weft.lerp(x, y, 1 + 0j).tolist() == y.tolist()
    assert x.clone().add_(y, alpha=1j).tolist() == [-1 + 2j, 3 + 0j]
    assert x.clone().addcmul_(y, y, value=1j).tolist() == [1 - 2j, 3 + 0j]
    assert weft.full((2,), 1j).tolist() == [1j, 1j] and weft.full_like(x, 2j).tolist() == [2j, 2j]
    assert x.new_full((1,), 2j).tolist() == [2j] and weft.zeros(1, dtype=weft.complex128).fill_(1 + 1j).item() == 1 + 1j
    assert weft.linspace(0, 1j, 3).tolist() == [0, 0.5j, 1j] and weft.logspace(0, 1j, 2).dtype is weft.complex64
    assert x.masked_fill(weft.tensor([True, False]), 1j).tolist() == [1j, 3 - 1j]
    assert x.index_add(0, weft.tensor([0, 0]), y, alpha=1j).tolist() == [-1 + 3j, 3 - 1j]
    m = weft.ones(1, 1) + 0j
    assert weft.addmm(m, m, m, beta=1j, alpha=2j).item() == 3j
    assert weft.randn(3, dtype=weft.complex64).dtype is weft.complex64 and weft.rand(3, dtype=weft.complex128).dtype is weft.complex128
    assert weft.randn_like(x).dtype is weft.complex64 and weft.zeros(2, dtype=weft.complex64).uniform_(1, 2).real.min() >= 1
    real = weft.ones(2)
    for call in (lambda: weft.add(real, real, alpha=1j), lambda: real.fill_(1j), lambda: weft.full_like(real, 1j), lambda: real.clamp(0, 1j),
                 lambda: weft.addcmul(real, real, real, value=1j), lambda: weft.full((2,), 1j, dtype=weft.float32), lambda: x.clamp(0, 1)):
        with pytest.raises(TypeError):
            call()
    assert weft.nan_to_num(weft.tensor([complex(math.nan, math.inf)]), 3.0, 5.0).item() == 3 + 5j
    assert weft.tensor([0j, 1j, -0.0]).nonzero().tolist() == [[1]]
    assert weft.tensor([0j, 1j], dtype=weft.complex128).nonzero().tolist() == [[1]] and not bool(weft.tensor(0j)) and bool(weft.tensor(1j))


def test_python_types_are_the_widest_dtypes():
    x = weft.ones(2)
    for python, dtype in ((float, weft.float64), (complex, weft.complex128), (int, weft.int64), (bool, weft.bool)):
        for made in (weft.zeros(1, dtype=python), weft.full((1,), 1, dtype=python), weft.empty(1, dtype=python), x.to(python), x.to(dtype=python),
                     weft.zeros_like(x, dtype=python), x.new_zeros(1, dtype=python), weft.tensor([1], dtype=python),
                     weft.as_tensor([1], dtype=python), weft.asarray([1], dtype=python)):
            assert made.dtype is dtype
    for python, dtype in ((float, weft.float64), (complex, weft.complex128)):
        assert x.sum(dtype=python).dtype is dtype and weft.randn(1, dtype=python).dtype is dtype
    assert weft.nn.Linear(2, 2, dtype=float).weight.dtype is weft.float64
    assert weft.nn.Linear(2, 2).to(float).weight.dtype is weft.float64
    assert weft.finfo(float).bits == 64 and weft.iinfo(int).bits == 64 and not weft.can_cast(float, int)
    assert weft.promote_types(float, weft.float32) is weft.float64
    assert weft.ones(1, dtype=weft.float64).view(int).dtype is weft.int64
    with pytest.raises(TypeError):
        weft.set_default_dtype(float)


@pytest.mark.parametrize("dtype, low, high", [("uint8", 0, 255), ("int8", -128, 127), ("uint16", 0, 2**16 - 1), ("int16", -2**15, 2**15 - 1),
                                              ("int32", -2**31, 2**31 - 1), ("uint64", 0, 2**64 - 1), ("int64", -2**63, 2**63 - 1)])
def test_bounds_beyond_a_dtype(dtype, low, high):
    x = weft.tensor([0, 3, 100], dtype=getattr(weft, dtype))
    above = [high + 1] if high < 2**63 else []
    below = [low - 1] if low > -2**63 else []
    lower = [lambda n: x.clamp(min=n), lambda n: x.clamp(n, high), lambda n: x.clone().clamp_(min=n), lambda n: weft.clip(x, n), lambda n: weft.clamp_min(x, n),
             lambda n: weft._foreach_clamp_min([x], n)[0], lambda n: weft._foreach_maximum([x], n)[0], lambda n: F.hardtanh(x, n, 2**64 - 1)]
    upper = [lambda n: x.clamp(max=n), lambda n: x.clamp(low, n), lambda n: x.clone().clip_(max=n), lambda n: weft.clip(x, None, n), lambda n: weft.clamp_max(x, n),
             lambda n: weft._foreach_clamp_max([x], n)[0], lambda n: weft._foreach_minimum([x], n)[0]]
    for calls, harmless, refused in ((lower, below, above), (upper, above, below)):
        for call in calls:
            for n in harmless:
                assert call(n).tolist() == [0, 3, 100] and call(n).dtype is x.dtype
            for n in refused:
                with pytest.raises(ValueError):
                    call(n)
    for n in above:
        assert F.threshold(x, n, 7).tolist() == [7, 7, 7]
        with pytest.raises(ValueError):
            F.threshold(x, 1, n)
    for n in below:
        assert F.threshold(x, n, 7).tolist() == [0, 3, 100]
    assert F.hardtanh(x, -math.inf, math.inf).tolist() == [0, 3, 100] and F.hardtanh(x, 1, 1e30).tolist() == [1, 3, 100]


def test_numbers_beyond_a_float_are_infinite_as_bounds():
    for dtype, number in ((weft.float16, 1e5), (weft.bfloat16, 1e39), (weft.float32, 1e39)):
        x = weft.tensor([1.0, -math.inf], dtype=dtype)
        assert x.clamp(-number, number).tolist() == [1, -math.inf] and x.clamp(min=number).tolist() == [math.inf] * 2


def test_no_gradient_is_lost_between_bounds():
    for x, low, high, wanted in ((-1.25, 0, 0, (0, 1, 0)), (2, 0, 0, (0, 0, 1)), (0.5, 1, -1, (0, 0, 1)), (-2, 1, -1, (0, 0, 1)), (0.5, 0, 1, (1, 0, 0))):
        leaves = [weft.tensor(float(n), requires_grad=True) for n in (x, low, high)]
        for call in (weft.clamp, lambda a, b, c: (a * 1).clamp_(b, c)):
            assert tuple(g.item() for g in weft.autograd.grad(call(*leaves), leaves)) == wanted


def test_activations_check_their_parameters():
    x, whole = weft.tensor([-2.0, 0.3]), weft.tensor([-3, 0, 5])
    for call in (lambda: F.hardtanh(x, 2, 1), lambda: F.hardtanh(whole, 2, 1), lambda: F.softshrink(x, -0.5),
                 lambda: F.softshrink(x, math.nan), lambda: F.celu(x, 0), lambda: F.rrelu(x, 0.5, 0.1), lambda: F.hardtanh(x, 2, 1, inplace=True),
                 lambda: x.masked_fill(x > 0, weft.ones(1)), lambda: x.masked_fill_(x > 0, weft.ones(2)), lambda: weft.nn.Hardtanh(2, 1)(x),
                 lambda: weft.nn.Softshrink(-1)(x)):
        with pytest.raises(ValueError):
            call()
    assert x.tolist() == weft.tensor([-2.0, 0.3]).tolist()
    for made, wanted in ((F.hardtanh(whole), [-1, 0, 1]), (F.hardtanh(whole, -1.5, 3.5), [-1, 0, 3]), (F.threshold(whole, 1, 7), [7, 7, 5]),
                         (F.threshold(whole, 1.5, 7.5), [7, 7, 5]), (F.relu6(whole), [0, 0, 5]), (weft.nn.Hardtanh()(whole), [-1, 0, 1]),
                         (weft.nn.Threshold(1, 7)(whole), [7, 7, 5])):
        assert made.dtype is weft.int64 and made.tolist() == wanted
    assert F.hardtanh(whole.to(weft.uint8), -1, 4).dtype is weft.uint8


def test_functions_of_the_array_api_promote_one_element_like_many():
    import weft.array_api as xp

    one, many = xp.asarray(5, dtype=xp.int32), xp.asarray([3], dtype=xp.uint8)
    for name in "add subtract multiply pow maximum minimum floor_divide remainder bitwise_and bitwise_or bitwise_xor".split():
        assert getattr(xp, name)(one, many).dtype is getattr(xp, name)(many, one).dtype is xp.int32
    assert xp.where(many > 0, one, many).dtype is xp.int32 and xp.result_type(one, many) is xp.int32
