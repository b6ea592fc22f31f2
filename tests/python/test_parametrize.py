"""Parametrized tensors of modules, over those of C++; tests/nn/parametrize_test.cpp has the values that PyTorch gives."""

import copy
import gc
import weakref

import pytest
import weft
from weft import lora, nn
from weft.nn.utils import parametrizations, parametrize


def test_weight_norm_and_spectral_norm():
    linear = nn.utils.parametrizations.weight_norm(nn.Linear(3, 4))
    assert sorted(linear.state_dict()) == ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
    length = linear.weight.norm(dim=1, keepdim=True)
    assert weft.allclose(length, linear.parametrizations.weight.original0)
    linear(weft.randn(2, 3)).sum().backward()
    assert linear.parametrizations.weight.original0.grad is not None
    weight = linear.weight.detach().clone()
    nn.utils.parametrize.remove_parametrizations(linear, "weight")
    assert sorted(linear.state_dict()) == ["bias", "weight"] and weft.equal(linear.weight, weight)

    spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(5, 4))
    assert "parametrizations.weight.0._u" in spectral.state_dict()
    for _ in range(200):
        spectral.weight
    assert weft.linalg.vector_norm(spectral.weight @ spectral.parametrizations.weight[0]._v).item() == pytest.approx(1, abs=1e-3)
    spectral.eval()
    assert weft.equal(spectral.weight, spectral.weight)


def test_a_parametrization_of_ones_own():
    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).t()

    net = nn.utils.parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    assert weft.equal(net.weight, net.weight.t()) and nn.utils.parametrize.is_parametrized(net, "weight")
    assert "parametrizations.weight.original" in net.state_dict()
    with pytest.raises(ValueError):
        nn.utils.parametrize.register_parametrization(net, "nothing", Symmetric())


def test_a_parametrization_with_several_originals_stacks_is_set_and_removed():
    class Product(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(weft.tensor(1.0))

        def forward(self, a, b):
            return a * b * self.scale

        def right_inverse(self, x):
            return x / 2, weft.full_like(x, 2.0)

    class Half(nn.Module):
        def forward(self, x):
            return x / 2

        def right_inverse(self, x):
            return x * 2

    net = nn.Linear(3, 2)
    before = net.weight.detach().clone()
    parametrize.register_parametrization(net, "weight", Product())
    assert [n for n, _ in net.named_parameters()] == [
        "bias", "parametrizations.weight.original0", "parametrizations.weight.original1", "parametrizations.weight.0.scale"]
    assert weft.allclose(net.weight, before) and "Parametrized" in repr(net)
    parametrize.register_parametrization(net, "weight", Half())
    assert weft.allclose(net.weight, before / 2) and len(net.parametrizations.weight) == 2
    assert type(net.parametrizations.weight[0]) is Product and weft.equal(net.parametrizations.weight(), net.weight)
    net.weight = before
    assert weft.allclose(net.weight, before)
    net(weft.ones(1, 3)).sum().backward()
    assert net.parametrizations.weight.original0.grad is not None
    assert net.parametrizations.weight[0].scale.grad is not None
    with pytest.raises(TypeError):
        net.weight = 3
    with pytest.raises(ValueError):
        parametrize.remove_parametrizations(net, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(net, "weight")
    assert weft.allclose(net.weight, before) and not parametrize.is_parametrized(net)
    assert [n for n, _ in net.named_parameters()] == ["bias", "weight"] and isinstance(net.weight, nn.Parameter)


def test_the_original_is_the_same_parameter_before_and_after():
    net = nn.Linear(2, 2)
    weight, optimizer = net.weight, weft.optim.SGD(net.parameters(), lr=0.1)
    parametrizations.spectral_norm(net)
    assert net.parametrizations.weight.original is weight
    before = weight.detach().clone()
    net(weft.ones(1, 2)).sum().backward()
    optimizer.step()
    assert not weft.equal(weight, before)
    parametrize.remove_parametrizations(net, "weight", leave_parametrized=False)
    assert net.weight is weight


def test_cached_parametrizations_are_computed_once():
    class Counting(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x * 2

    net, counting = nn.Linear(2, 2), Counting()
    parametrize.register_parametrization(net, "weight", counting, unsafe=True)
    assert counting.calls == 0
    with parametrize.cached():
        with parametrize.cached():
            assert net.weight is not None and weft.equal(net.weight, net.parametrizations.weight.original * 2)
        net(net(weft.ones(1, 2))).sum().backward()
    assert counting.calls == 1
    net(weft.ones(1, 2))
    assert counting.calls == 2


def test_a_deep_copy_of_a_parametrized_module_stands_alone():
    class Doubled(nn.Module):
        def forward(self, x):
            return x * 2

    net = nn.Sequential(nn.Linear(3, 3), nn.LSTM(3, 2), nn.Conv1d(3, 2, 1))
    parametrize.register_parametrization(net[0], "weight", Doubled())
    parametrizations.weight_norm(net[1], "weight_hh_l0")
    parametrizations.spectral_norm(net[2])
    copied = copy.deepcopy(net)
    assert list(copied.state_dict()) == list(net.state_dict()) and repr(copied) == repr(net)
    x = weft.randn(4, 3)
    assert weft.equal(copied[0](x), net[0](x)) and weft.equal(copied[1](x)[0], net[1](x)[0])
    before = net[0](x)
    with weft.no_grad():
        for p in copied.parameters():
            p.mul_(2)
    assert weft.equal(net[0](x), before) and not weft.equal(copied[0](x), before)
    copied[1](x)[0].sum().backward()
    assert copied[1].parametrizations.weight_hh_l0.original0.grad is not None
    assert net[1].parametrizations.weight_hh_l0.original0.grad is None
    for i, name in ((0, "weight"), (1, "weight_hh_l0"), (2, "weight")):
        parametrize.remove_parametrizations(copied[i], name)
        assert parametrize.is_parametrized(net[i])


def test_parts_of_layers_that_compute_in_cpp_are_parametrized():
    class Doubled(nn.Module):
        def forward(self, x):
            return x * 2

        def right_inverse(self, x):
            return x / 2

    block = nn.TransformerBlock(4, 2)
    x = weft.randn(1, 3, 4)
    before = block(x)
    parametrize.register_parametrization(block.attention.qkv, "weight", Doubled())
    parametrizations.weight_norm(block.up)
    assert weft.allclose(block(x), before, atol=1e-6)
    block(x).sum().backward()
    assert block.attention.qkv.parametrizations.weight.original.grad is not None
    parametrize.remove_parametrizations(block.attention.qkv, "weight")
    assert weft.allclose(block(x), before, atol=1e-6)


def test_what_a_parametrization_raises_comes_through():
    class Failing(nn.Module):
        fails = True

        def forward(self, x):
            if self.fails:
                raise KeyError("not now")
            return x

    class NoTensor(nn.Module):
        def forward(self, x):
            return 3

    net = nn.Linear(2, 2)
    failing = Failing()
    with pytest.raises(KeyError):
        parametrize.register_parametrization(net, "weight", failing)
    with pytest.raises(TypeError):
        parametrize.register_parametrization(net, "weight", NoTensor())
    assert list(net.state_dict()) == ["weight", "bias"] and not parametrize.is_parametrized(net)
    failing.fails = False
    parametrize.register_parametrization(net, "weight", failing)
    failing.fails = True
    with pytest.raises(KeyError):
        net(weft.ones(1, 2))
    failing.fails = False
    net(weft.ones(1, 2))
    with pytest.raises(ValueError, match="right_inverse"):
        net.weight = weft.ones(2, 2)
    with pytest.raises(ValueError):
        net.register_parameter("weight", nn.Parameter(weft.ones(2, 2)))
    with pytest.raises(ValueError):
        lora.apply_lora(net, ".")


def test_a_parametrized_module_is_collected():
    class Doubled(nn.Module):
        def forward(self, x):
            return x * 2

    net = nn.Linear(2, 2)
    step = Doubled()
    step.owner = [net]
    parametrize.register_parametrization(net, "weight", step)
    gone = weakref.ref(net)
    del net, step
    gc.collect()
    assert gone() is None


def test_buffers_are_parametrized_and_lists_set_values():
    class Doubled(nn.Module):
        def forward(self, x):
            return x * 2

        def right_inverse(self, x):
            return x / 2

    norm = nn.BatchNorm1d(2)
    mean = norm.running_mean
    parametrize.register_parametrization(norm, "running_mean", Doubled())
    assert "parametrizations.running_mean.original" in norm.state_dict() and len(list(norm.parameters())) == 2
    assert norm.parametrizations.running_mean.original is mean
    norm.parametrizations.running_mean.right_inverse(weft.ones(2))
    assert mean.tolist() == [0.5, 0.5] and norm.running_mean.tolist() == [1, 1]
    parametrize.remove_parametrizations(norm, "running_mean")
    assert norm.running_mean is mean and isinstance(norm.running_mean, nn.Buffer) and mean.tolist() == [1, 1]
    net = parametrizations.spectral_norm(nn.Linear(3, 2), n_power_iterations=2)
    assert copy.deepcopy(net).parametrizations.weight[0].n_power_iterations == 2
    with pytest.raises(ValueError, match="state_dict"):
        weft.io.to_json(net)
