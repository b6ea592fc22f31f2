"""Distributions, transforms and constraints written in Python answer as PyTorch's, recorded by distribution_cases."""

import json
import math
import pathlib
import sys

import pytest

import weft
import weft.torch
from weft import distributions as D

FOLDER = pathlib.Path(__file__).parent / "distribution_cases"
sys.path.insert(0, str(FOLDER))
from make_cases import CASES, answers  # noqa: E402

RECORDED = json.loads((FOLDER / "cases.json").read_text())
# PyTorch gives NaN for modes of Kumaraswamy, and rounds one of NegativeBinomial down.
OTHERWISE = {("Kumaraswamy", "mode"), ("NegativeBinomial", "mode")}


def flat(x):
    return [y for part in x for y in flat(part)] if isinstance(x, (list, tuple)) else [math.nan if x is None else float(x)]


def test_every_case_is_recorded():
    assert [case for case, _ in RECORDED] == CASES


@pytest.mark.parametrize("case, recorded", RECORDED, ids=[case for case, _ in RECORDED])
def test_as_pytorch(case, recorded):
    found = answers(weft.torch, case)
    for question, wanted in recorded.items():
        if any(name in case and question == other for name, other in OTHERWISE):
            continue
        assert (found[question] is None) == (wanted is None), question
        assert flat(found[question]) == pytest.approx(flat(wanted), rel=1e-6, abs=1e-9, nan_ok=True), question


def test_a_distribution_of_the_user():
    class Tanh(D.Transform):
        domain, codomain, sign = D.constraints.real, D.constraints.interval(-1.0, 1.0), 1

        def _call(self, x):
            return x.tanh()

        def _inverse(self, y):
            return y.atanh()

        def log_abs_det_jacobian(self, x, y):
            return 2.0 * (math.log(2.0) - x - weft.nn.functional.softplus(-2.0 * x))

    class SquashedNormal(D.TransformedDistribution):
        def __init__(self, loc, std):
            self.loc, self.std = loc, std
            self.base_dist = D.Normal(loc, std)
            super().__init__(self.base_dist, [Tanh(cache_size=1)])

        @property
        def mean(self):
            mu = self.loc
            for transform in self.transforms:
                mu = transform(mu)
            return mu

    loc = weft.zeros(3, requires_grad=True)
    policy = SquashedNormal(loc, weft.ones(3) * 20)
    action = policy.rsample()
    assert action.abs().max() <= 1 and policy.log_prob(action).isfinite().all()
    action.sum().backward()
    assert loc.grad is not None and policy.mean.tolist() == [0, 0, 0]

    class Fixed(D.Categorical):
        def sample(self):
            return super().sample().unsqueeze(-1)

        def mode(self):
            return self.probs.argmax(dim=-1, keepdim=True)

    assert Fixed(logits=weft.zeros(4, 3)).sample().shape == (4, 1)
    assert Fixed(probs=weft.tensor([[0.1, 0.9]])).mode().tolist() == [[1]]


def test_divergences_are_registered():
    class Point(D.Distribution):
        def __init__(self, at):
            self.at = at
            super().__init__()

    @D.register_kl(Point, D.Normal)
    def _(p, q):
        return -q.log_prob(p.at)

    near = weft.distributions.kl_divergence(Point(weft.tensor(0.0)), D.Normal(0.0, 1.0))
    assert near.item() == pytest.approx(0.5 * math.log(2 * math.pi))
    with pytest.raises(NotImplementedError, match="Point"):
        weft.distributions.kl_divergence(D.Normal(0.0, 1.0), Point(weft.tensor(0.0)))
    base = D.Independent(D.Weibull(weft.ones(2), weft.ones(2)), 1)
    assert weft.distributions.kl_divergence(base, base).item() == 0
    with pytest.raises(NotImplementedError, match="transforms"):
        weft.distributions.kl_divergence(base, D.Independent(D.Weibull(weft.ones(2), 2 * weft.ones(2)), 1))


def test_parameters_outside_their_constraints_are_refused():
    with pytest.raises(ValueError, match="concentration"):
        D.InverseGamma(weft.tensor(1.0), weft.tensor(1.0)), D.VonMises(weft.tensor(0.0), weft.tensor(-1.0))
    with pytest.raises(ValueError, match="expected values"):
        D.NegativeBinomial(weft.tensor(3.0), probs=weft.tensor(0.5)).log_prob(weft.tensor(-1.0))
    assert D.biject_to(D.constraints.simplex)(weft.zeros(2)).tolist() == pytest.approx([1 / 3] * 3)
    assert D.transform_to(D.Normal.arg_constraints["scale"])(weft.tensor(0.0)).item() == 1


def test_helpers_of_distributions():
    from weft._distributions import more

    m = weft.arange(9.0).reshape(3, 3)
    for diag in (-1, 0, 1):
        vec = more.tril_matrix_to_vec(weft.stack([m, m + 1]), diag)
        assert weft.equal(more.vec_to_tril_matrix(vec, diag), weft.stack([m, m + 1]).tril(diag))
    with pytest.raises(ValueError, match="no number"):
        more.vec_to_tril_matrix(weft.ones(5))
    p = weft.tensor([0.2, 0.8])
    assert weft.allclose(more.logits_to_probs(more.probs_to_logits(p)), p)
    assert weft.allclose(more.logits_to_probs(more.probs_to_logits(p, True), True), p)


def test_divergence_of_normal_distributions_of_low_rank():
    p, q = (weft.distributions.LowRankMultivariateNormal(weft.zeros(3) + i, weft.ones(3, 1) * (i + 1), weft.ones(3)) for i in range(2))
    full = [weft.distributions.MultivariateNormal(d.loc, d.covariance_matrix) for d in (p, q)]
    expected = weft.distributions.kl_divergence(*full)
    for pair in ((p, q), (p, full[1]), (full[0], q)):
        assert weft.allclose(weft.distributions.kl_divergence(*pair), expected)
    assert p.expand([]).batch_shape == weft.distributions.Wishart(4.0, weft.eye(2)).expand([]).batch_shape == ()


def test_the_inverse_of_composed_transforms_composes_inverses():
    chain = D.transforms.ComposeTransform([D.transforms.ExpTransform(), D.transforms.AffineTransform(1.0, 2.0)])
    assert chain.inv.inv is chain and isinstance(chain.inv, D.transforms.ComposeTransform)
    x = weft.tensor([0.5, -1.0])
    assert weft.allclose(chain.inv(chain(x)), x)
    empty = D.transforms.ComposeTransform([])
    assert empty == empty.inv
