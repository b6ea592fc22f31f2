"""Values at the edges in Python: //, % and divmod as Python has them, and functions that are Python's alone."""

import itertools
import math

import numpy as np
import pytest

import weft

inf, nan = math.inf, math.nan
t = weft.tensor


def same(got, want):
    return (math.isnan(got) and math.isnan(want)) or (got == want and math.copysign(1, got) == math.copysign(1, want))


numbers = [0.0, -0.0, 1.0, -1.0, 7.0, -7.0, 0.1, -0.1, 3.0, -3.0, 1e8, -1e8, 5.0, 1e300, 1e-300, 5e-324, inf, -inf, nan]


def test_division_of_floats_is_pythons_to_the_bit():
    pairs = [(a, b) for a, b in itertools.product(numbers, numbers) if b != 0]
    x, y = (t([p[i] for p in pairs], dtype=weft.float64) for i in (0, 1))
    for op, python in ((weft.floor_divide, lambda a, b: a // b), (weft.remainder, lambda a, b: a % b)):
        for (a, b), got in zip(pairs, op(x, y).tolist()):
            want = python(a, b)
            if not math.isinf(want) or math.isinf(got):  # Python's own // of 1e300 by 1e-300 overflows alike
                assert same(got, want), (a, b, got, want)
    quotients, rests = divmod(x, y)
    assert quotients.tolist() == pytest.approx((x // y).tolist(), nan_ok=True)
    assert rests.tolist() == pytest.approx((x % y).tolist(), nan_ok=True)


def test_rests_are_numpys(rng):
    for dtype in ("float32", "float64"):
        a = (rng.standard_normal(20000) * 10.0**rng.integers(-20, 20, 20000)).astype(dtype)
        b = (rng.standard_normal(20000) * 10.0**rng.integers(-20, 20, 20000)).astype(dtype)
        x, y = t(a), t(b)
        np.testing.assert_array_equal(weft.fmod(x, y).numpy(), np.fmod(a, b))
        np.testing.assert_array_equal((x % y).numpy(), np.remainder(a, b))
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal((x // y).numpy(), np.floor_divide(a, b))


def test_rounding_modes():
    x = t([7.0, -7.0])
    assert weft.div(x, 2, rounding_mode="floor").tolist() == [3, -4]
    assert weft.div(x, 2, rounding_mode="trunc").tolist() == [3, -3]
    assert x.div(2, rounding_mode=None).tolist() == [3.5, -3.5]
    assert weft.div(t([7, -7]), 2, rounding_mode="floor").dtype is weft.int64


def test_division_in_place_keeps_the_memory():
    x = t([7, -7, 9])
    view = x[1:]
    x //= 2
    assert x.tolist() == [3, -4, 4] and view.tolist() == [-4, 4]
    x %= 3
    assert view.tolist() == [2, 1]
    for wrong in (lambda: x.remainder_(0), lambda: x.floor_divide_(t([1, 0, 1])), lambda: divmod(x, 0)):
        with pytest.raises(ZeroDivisionError, match=r"test_values.py:\d+"):
            wrong()
    assert x.tolist() == [0, 2, 1]


def test_meshgrid_of_cartesian_axes():
    x, y = weft.meshgrid(weft.arange(2), weft.arange(3), indexing="xy")
    want = np.meshgrid(np.arange(2), np.arange(3), indexing="xy")
    assert x.tolist() == want[0].tolist() and y.tolist() == want[1].tolist()
    cube = weft.meshgrid(weft.arange(2), weft.arange(3), weft.arange(4), indexing="xy")
    for got, wanted in zip(cube, np.meshgrid(np.arange(2), np.arange(3), np.arange(4), indexing="xy")):
        assert got.tolist() == wanted.tolist()
    with pytest.raises(ValueError):
        weft.meshgrid(weft.zeros(2, 2))


def test_a_bound_left_out_changes_no_dtype():
    x = weft.arange(5)
    assert weft.clamp(x, min=t([1, 1, 1, 3, 3])).tolist() == [1, 1, 2, 3, 4]
    assert x.clamp(max=t(2)).dtype is weft.int64
    assert weft.clamp(t([1], dtype=weft.int8), max=t([0], dtype=weft.int8)).dtype is weft.int8
    assert weft.clamp(x, min=t([1.5])).dtype is weft.float32
    assert weft.clamp(t([1.0, -inf]), max=t([0.5, 0.5])).tolist() == [0.5, -inf]
    assert weft.clamp(t([2**62]), min=t([0])).item() == 2**62


def test_float_power_is_float64():
    assert weft.float_power(t([2.0]), 2).dtype is weft.float64
    assert weft.float_power(t([2]), -1).tolist() == [0.5]
    assert weft.float_power(2, t([3])).tolist() == [8]


def test_isclose_neither_wraps_nor_takes_negative_tolerances():
    def close(a, b, dtype=None, **tolerance):
        return weft.isclose(t([a], dtype=dtype), t([b], dtype=dtype), **tolerance).item()

    assert not close(127, -128, weft.int8, atol=2) and not close(0, 255, weft.uint8, atol=2)
    assert not close(2**63 - 1, -2**63) and close(2**62, 2**62 + 1) and not close(2**62, 2**62 + 1, rtol=0, atol=0)
    assert not close(2**62, 2**62 + 3, rtol=0, atol=2) and close(2**62, 2**62 + 2, rtol=0, atol=2)
    assert close(inf, inf) and not close(inf, 1.0, rtol=1e9) and not close(1.0, inf, atol=1.0)
    assert close(nan, nan, equal_nan=True) and not close(nan, nan)
    for tolerance in ({"rtol": -1.0}, {"atol": -1e-9}, {"rtol": nan}):
        with pytest.raises(ValueError):
            close(1.0, 1.0, **tolerance)


def test_dimensions_out_of_range_are_refused():
    x = weft.zeros(2, 3, 4)
    for wrong in (lambda: weft.movedim(x, 5, 0), lambda: weft.movedim(x, 0, -4), lambda: weft.unflatten(x, 5, (1, 2)),
                  lambda: weft.roll(t(1.0), 1, 0)):
        with pytest.raises(IndexError):
            wrong()
    for wrong in (lambda: weft.unflatten(x, 2, (3, 2)), lambda: weft.unflatten(x, 2, ()),
                  lambda: x.movedim((0, 0), (0, 1)), lambda: weft.unflatten(weft.zeros(0, 4), 1, (3, 2)),
                  lambda: weft.unflatten(x, 2, (-1, 3))):
        with pytest.raises(ValueError):
            wrong()
    assert tuple(weft.movedim(x, -1, 0).shape) == (4, 2, 3) and tuple(x.unflatten(-1, (-1, 2)).shape) == (2, 3, 2, 2)
    assert weft.movedim(t(1.0), 0, -1).item() == 1


@pytest.mark.parametrize("value, dtype", [(300, "int8"), (-129, "int8"), (256, "uint8"), (-256, "uint8"),
                                          (-1.0, "uint8"), (nan, "int32"), (inf, "int64"), (1e10, "int32"),
                                          (2**31, "int32"),
                                          (2**63, "int64"), (float(2**63), "int64"), (2**64 - 1, "int64")])
def test_numbers_that_do_not_fit_are_refused(value, dtype):
    dtype = getattr(weft, dtype)
    with pytest.raises((ValueError, OverflowError)):
        t([value], dtype=dtype)
    with pytest.raises(ValueError):
        weft.full((2,), value, dtype=dtype)
    x = weft.zeros(2, dtype=dtype)
    for write in (lambda: x.fill_(value), lambda: x.__setitem__(0, value), lambda: x.masked_fill_(x == 0, value),
                  lambda: weft.full_like(x, value), lambda: x.index_fill(0, t([0]), value)):
        with pytest.raises((ValueError, OverflowError)):
            write()
    assert x.tolist() == [0, 0]


def test_numbers_that_fit_are_taken():
    assert t([-1], dtype=weft.uint8).item() == 255 and t([1.9, -1.9], dtype=weft.int8).tolist() == [1, -1]
    assert t([255.7], dtype=weft.uint8).item() == 255 and t([300], dtype=weft.bool).item() is True
    assert t([-2.0**63], dtype=weft.int64).item() == -2**63 and t([1e39]).item() == inf
    assert weft.full((2,), 2**64 - 1, dtype=weft.uint64).tolist() == [2**64 - 1] * 2
    assert weft.zeros(1, dtype=weft.uint64).fill_(2**63).item() == 2**63
    with pytest.raises(ValueError):
        weft.full((2,), 2**64 - 1)
    with pytest.raises(OverflowError):
        t(2**63)
    with pytest.raises(ValueError):
        weft.zeros(1, dtype=weft.int8) + 300
    assert (weft.full((1,), 100, dtype=weft.int8) + 100).item() == -56  # results wrap around


def test_bytes_seen_as_bool():
    x = t([0, 2, 255], dtype=weft.uint8).view(weft.bool)
    assert x.tolist() == [False, True, True] and x.sum().item() == 2
    assert (x == t([False, True, True])).all() and (x != t([True, True, True])).tolist() == [True, False, False]


def test_unfit_powers_and_probabilities():
    with pytest.raises(ValueError, match="negative power"):
        t([2, 1])**-1
    assert (2**t([-1, 2])).tolist() == [0, 4]
    for p in (2.0, nan, -0.5):
        with pytest.raises(ValueError):
            weft.bernoulli(t([0.5, p]))


# To 40 digits by mpmath, rounded once.
points = [-20.25, -5.5, -1.0, -0.3, 0.1, 0.7, 2.4, 5.0, 8.25, 24.9, 25.1, 300.0]
special_values = {
    "erfcx": [2.4485613000901127e+178, 27443409954929.71, 5.008980080762283, 1.4537492328427655, 0.8964569799691267,
              0.525930337349441, 0.21849873453703333, 0.11070463773306863, 0.06789491988272056, 0.022639987776049506,
              0.02245987581758139, 0.0018806214973780646],
    "ndtr": [1.77619986494957e-91, 1.8989562465887718e-08, 0.15865525393145705, 0.3820885778110474, 0.539827837277029,
             0.758036347776927, 0.9918024640754038, 0.9999997133484281, 0.9999999999999999, 1.0, 1.0, 1.0],
    "log_ndtr": [-208.96076728764925, -17.77937635262526, -1.8410216450092636, -0.9621028181688507, -0.6165050101150263,
                 -0.2770239422771313, -0.008231320482313337, -2.866516129637636e-07, -7.919726314642478e-17,
                 -3.7200792751087554e-137, -2.4866601882523463e-139, -0.0],
}


@pytest.mark.parametrize("name", special_values)
def test_special_functions_are_exact_to_a_few_units(name):
    function, want = getattr(weft.special, name), special_values[name]
    np.testing.assert_allclose(function(t(points, dtype=weft.float64)).numpy(), want, rtol=4 * 2.0**-52)
    np.testing.assert_array_equal(function(t([-1.0, 5.0, nan])).numpy(),
                                  np.array([want[2], want[7], nan], dtype=np.float32))
    assert function(t([3, 1])).dtype is weft.float32 and function(weft.zeros(0, 2)).shape == (0, 2)
    x = t([-3.0, -1.2, 0.4, 2.5], dtype=weft.float64).requires_grad_()
    assert weft.autograd.gradcheck(function, [x]) and weft.autograd.gradgradcheck(function, [x])


def test_special_functions_at_infinity():
    ends = t([inf, -inf], dtype=weft.float64)
    for name, want in (("erfcx", [0, inf]), ("ndtr", [1, 0]), ("log_ndtr", [0, -inf]), ("entr", [-inf, -inf])):
        assert getattr(weft.special, name)(ends).tolist() == want
        for wrong, kind in (("a", TypeError), (t([1j]), TypeError)):
            with pytest.raises(kind, match=f"{name}.*"):
                getattr(weft.special, name)(wrong)
        with pytest.raises(RuntimeError, match=name):
            getattr(weft.special, name)(weft.ones(2), out=weft.empty(2, dtype=weft.int64))
