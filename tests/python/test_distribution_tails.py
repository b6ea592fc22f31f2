"""Tails of distributions, and extreme parameters: scipy_cases/make_tails.py recorded SciPy's values."""

import json
import math
import pathlib

import numpy as np
import pytest

import weft
from weft import distributions as D

CASES = json.loads((pathlib.Path(__file__).parent / "scipy_cases" / "tails.json").read_text())["cases"]
TOLERANCES = {"float64": {"rtol": 1e-9, "atol": 1e-300}, "float32": {"rtol": 1e-5, "atol": 1e-37}}
LARGEST = {"float64": 1.7e308, "float32": 3.4e38}


def compare(got, wanted, dtype):
    wanted = np.asarray(wanted)
    beyond = np.abs(wanted) > LARGEST[dtype]
    np.testing.assert_allclose(got.to(weft.float64).numpy(), np.where(beyond, np.sign(wanted) * np.inf, wanted),
                               **TOLERANCES[dtype])


@pytest.mark.parametrize("case", [pytest.param(c, id=f"{c['name']}{c['parameters']} {c['dtype']}") for c in CASES])
def test_values_far_out_are_scipys(case):
    dtype = getattr(weft, case["dtype"])

    def tensor(values):
        return weft.tensor(values, dtype=dtype)

    d = getattr(D, case["name"])(*map(tensor, case["parameters"]), validate_args=False)
    compare(d.log_prob(tensor(case["points"])), case["log_prob"], case["dtype"])
    if "cdf" in case:
        compare(d.cdf(tensor(case["points"])), case["cdf"], case["dtype"])
    if "icdf" in case:
        compare(d.icdf(tensor(case["chances"])), case["icdf"], case["dtype"])
    if "entropy" in case:
        compare(d.entropy().reshape(1), case["entropy"], case["dtype"])


def kl(name, p, q, dtype=weft.float64):
    p, q = ([weft.tensor(float(v), dtype=dtype) for v in values] for values in (p, q))
    kind = getattr(D, name)
    return D.kl_divergence(kind(*p, validate_args=False), kind(*q, validate_args=False)).item()


def two(p, q):
    """Of the chances of two."""
    return sum(a * math.log(a / b) if a else 0.0 for a, b in ((p, q), (1 - p, 1 - q)))


@pytest.mark.parametrize("name, p, q, wanted", [
    ("Poisson", [0], [1], 1.0), ("Poisson", [0], [0], 0.0), ("Poisson", [1], [0], math.inf),
    ("Poisson", [3], [1e-300], 3 * (math.log(3) + 300 * math.log(10)) - 3),
    ("Bernoulli", [0], [0.25], two(0, 0.25)), ("Bernoulli", [1], [0.25], two(1, 0.25)), ("Bernoulli", [0], [0], 0.0),
    ("Bernoulli", [0.5], [0], math.inf), ("Bernoulli", [1], [0], math.inf), ("Bernoulli", [0.5], [1e-30], two(0.5, 1e-30)),
    ("Binomial", [4, 0], [4, 0.25], 4 * two(0, 0.25)), ("Binomial", [4, 1], [4, 1], 0.0),
    ("Binomial", [4, 0.5], [4, 1], math.inf), ("Binomial", [0, 0.5], [0, 0], 0.0),
    ("Geometric", [1], [0.25], two(1, 0.25)), ("Geometric", [1], [1], 0.0), ("Geometric", [0.5], [1], math.inf),
    ("Normal", [0, 1e-200], [0, 1e200], 400 * math.log(10) - 0.5), ("HalfNormal", [1e-200], [1e200], 400 * math.log(10) - 0.5),
    ("LogNormal", [0, 1e-200], [0, 1e200], 400 * math.log(10) - 0.5),
    ("Laplace", [0, 1e-200], [0, 1e200], 400 * math.log(10) - 1), ("Cauchy", [0, 1e-200], [0, 1e200], 400 * math.log(10) - math.log(4)),
    ("Cauchy", [1e200, 1], [-1e200, 1], 400 * math.log(10)), ("Exponential", [1e200], [1e-200], 400 * math.log(10) - 1),
    ("Gamma", [1, 1e200], [1, 1e-200], 400 * math.log(10) - 1)])
def test_divergences_of_degenerate_parameters(name, p, q, wanted):
    assert kl(name, p, q) == pytest.approx(wanted, rel=1e-12)


def test_divergences_with_large_terms_are_exact_in_single_precision():
    assert kl("Gamma", [1e5, 1], [1e5, 1.001], weft.float32) == pytest.approx(
        kl("Gamma", [1e5, 1], [1e5, 1.0010000467300415], weft.float64), rel=1e-4)
    assert kl("Beta", [3e4, 2e4], [3e4, 2.1e4], weft.float32) == pytest.approx(
        kl("Beta", [3e4, 2e4], [3e4, 2.1e4]), rel=1e-4)
    assert kl("Poisson", [1e6], [1.001e6], weft.float32) == pytest.approx(kl("Poisson", [1e6], [1.001e6]), rel=1e-4)


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
@pytest.mark.parametrize("concentration", [1e-3, 1e-6, 1e-30])
def test_draws_of_tiny_concentrations_lie_at_the_ends(concentration, dtype):
    weft.manual_seed(3)
    c = weft.tensor(concentration, dtype=dtype)
    x = D.Beta(c, c).sample((4000,))
    inside = ((x > 0.4) & (x < 0.6)).to(weft.float64).mean().item()
    assert not x.isnan().any().item() and inside < 0.002
    assert abs((x > 0.5).to(weft.float64).mean().item() - 0.5) < 0.04
    y = D.Dirichlet(c.expand(3)).sample((3000,))
    assert not y.isnan().any().item()
    assert weft.allclose(y.sum(-1), weft.ones(3000, dtype=dtype))
    assert (y.amax(-1) > 0.99).to(weft.float64).mean().item() > 0.98
    assert not D.Gamma(c, weft.ones((), dtype=dtype)).sample((100,)).isnan().any().item()


def test_draws_of_tiny_concentrations_have_gradients():
    weft.manual_seed(0)
    c = weft.full((2000,), 0.01, dtype=weft.float64, requires_grad=True)
    D.Beta(c, weft.full((2000,), 0.02, dtype=weft.float64)).rsample().sum().backward()
    # The mean a / (a + b) has the derivative b / (a + b)^2.
    assert c.grad.isfinite().all().item()
    assert c.grad.mean().item() == pytest.approx(0.02 / 0.03**2, rel=0.25)


def test_the_normal_tails_have_gradients():
    x = weft.tensor([-30.0, -9.0, 0.0, 9.0], dtype=weft.float64, requires_grad=True)
    d = D.Normal(weft.zeros((), dtype=weft.float64), weft.ones((), dtype=weft.float64))
    g, = weft.autograd.grad(d.cdf(x).sum(), x)
    np.testing.assert_allclose(g.numpy(), d.log_prob(x.detach()).exp().numpy(), rtol=1e-12)
    z = weft.tensor([0.0, 1e-9], dtype=weft.float64, requires_grad=True)
    for kind in (D.Laplace, D.Cauchy):
        d = kind(weft.zeros((), dtype=weft.float64), weft.ones((), dtype=weft.float64))
        g, = weft.autograd.grad(d.cdf(z).sum(), z)
        np.testing.assert_allclose(g.numpy(), d.log_prob(z.detach()).exp().numpy(), rtol=1e-8)


def test_certain_outcomes_have_no_entropy():
    for p in (0.0, 1.0):
        assert D.Bernoulli(weft.tensor(p)).entropy().item() == 0
        assert D.Binomial(3, weft.tensor(p)).entropy().item() == 0
    assert D.Geometric(weft.tensor(1.0)).entropy().item() == 0
    assert D.Categorical(weft.tensor([1.0, 0.0])).entropy().item() == 0


def test_transformed_tails_are_kept():
    base = D.Normal(weft.zeros((), dtype=weft.float64), weft.ones((), dtype=weft.float64))
    moved = D.TransformedDistribution(base, [D.AffineTransform(1.0, 2.0)])
    assert moved.cdf(weft.tensor(-39.0, dtype=weft.float64)).item() == pytest.approx(2.7536241186062337e-89, rel=1e-9)
    turned = D.TransformedDistribution(base, [D.AffineTransform(0.0, -1.0)])
    assert turned.cdf(weft.tensor(-1.0, dtype=weft.float64)).item() == pytest.approx(0.15865525393145707, rel=1e-12)


def gradient(function, values):
    x = weft.tensor(values, dtype=weft.float64, requires_grad=True)
    return weft.autograd.grad(function(x).sum(), x)[0].tolist()


def test_chances_of_zero_leave_the_gradients_of_others_alone():
    assert gradient(lambda p: D.Categorical(p).log_prob(weft.tensor(1)), [0.0, 0.5, 0.5]) == pytest.approx([-1, 1, -1])
    assert gradient(lambda p: D.Bernoulli(p).log_prob(weft.tensor([0.0, 1.0])), [0.0, 1.0]) == [-1, 1]
    assert gradient(lambda p: D.Binomial(3, p).log_prob(weft.tensor([0.0, 3.0])), [0.0, 1.0]) == [-3, 3]
    kept = [lambda p: D.Categorical(p).entropy(), lambda p: D.Multinomial(2, p).log_prob(weft.tensor([0.0, 1.0, 1.0])),
            lambda p: D.kl_divergence(D.Categorical(p), D.Categorical(weft.tensor([0.2, 0.3, 0.5], dtype=weft.float64))),
            lambda p: D.kl_divergence(D.Categorical(p), D.Categorical(weft.tensor([0.0, 0.5, 0.5], dtype=weft.float64))),
            lambda p: D.kl_divergence(D.Bernoulli(p), D.Bernoulli(weft.tensor([0.0, 0.25, 0.75], dtype=weft.float64)))]
    for function in kept:
        assert all(map(math.isfinite, gradient(function, [0.0, 0.5, 0.5])))
