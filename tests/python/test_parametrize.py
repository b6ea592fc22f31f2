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


def test_a_deep_copy_of_a_parametrized_module_is_independent():
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


def test_exceptions_of_a_parametrization_propagate():
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
    assert weft.io.from_json(weft.io.to_json(net)).parametrizations.weight[0].n_power_iterations == 2


class Scaled(nn.Module):
    """Times a factor that is trained, and one that is given."""

    def __init__(self, by):
        super().__init__()
        self.by, self.factor = by, nn.Parameter(weft.ones(1))

    def forward(self, x):
        return x * self.factor * self.by

    def right_inverse(self, x):
        return x / (self.factor * self.by)


def same(a, b):
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(weft.equal(a[name], b[name]) for name in a)


def parametrized_net():
    net = nn.Sequential(nn.Linear(4, 4), nn.Conv1d(1, 2, 2), nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.BatchNorm1d(3)}),
                        nn.Linear(6, 5).double(), nn.Linear(4, 4))
    parametrizations.orthogonal(net[0])
    parametrizations.weight_norm(net[1], dim=None)
    parametrizations.spectral_norm(net[1], n_power_iterations=2, eps=1e-6, dim=1)
    parametrize.register_parametrization(net[2]["a"], "weight", Scaled(0.5))
    parametrizations.weight_norm(net[2]["a"], "bias")
    parametrize.register_parametrization(net[2]["b"], "running_mean", Scaled(2.0))
    parametrizations.orthogonal(net[3], orthogonal_map="householder")
    parametrizations.orthogonal(net[4], orthogonal_map="cayley", use_trivialization=False)
    net[2]["a"].parametrizations.weight.original.requires_grad_(False)
    return net


def test_files_of_models_hold_parametrized_tensors(tmp_path):
    net = parametrized_net()
    registry = weft.io.ModuleRegistry(Scaled)
    text = weft.io.to_json(net, registry)
    built = weft.io.from_json(text, registry)
    assert weft.io.to_json(built, registry) == text and repr(built) == repr(net)
    weft.io.save_model(tmp_path / "model", net, registry)
    loaded = weft.io.load_model(tmp_path / "model", registry)
    assert same(loaded, net) and type(loaded[2]["a"].parametrizations.weight[0]) is Scaled
    loaded.eval(), net.eval()
    for of in (lambda n: n[0].weight, lambda n: n[1].weight, lambda n: n[2]["a"].weight, lambda n: n[2]["b"].running_mean,
               lambda n: n[3].weight, lambda n: n[4].weight):
        assert weft.equal(of(loaded), of(net))
    assert loaded[3].weight.dtype == weft.float64
    assert not loaded[2]["a"].parametrizations.weight.original.requires_grad
    loaded[1](weft.ones(1, 1, 3)).sum().backward()
    assert loaded[1].parametrizations.weight.original0.grad is not None
    deep = copy.deepcopy(net)
    assert weft.io.to_json(deep, registry) == weft.io.to_json(net, registry)
    with pytest.raises(KeyError, match=r"2.a.parametrizations.weight.0: the registry has no type 'Scaled'.*ModuleRegistry\(Scaled\)"):
        weft.io.load_model(tmp_path / "model")


def test_an_unregistered_parametrization_raises_with_a_remedy():
    class Masked(nn.Module):
        def __init__(self, mask):
            super().__init__()
            self.register_buffer("mask", mask)

        def forward(self, x):
            return x * self.mask

    class Described(Masked):
        def get_config(self):
            return {"size": self.mask.shape[0]}

        @classmethod
        def from_config(cls, config):
            return cls(weft.ones(config["size"]))

    def made(step):
        return parametrize.register_parametrization(nn.Linear(3, 3), "weight", step)

    with pytest.raises(ValueError, match="parametrizations.weight.0: Masked's argument 'mask' is a Tensor, .* write get_config"):
        weft.io.to_json(made(Masked(weft.ones(3))))
    net, registry = made(Described(weft.tensor([1.0, 0.0, 2.0]))), weft.io.ModuleRegistry(Described)
    built = weft.io.from_json(weft.io.to_json(net, registry), registry)
    built.load_state_dict(net.state_dict())
    assert weft.equal(built.weight, net.weight)


def test_a_class_that_parametrizes_itself_is_saved_and_loaded(tmp_path):
    class Normed(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.inner = parametrizations.weight_norm(nn.Linear(width, 2))
            self.plain = nn.Linear(width, 2)

        def forward(self, x):
            return self.inner(x) + self.plain(x)

    net, registry = Normed(3), weft.io.ModuleRegistry(Normed)
    parametrizations.weight_norm(net.inner, "bias")
    parametrizations.spectral_norm(net.plain)
    weft.io.save_model(tmp_path / "model", net, registry)
    loaded = weft.io.load_model(tmp_path / "model", registry)
    loaded.eval(), net.eval()
    x = weft.randn(4, 3)
    assert same(loaded, net) and weft.equal(loaded(x), net(x))


def test_old_names_of_weight_norm_are_loaded():
    one, other = (nn.Sequential(parametrizations.weight_norm(nn.Linear(3, 2)), nn.Linear(2, 2)) for _ in range(2))
    old = dict(one.state_dict())
    old["0.weight_g"] = old.pop("0.parametrizations.weight.original0")
    old["0.weight_v"] = old.pop("0.parametrizations.weight.original1")
    assert other.load_state_dict(old) == ([], []) and same(one, other)
    with pytest.raises(ValueError, match="unexpected: 0.weight_g"):
        other.load_state_dict({name: t for name, t in old.items() if name != "0.weight_v"})
