"""Bessel functions, polynomials, incomplete gamma functions and zeta: identities, closed forms, and NumPy's polynomials."""

import fractions
import math

import numpy as np
import pytest

import weft
from weft import special as S

X = weft.tensor([1e-8, 1e-3, 0.1, 0.7, 1.0, 2.5, 5.0, 9.0, 17.0, 24.99, 25.01, 40.0, 300.0], dtype=weft.float64)


def near(found, wanted, rel=1e-11, abs=0.0):
    assert found.flatten().tolist() == pytest.approx(np.asarray(wanted).flatten().tolist(), rel=rel, abs=abs, nan_ok=True)


def test_wronskians_of_bessel_functions():
    near(S.bessel_j1(X) * S.bessel_y0(X) - S.bessel_j0(X) * S.bessel_y1(X), 2 / (math.pi * X))
    small = X[X < 50]
    near(S.modified_bessel_i0(small) * S.modified_bessel_k1(small) + S.modified_bessel_i1(small) * S.modified_bessel_k0(small),
         1 / small)


def test_values_of_bessel_functions():
    # Abramowitz and Stegun, tables 9.1 and 9.8.
    five = weft.tensor([5.0, -5.0], dtype=weft.float64)
    near(S.bessel_j0(five), [-0.1775967713143383] * 2), near(S.bessel_j1(five), [-0.3275791375914652, 0.3275791375914652])
    near(S.bessel_y0(five), [-0.3085176252490338, math.nan]), near(S.bessel_y1(five), [0.1478631433912269, math.nan])
    one = weft.tensor([1.0], dtype=weft.float64)
    near(S.modified_bessel_k0(one), [0.4210244382407083]), near(S.modified_bessel_k1(one), [0.6019072301972346])
    near(S.scaled_modified_bessel_k0(X), S.modified_bessel_k0(X) * X.exp(), rel=1e-10)
    zero = weft.zeros(1, dtype=weft.float64)
    assert S.bessel_y0(zero).item() == -math.inf and S.modified_bessel_k0(zero).item() == math.inf
    assert S.bessel_j0(zero).item() == 1 and S.spherical_bessel_j0(zero).item() == 1
    assert math.isnan(S.modified_bessel_k1(-one).item())
    near(S.spherical_bessel_j0(X), X.sin() / X, rel=1e-9, abs=1e-15)
    # The expansion for large x: exp(x) K1(x) = sqrt(pi / 2x) (1 + 3/8x - 15/128x^2 ...).
    large = 1e5
    near(S.scaled_modified_bessel_k1(weft.tensor([large], dtype=weft.float64)),
         [math.sqrt(math.pi / 2 / large) * (1 + 3 / (8 * large) - 15 / (128 * large**2))])


def polynomial(kind, n):
    coefficients = [0] * n + [1]
    return {"hermite_polynomial_h": np.polynomial.Hermite, "hermite_polynomial_he": np.polynomial.HermiteE,
            "laguerre_polynomial_l": np.polynomial.Laguerre, "legendre_polynomial_p": np.polynomial.Legendre,
            "chebyshev_polynomial_t": np.polynomial.Chebyshev}[kind](coefficients)


@pytest.mark.parametrize("kind", ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
                                  "legendre_polynomial_p", "chebyshev_polynomial_t"])
def test_polynomials_are_numpys(kind):
    x = weft.linspace(-2, 2, 9, dtype=weft.float64)
    for n in range(7):
        near(getattr(S, kind)(x, n), polynomial(kind, n)(x.numpy()), abs=1e-12)
    assert getattr(S, kind)(x, -1).tolist() == [0] * 9
    degrees = weft.arange(9)
    near(getattr(S, kind)(x, degrees), [polynomial(kind, n)(float(v)) for n, v in zip(degrees.tolist(), x)], abs=1e-12)


def test_the_other_chebyshev_polynomials():
    t = weft.linspace(0.1, 3, 7, dtype=weft.float64)
    x, n = t.cos(), 5
    near(S.chebyshev_polynomial_u(x, n), ((n + 1) * t).sin() / t.sin(), abs=1e-12)
    near(S.chebyshev_polynomial_v(x, n), ((n + 0.5) * t).cos() / (t / 2).cos(), abs=1e-12)
    near(S.chebyshev_polynomial_w(x, n), ((n + 0.5) * t).sin() / (t / 2).sin(), abs=1e-12)
    for kind in "tuvw":
        near(getattr(S, f"shifted_chebyshev_polynomial_{kind}")((x + 1) / 2, n),
             getattr(S, f"chebyshev_polynomial_{kind}")(x, n), abs=1e-11)


def test_incomplete_gamma_functions_of_whole_numbers():
    for a in (1, 2, 10, 50):
        for x in (0.5, 3.0, 12.0, 60.0, 210.0):
            above = float(sum(fractions.Fraction(x) ** k / math.factorial(k) for k in range(a))) * math.exp(-x)
            given = weft.tensor(float(a), dtype=weft.float64), weft.tensor([x], dtype=weft.float64)
            near(S.gammaincc(*given), [above], rel=1e-10), near(S.gammainc(*given), [1 - above], rel=1e-10, abs=1e-15)
    edge = weft.tensor([0.0, math.inf], dtype=weft.float64)
    assert S.gammainc(2.0, edge).tolist() == [0, 1] and S.gammaincc(2.0, edge).tolist() == [1, 0]
    assert math.isnan(S.gammainc(-1.0, weft.ones(1)).item()) and S.gammainc(0.0, weft.ones(1)).item() == 1


def test_zeta():
    x = weft.tensor([2.0, 4.0, 3.0], dtype=weft.float64)
    near(S.zeta(x, 1.0), [math.pi**2 / 6, math.pi**4 / 90, 1.2020569031595942])
    near(S.zeta(x, weft.tensor([0.5, 0.5, 2.0], dtype=weft.float64)), [math.pi**2 / 2, math.pi**4 / 6, 0.2020569031595942])
    near(S.zeta(x[:1], -0.5), [4 + math.pi**2 / 2])
    ends = S.zeta(weft.tensor([1.0, 0.5, 2.0, 1.5]), weft.tensor([2.0, 2.0, -1.0, -0.5])).tolist()
    assert ends[0] == math.inf and math.isnan(ends[1]) and ends[2] == math.inf and math.isnan(ends[3])


def test_gradients_dtypes_and_out():
    x = weft.tensor([0.5, 2.0, 7.0], dtype=weft.float64, requires_grad=True)
    two = weft.tensor(2.0, dtype=weft.float64)
    for function in (S.bessel_j0, S.bessel_y1, S.modified_bessel_k0, lambda t: S.legendre_polynomial_p(t, 4),
                     lambda t: S.gammainc(two, t)):
        assert weft.autograd.gradcheck(function, (x,))
    assert S.bessel_j0(weft.tensor([1, 2])).dtype is weft.float32 and S.zeta(weft.ones(2, dtype=weft.float16) * 2, 1).dtype is weft.float16
    out = weft.empty(3, dtype=weft.float64)
    assert S.bessel_j1(x.detach(), out=out) is out and weft.equal(out, S.bessel_j1(x.detach()))
    assert S.zeta(x.detach() + 2, 1.0, out=out) is out
    with pytest.warns(UserWarning, match="resized"):
        assert S.bessel_j0(x.detach(), out=weft.empty(2)).shape == (3,)
    with pytest.raises(RuntimeError, match="out"):
        S.bessel_j0(x.detach(), out=weft.empty(3, dtype=weft.int64))
    with pytest.raises(TypeError, match="Tensor"):
        S.gammainc(1.0, 2.0)


@pytest.mark.parametrize("name", ["bessel_j0", "modified_bessel_k1", "spherical_bessel_j0", "ndtr"])
def test_complex_numbers_are_refused(name):
    with pytest.raises(TypeError, match=f"{name}.*expected real numbers, got complex64"):
        getattr(S, name)(weft.ones(2, dtype=weft.complex64))


def test_complex_operands_are_refused():
    for operands in ((weft.ones(2, dtype=weft.complex64), weft.ones(2)), (weft.ones(2), weft.ones(2, dtype=weft.complex64))):
        with pytest.raises(TypeError, match="gammainc.*expected real numbers, got complex64"):
            S.gammainc(*operands)
