"""Classes of distributions and transforms of functions; pytorch_cases/ has their values."""

import pytest

import weft
from weft import distributions as ds
from weft import func


def test_distributions_have_pytorchs_attributes():
    d = ds.Normal(weft.zeros(3), 2.0)
    assert isinstance(d, ds.Distribution) and d.has_rsample
    assert (d.batch_shape, d.event_shape) == ((3,), ())
    assert d.scale.tolist() == [2.0] * 3 and d.mean.tolist() == [0.0] * 3
    assert repr(d) == "Normal(batch_shape: (3,), event_shape: ())"
    with pytest.raises(AttributeError, match="rate"):
        d.rate
    assert isinstance(d.expand((2, 3)), ds.Normal)


def test_composed_ones_give_their_parts():
    d = ds.TransformedDistribution(ds.Normal(0.0, 1.0), ds.ExpTransform())
    assert isinstance(d.base_dist, ds.Normal) and d.transforms == [ds.ExpTransform()]
    mixture = ds.MixtureSameFamily(ds.Categorical(weft.ones(2)), ds.Normal(weft.zeros(2), 1.0))
    assert isinstance(mixture.component_distribution, ds.Normal)
    assert mixture.mixture_distribution.probs.tolist() == [0.5, 0.5]


def test_draws_have_seeds_and_gradients():
    loc = weft.zeros(2, requires_grad=True)
    weft.manual_seed(3)
    first = ds.Normal(loc, 1.0).rsample((4,))
    weft.manual_seed(3)
    assert weft.equal(first.detach(), ds.Normal(loc, 1.0).sample((4,)))
    first.sum().backward()
    assert loc.grad.tolist() == [4.0, 4.0]


def test_errors_name_the_line_in_python():
    with pytest.raises(ValueError, match=r"'scale' of Normal is not above 0[\s\S]*test_distributions.py"):
        ds.Normal(0.0, -1.0)
    with pytest.raises(NotImplementedError, match="Normal from Poisson"):
        ds.kl_divergence(ds.Normal(0.0, 1.0), ds.Poisson(1.0))
    with pytest.raises(TypeError, match="loc, scale"):
        ds.Normal(0.0)
    with pytest.raises(TypeError, match="a tensor or a number"):
        ds.Normal("0", 1.0)
    with pytest.raises(ValueError, match="either"):
        ds.Bernoulli()


def test_validation_may_be_switched_off():
    assert ds.Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    ds.Distribution.set_default_validate_args(False)
    try:
        ds.Exponential(-1.0)
    finally:
        ds.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError):
        ds.Exponential(-1.0)


def test_errors_of_a_function_pass_through_transforms():
    def fails(x):
        raise KeyError("mine")

    for transform in (func.grad, func.jacrev, func.hessian, func.vmap):
        with pytest.raises(KeyError, match="mine"):
            transform(fails)(weft.ones(2))


def test_transforms_keep_structures():
    inputs = {"a": weft.ones(2), "b": [weft.ones(3), 4.0]}
    gradient = func.grad(lambda d: d["a"].sum() * d["b"][0].sum() * d["b"][1])(inputs)
    assert gradient["a"].tolist() == [12.0, 12.0] and gradient["b"][1] == 4.0
    pair = func.vmap(lambda x: {"twice": 2 * x, "sum": x.sum()})(weft.ones(2, 3))
    assert pair["sum"].tolist() == [3.0, 3.0] and pair["twice"].shape == (2, 3)


def test_random_ops_in_vmap_follow_the_option():
    noisy = lambda x: x + weft.rand(2)  # noqa: E731
    with pytest.raises(ValueError, match="random"):
        func.vmap(noisy)(weft.ones(3, 2))
    same = func.vmap(noisy, randomness="same")(weft.ones(3, 2))
    assert weft.equal(same[0], same[2])
    with pytest.raises(ValueError, match="different"):
        func.vmap(noisy, randomness="any")(weft.ones(3, 2))


def test_hvp_is_the_hessian_times_a_direction():
    x, v = weft.tensor([1.0, 2.0]), weft.tensor([1.0, -1.0])
    output, (product,) = func.hvp(lambda t: (t ** 3).sum(), (x,), (v,))
    assert output.item() == 9 and product.tolist() == [6.0, -12.0]
