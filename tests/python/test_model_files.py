"""Models as JSON and as folders, from Python and across the languages."""

import json
import math
import os
import sys
import time

import numpy as np
import pytest

sys.path.insert(0, os.path.dirname(__file__))

import weft
from weft import io, nn


class Net(nn.Module):
    def __init__(self, width, *, depth=2, act="relu"):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3 if i == 0 else width, width) for i in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(weft.ones(width))
        self.register_buffer("steps", weft.zeros(2))
        self.register_buffer("scratch", weft.zeros(1), persistent=False)
        self.act = act

    def forward(self, x):
        for layer in self.layers:
            x = getattr(weft, self.act)(layer(x))
        return self.norm(x) * self.scale


def registry():
    return io.ModuleRegistry(Net)


def same(a, b):
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(a[k].dtype == b[k].dtype and np.array_equal(a[k].float().numpy(), b[k].float().numpy()) for k in a)


LAYERS = [
    (nn.Linear(3, 4, bias=False), (2, 3)), (nn.Embedding(5, 3, padding_idx=1), None), (nn.LayerNorm((3,), eps=1e-3), (2, 3)),
    (nn.RMSNorm(3), (2, 3)), (nn.Dropout(0.2), (2, 3)), (nn.TransformerBlock(4, 2, dropout=0.1), (1, 5, 4)),
    (nn.MoE(4, 5, 6, top_k=3, scores="sigmoid", normalize=False), (2, 5, 4)),
    (nn.MoE(4, 5, 3, kind="gelu", shared_experts=2, capacity_factor=1.5, expert_bias=True), (7, 4)),
    (nn.Identity(), (2,)), (nn.Flatten(0), (2, 3)), (nn.Unflatten(1, (3, 1)), (2, 3)), (nn.Softmax(dim=-1), (2, 3)),
    (nn.PReLU(3, init=0.1), (2, 3)), (nn.GELU(approximate="tanh"), (2, 3)), (nn.LeakyReLU(0.3), (2, 3)),
    (nn.Threshold(0, 1.5), (2, 3)), (nn.Conv2d(2, 4, 3, padding="same", padding_mode="circular"), (1, 2, 5, 5)),
    (nn.ConvTranspose1d(2, 4, (3,), stride=2, output_padding=1), (1, 2, 5)), (nn.BatchNorm1d(3, momentum=None), (4, 3)),
    (nn.GroupNorm(2, 4), (1, 4, 3)), (nn.InstanceNorm2d(2, affine=True), (1, 2, 3, 3)), (nn.MaxPool2d(2, stride=1), (1, 2, 4, 4)),
    (nn.AvgPool1d(2), (1, 2, 4)), (nn.AdaptiveAvgPool2d((2, 1)), (1, 2, 4, 4)), (nn.LPPool1d(2.0, 2), (1, 2, 4)),
    (nn.ZeroPad2d(1), (1, 2, 3, 3)), (nn.ConstantPad1d((1, 2), 3.5), (1, 2, 3)), (nn.PixelShuffle(2), (1, 4, 2, 2)),
    (nn.Upsample(scale_factor=2.0, mode="bilinear", align_corners=True), (1, 2, 3, 3)), (nn.CosineSimilarity(dim=0), None),
    (nn.CrossEntropyLoss(weight=weft.tensor([1.0, 2.0]), label_smoothing=0.1), None), (nn.MSELoss(reduction="sum"), None),
    (nn.TripletMarginLoss(p=1.0, swap=True), None), (nn.Sequential(nn.Linear(3, 2), nn.Tanh()), (2, 3)),
    (nn.ModuleDict({"b": nn.Linear(2, 2), "a": nn.ReLU()}), None),
]


@pytest.mark.parametrize("layer,shape", LAYERS, ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else "")
def test_every_layer_comes_back_and_computes_the_same(layer, shape):
    text = io.to_json(layer)
    copy = io.from_json(text)
    assert io.to_json(copy) == text and repr(copy) == repr(layer)
    copy.load_state_dict(layer.state_dict())
    if shape is not None:
        x = weft.randn(*shape).abs()
        weft.manual_seed(1)
        expected = layer(x.clone())
        weft.manual_seed(1)
        assert np.array_equal(copy(x.clone()).detach().numpy(), expected.detach().numpy(), equal_nan=True)


def test_a_users_module_comes_back_with_its_arguments_dtypes_and_frozen_parameters(tmp_path):
    net = Net(4, depth=3)
    net.norm.bfloat16()
    net.scale.requires_grad_(False)
    net.layers[1].eval()
    with weft.no_grad():
        net.steps.fill_(7)
    io.save_model(tmp_path / "net", net, registry(), documents={"generation_config": {"p": 0.5}})
    copy = io.load_model(tmp_path / "net", registry())
    assert io.to_json(copy, registry()) == io.to_json(net, registry())
    assert same(net, copy) and len(copy.layers) == 3 and copy.norm.weight.dtype == weft.bfloat16
    assert not copy.scale.requires_grad and not copy.layers[1].training and copy.training
    assert json.loads((tmp_path / "net" / "generation_config.json").read_text()) == {"p": 0.5}
    half = io.load_model(tmp_path / "net", registry(), dtype=weft.float16)
    assert half.scale.dtype == weft.float16


def test_a_type_that_is_unknown_is_a_key_error_with_its_path():
    text = io.to_json(nn.Sequential(nn.ReLU(), Net(2)))
    with pytest.raises(KeyError, match="1: the registry has no type 'Net'"):
        io.from_json(text)


def test_a_type_that_is_unknown_is_refused_when_it_is_saved(tmp_path):
    for net, path in ((Net(2), "the model"), (nn.Sequential(nn.ReLU(), Net(2)), "1")):
        with pytest.raises(ValueError, match=f"save_model.*{path}: no registry has the type 'Net'.*ModuleRegistry\\(Net\\)"):
            io.save_model(tmp_path / "net", net)
    assert not (tmp_path / "net").exists()
    (tmp_path / "net").mkdir()
    io.save_model(tmp_path / "net", nn.Sequential(nn.ReLU(), Net(2)), registry())
    assert len(io.load_model(tmp_path / "net", registry())) == 2


def test_a_tree_larger_than_its_weights_is_refused_before_it_takes_memory(tmp_path):
    class Deep(nn.Module):
        def __init__(self, layers):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(1, 1) for _ in range(layers))

    io.save_model(tmp_path / "net", nn.Linear(2, 2))
    path = tmp_path / "net" / "model.json"
    for kind, config in (("Linear", {"in_features": 100000, "out_features": 100000}), ("Deep", {"layers": 10**9}),
                         ("Embedding", {"num_embeddings": 10**9, "embedding_dim": 64})):
        tree = json.loads(path.read_text()) | {"model": {"type": kind, "config": config}}
        path.write_text(json.dumps(tree))
        with pytest.raises(ValueError, match="its weights are far smaller"):
            io.load_model(tmp_path / "net", io.ModuleRegistry(Deep))


def test_arguments_that_no_file_holds_are_named():
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

    with pytest.raises(ValueError, match="to_json.*0: Wrapper's argument 'inner' is a Linear"):
        io.to_json(nn.Sequential(Wrapper(nn.Linear(1, 1))))


def test_get_config_and_from_config_accept_other_objects():
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def get_config(self):
            return {"width": self.inner.in_features}

        @classmethod
        def from_config(cls, config):
            return cls(nn.Linear(config["width"], config["width"]))

    net = Wrapper(nn.Linear(3, 3))
    copy = io.from_json(io.to_json(net), io.ModuleRegistry(Wrapper))
    assert copy.inner.weight.shape == (3, 3)


def test_migrations_lead_old_models_to_the_present_class(tmp_path):
    io.save_model(tmp_path / "net", Net(4), registry())
    path = tmp_path / "net" / "model.json"
    tree = json.loads(path.read_text())
    tree["model"]["config"]["size"] = tree["model"]["config"].pop("width")
    path.write_text(json.dumps(tree))

    class Newer(Net):
        def __init__(self, width, depth=2, act="relu"):
            super().__init__(width, depth=depth, act=act)
            self.extra = nn.Parameter(weft.ones(3))

    def rename(tree):
        tree["type"], tree["version"] = "Newer", 3
        tree["config"]["width"] = tree["config"].pop("size")

    def add(tree):
        tree["parameters"].append({"name": "extra", "dtype": "float32", "shape": [3]})

    now = io.ModuleRegistry().add(Newer, 4).add_migration("Net", 1, rename).add_migration("Newer", 3, add)
    copy = io.load_model(tmp_path / "net", now)
    assert type(copy) is Newer and copy.extra.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="no way from version 1 of Net to 2"):
        io.from_json(json.dumps(tree), io.ModuleRegistry().add(Net, 2))
    with pytest.raises(ValueError):
        io.from_json('{"format_version": "2.0", "model": {"type": "ReLU"}}')


def test_mismatches_of_the_class_raise_with_their_path():
    tree = json.loads(io.to_json(nn.Sequential(nn.Linear(2, 3))))
    linear = tree["model"]["children"][0]
    for change, words in [(("config", {"in_features": 2}), "0: no Linear can be made"),
                          (("config", {"in_features": 2, "out_features": 3, "colour": 1}), "0: no Linear can be made"),
                          (("config", {"in_features": 2, "out_features": 4}), "0: its parameters are described as"),
                          (("name", "5"), None)]:
        changed = json.loads(json.dumps(tree))
        changed["model"]["children"][0][change[0]] = change[1]
        if words is None:
            assert list(dict(io.from_json(json.dumps(changed)).named_children())) == ["5"]
        else:
            with pytest.raises(ValueError, match=words):
                io.from_json(json.dumps(changed))
    assert linear["type"] == "Linear"
    with pytest.raises(ValueError, match="malformed JSON at byte"):
        io.from_json("{")


def test_a_shared_module_is_one_again():
    shared = nn.Linear(2, 2)
    copy = io.from_json(io.to_json(nn.Sequential(shared, nn.ReLU(), shared)))
    assert copy[0] is copy[2]


def test_numbers_that_are_not_finite_and_lists_come_back():
    class Numbers(nn.Module):
        def __init__(self, *, low, sizes, flags, words, empty=()):
            super().__init__()
            self.values = low, sizes, flags, words, empty

    net = Numbers(low=-math.inf, sizes=[0.5, math.inf], flags=(True, False), words=["a", "ü"])
    copy = io.from_json(io.to_json(net), io.ModuleRegistry(Numbers))
    assert copy.values == (-math.inf, (0.5, math.inf), (True, False), ("a", "ü"), ())


def test_training_states_are_models(tmp_path):
    net = nn.Sequential(nn.Linear(2, 3), nn.GELU())
    folder = io.save_training_state(tmp_path, net, weft.optim.SGD(net.parameters(), lr=0.1), io.RunState(step=2))
    assert same(net, io.load_model(folder))


def test_state_dict_takes_pytorchs_arguments():
    net = nn.BatchNorm1d(2)
    assert set(net.state_dict("a.", buffers=False)) == {"a.weight", "a.bias"}
    assert net.state_dict(keep_vars=True)["weight"] is net.weight
    assert not net.state_dict()["weight"].requires_grad


class Tied(nn.Module):
    def __init__(self, tie=False):
        super().__init__()
        self.token, self.drop, self.head = nn.Embedding(5, 4), nn.Dropout(0.5), nn.Linear(4, 5, bias=False)
        if tie:
            self.head.weight = self.token.weight

    def forward(self, x):
        return self.head(self.drop(self.token(x)))


def reloaded(folder, net, *classes):
    folder.mkdir(exist_ok=True)
    registry = weft.io.ModuleRegistry(*classes)
    weft.io.save_model(folder / "model", net, registry)
    return weft.io.load_model(folder / "model", registry)


def same_outputs(a, b, x):
    return a.eval()(x).tolist() == b.eval()(x).tolist()


def test_tied_weights_stay_tied(tmp_path):
    x = weft.tensor([[0, 3, 4]])
    net = Tied()
    net.head.weight = net.token.weight
    loaded = reloaded(tmp_path / "a", net, Tied)
    assert loaded.head.weight is loaded.token.weight and len(list(loaded.parameters())) == 1
    assert same_outputs(net, loaded, x)
    layers = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5, bias=False))
    layers[1].weight = layers[0].weight
    loaded = reloaded(tmp_path / "b", layers)
    assert loaded[1].weight is loaded[0].weight and same_outputs(layers, loaded, x)


def test_weights_that_were_untied_stay_apart(tmp_path):
    net = Tied(tie=True)
    net.head.weight = nn.Parameter(weft.randn(5, 4))
    loaded = reloaded(tmp_path, net, Tied)
    assert loaded.head.weight is not loaded.token.weight and same_outputs(net, loaded, weft.tensor([1, 2]))


def test_options_changed_after_construction_are_written(tmp_path):
    layers = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4), nn.LeakyReLU(), nn.LayerNorm(4),
                           nn.Conv1d(4, 4, 3, padding=1))
    layers[1].p, layers[2].momentum, layers[2].eps = 0.25, 0.3, 1e-2
    layers[3].negative_slope, layers[4].eps = 0.5, 1e-1
    loaded = reloaded(tmp_path, layers[:5])
    assert [loaded[1].p, loaded[2].momentum, loaded[2].eps, loaded[3].negative_slope, loaded[4].eps] == [0.25, 0.3, 1e-2, 0.5, 1e-1]
    assert same_outputs(layers[:5], loaded, weft.randn(3, 4))


class Doubled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = 2 * width
        self.lin = nn.Linear(self.width, 1)

    def forward(self, x):
        return self.lin(x)


def test_attributes_that_the_constructor_computes_are_not_options(tmp_path):
    weft.manual_seed(3)
    net, state = Doubled(2), weft.get_rng_state().tolist()
    assert reloaded(tmp_path, net, Doubled).width == 4 and net.get_config() == {"width": 2}
    weft.manual_seed(3)
    Doubled(2)
    assert weft.get_rng_state().tolist() == state
    net.width = 6
    with pytest.raises(ValueError, match="Doubled.width is 6 since it was made with 2.*get_config"):
        weft.io.save_model(tmp_path / "other", net, weft.io.ModuleRegistry(Doubled))
    assert not (tmp_path / "other").exists()


class Replaced(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body, self.act, self.fc = nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 10)

    def forward(self, x):
        return self.fc(self.act(self.body(x)))


@pytest.mark.parametrize("change", [
    lambda net: setattr(net, "fc", nn.Linear(8, 2)),
    lambda net: setattr(net, "fc", nn.Linear(8, 10, bias=False)),
    lambda net: setattr(net, "fc", nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 1))),
    lambda net: setattr(net, "act", nn.Identity()),
    lambda net: setattr(net, "act", nn.LeakyReLU(0.3)),
    lambda net: setattr(net, "extra", nn.Linear(2, 2)),
    lambda net: net.body.requires_grad_(False),
    lambda net: net.act.train(False),
])
def test_a_changed_net_is_loaded_as_it_is(tmp_path, change):
    net = Replaced(8)
    change(net)
    loaded = reloaded(tmp_path, net, Replaced)
    assert str(loaded) == str(net) and same_outputs(net, loaded, weft.randn(2, 3))
    assert [(n, p.requires_grad) for n, p in loaded.named_parameters()] == [(n, p.requires_grad) for n, p in net.named_parameters()]


def test_a_native_module_that_loading_would_not_build_is_refused_when_it_is_saved(tmp_path):
    model = nn.CausalLM(vocabulary=11, width=16, layers=1, heads=2)
    nn.quantize(model, "q_proj")
    with pytest.raises(ValueError, match="(?s)replaced or added.*QuantizedLinear.*save_file"):
        io.save_model(tmp_path / "net", model)
    assert not (tmp_path / "net").exists()
    inner = nn.Sequential(nn.Linear(16, 4))
    nn.quantize(inner)
    io.save_model(tmp_path / "net", inner)
    assert repr(io.load_model(tmp_path / "net")) == repr(inner)


def test_native_modules_are_described_with_the_sizes_that_cpp_derives():
    tree = json.loads(io.to_json(nn.CausalLM(vocabulary=11, width=8, layers=1, heads=2)))
    assert tree["model"]["config"]["kv_heads"] == 2 and tree["model"]["config"]["hidden"] == 32


def test_claims_of_a_tree_are_compared_with_its_weights_at_once(tmp_path):
    for net, option in ((nn.CausalLM(vocabulary=11, width=8, layers=2, heads=2), "layers"), (nn.LSTM(3, 4), "num_layers"),
                        (nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 5), 2), "num_layers"),
                        (nn.Linear(2, 3), "out_features")):
        io.save_model(tmp_path / "net", net)
        path = tmp_path / "net" / "model.json"
        tree = json.loads(path.read_text())
        for value in (10**9, 2**62, -1):
            tree["model"]["config"][option] = value
            path.write_text(json.dumps(tree))
            begin = time.perf_counter()
            with pytest.raises(ValueError):
                io.load_model(tmp_path / "net")
            with pytest.raises(ValueError):
                io.from_json(path.read_text())
            assert time.perf_counter() - begin < 1


def test_every_tie_is_saved_or_refused_with_the_remedy(tmp_path):
    weight = weft.randn(3, 4)
    with pytest.raises(ValueError, match="share memory(.|\n)*tie=\"alias\", or weft.save"):
        io.save_file({"a": weight, "b": weight}, tmp_path / "f")
    with pytest.raises(ValueError, match="share memory(.|\n)*overlap in part.*clone"):
        io.save_file({"a": weight, "b": weight[1:]}, tmp_path / "f")
    weft.save({"a": weight, "b": weight, "list": [weight]}, tmp_path / "f")
    loaded = weft.load(tmp_path / "f")
    loaded["a"].zero_()
    assert loaded["b"].abs().sum().item() == 0 and loaded["list"][0].abs().sum().item() == 0

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.head, self.block = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False), nn.Linear(4, 4)
            self.head.weight, self.again = self.token.weight, self.block
            self.register_buffer("mask", weft.ones(4))
            self.block.register_buffer("mask", self.mask)

    net = Net()
    weft.save(net.state_dict(), tmp_path / "s")
    net.load_state_dict(weft.load(tmp_path / "s"))
    io.save_model(tmp_path / "net", net, io.ModuleRegistry(Net))
    back = io.load_model(tmp_path / "net", io.ModuleRegistry(Net))
    assert back.head.weight._impl() == back.token.weight._impl() and back.again is back.block
    assert back.block.mask._impl() == back.mask._impl()
