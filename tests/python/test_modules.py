"""weft.nn.Module over the C++ modules: members, moving, hooks that reach into C++, copies, life."""

import abc
import copy
import gc
import pickle
import warnings
import weakref

import numpy as np
import pytest

import weft
from weft import nn, optim
import weft.nn.functional as F


def test_to_keeps_the_objects_that_optimizers_hold():
    layer = nn.Linear(3, 2)
    weight, optimizer = layer.weight, optim.SGD(layer.parameters(), lr=0.5)
    layer(weft.ones(1, 3)).sum().backward()
    assert layer.double() is layer and layer.weight is weight
    assert weight.dtype is weft.float64 and weight.grad.dtype is weft.float64
    before = weight.detach().clone()
    optimizer.step()
    assert (weight == before - 0.5).all()
    weight.name = "mine"
    assert layer.weight.name == "mine" and next(layer.parameters()) is weight


def test_buffers_of_the_user_are_replaced_and_own_ones_moved():
    class Net(nn.Module):
        def __init__(self, plain):
            super().__init__()
            self.register_buffer("plain", plain)
            self.own = nn.Buffer(weft.ones(2))
            self.register_buffer("scratch", weft.ones(1), persistent=False)
            self.register_buffer("absent", None)

    plain = weft.ones(2)
    net = Net(plain)
    own = net.own
    assert net.plain is plain and net.absent is None
    net.half()
    assert plain.dtype is weft.float32 and net.plain.dtype is weft.float16
    assert net.own is own and own.dtype is weft.float16
    assert list(net.state_dict()) == ["plain", "own"]
    net.scratch = net.scratch + 1
    assert list(net.state_dict()) == ["plain", "own"] and net.scratch.item() == 2
    hidden = weft.ones(2, requires_grad=True) * 2
    net.plain = hidden
    assert net.plain is hidden and net.plain.grad_fn is not None  # no gradient is cut off


def test_a_shared_tensor_is_saved_and_loaded_under_each_name():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(3, 2)
            self.head = nn.Linear(2, 3, bias=False)
            self.head.weight = self.table.weight

    a, b = Tied(), Tied()
    assert len(list(a.parameters())) == 1 and list(a.state_dict()) == ["table.weight", "head.weight"]
    b.load_state_dict(a.state_dict())
    assert b.head.weight is b.table.weight and (b.head.weight == a.table.weight).all()
    assert b.load_state_dict({"head.weight": weft.zeros(3, 2)}) == ([], [])
    assert b.table.weight.sum().item() == 0
    c = copy.deepcopy(a)
    assert c.head.weight is c.table.weight and c.head.weight is not a.head.weight
    out = c.head(weft.ones(1, 2))
    assert (out == weft.ones(1, 2) @ a.table.weight.T).all()
    c.head.weight = nn.Parameter(weft.zeros(3, 2))
    assert c.head(weft.ones(1, 2)).sum().item() == 0


def test_members_may_be_none_replaced_and_deleted():
    layer = nn.Linear(2, 2, bias=False)
    assert layer.bias is None and [n for n, _ in layer.named_parameters()] == ["weight"]
    layer.bias = nn.Parameter(weft.ones(2))
    assert [n for n, _ in layer.named_parameters()] == ["weight", "bias"]
    layer.weight = None
    assert layer.weight is None and [n for n, _ in layer.named_parameters()] == ["bias"]
    with pytest.raises(TypeError, match="'bias' is registered"):
        layer.bias = weft.ones(2)
    del layer.bias
    assert not hasattr(layer, "bias")
    with pytest.raises(AttributeError):
        del layer.bias
    for wrong in ("", "a.b", 3):
        with pytest.raises((KeyError, TypeError)):
            layer.register_parameter(wrong, nn.Parameter(weft.ones(1)))
    with pytest.raises(TypeError):
        layer.register_parameter("p", weft.ones(1))
    with pytest.raises(ValueError, match="cannot hold itself"):
        layer.me = layer


def test_assigning_before_init_raises_with_the_reason():
    class Early(nn.Module):
        def __init__(self):
            self.size = 3
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"super\(\).__init__"):
        Early()


def test_modules_mix_with_other_base_classes():
    class Base(nn.Module, abc.ABC):
        @abc.abstractmethod
        def forward(self, x): ...

    class Doubled(Base):
        def forward(self, x):
            return 2 * x

    with pytest.raises(TypeError):
        Base()
    assert Doubled()(weft.ones(1)).item() == 2


def test_training_calls_overrides_of_train():
    class Frozen(nn.Module):
        def train(self, mode=True):
            return super().train(False)

    net = nn.Sequential(nn.Dropout(), Frozen())
    net.train()
    assert net.training and net[0].training and not net[1].training
    net[0].training = False
    assert net.training and not net[0].training


def test_hooks_with_keywords_and_order():
    class Scaled(nn.Module):
        def forward(self, x, *, scale=1.0):
            return x * scale

    net, seen = Scaled(), []
    net.register_forward_pre_hook(lambda m, args, kwargs: (args, {"scale": kwargs["scale"] + 1}), with_kwargs=True)
    net.register_forward_hook(lambda m, args, kwargs, out: seen.append(("late", kwargs["scale"])), with_kwargs=True)
    first = net.register_forward_hook(lambda m, args, out: seen.append("first"), prepend=True)
    assert net(weft.ones(1), scale=2.0).item() == 3 and seen == ["first", ("late", 3.0)]
    with first:
        pass
    seen.clear()
    net(weft.ones(1), scale=0.0)
    assert seen == [("late", 1.0)]


def test_backward_hooks_have_a_place_for_every_argument():
    class Two(nn.Module):
        def forward(self, a, number, b):
            return a * number, a * b, "text"

    net, seen = Two(), []
    net.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    a, b = weft.tensor([2.0], requires_grad=True), weft.tensor([3.0])
    out = net(a, 5, b)
    (out[0] + 7 * out[1]).sum().backward()
    (grad_input, grad_output), = seen
    assert grad_input[0].item() == 26 and grad_input[1] is None and grad_input[2] is None
    assert grad_output[0].item() == 1 and grad_output[1].item() == 7 and grad_output[2] is None
    with net.register_full_backward_hook(lambda m, gi, go: (gi[0] * 0, None, None)):
        a.grad = None
        net(a, 5, b)[0].sum().backward()
        assert a.grad.item() == 0
    seen.clear()
    net(weft.ones(1), 5, weft.ones(1, requires_grad=True) * 1)[1].sum().backward()
    (grad_input, grad_output), = seen
    assert grad_input[0] is None and grad_input[2].item() == 1 and grad_output[0] is None
    layer, seen = nn.Linear(1, 1), []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].item())))
    layer(weft.ones(1, 1)).sum().backward()  # no input needs a gradient
    assert seen == [((None,), 1.0)]


def test_a_hook_that_raises_leaves_the_module_usable():
    layer = nn.Linear(1, 1)
    handle = layer.register_forward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        layer(weft.ones(1, 1))
    handle.remove()
    bad = layer.register_full_backward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        layer(weft.ones(1, 1, requires_grad=True)).sum().backward()
    bad.remove()
    layer(weft.ones(1, 1)).sum().backward()


def block():
    weft.manual_seed(3)
    return nn.TransformerBlock(8, 2), weft.randn(2, 3, 8, requires_grad=True)


def test_hooks_reach_the_parts_of_a_module_that_computes_in_cpp():
    net, x = block()
    want, seen = net(x), []
    part = net.attention.qkv
    assert part is net.attention.qkv and repr(part) == "Linear(in_features=8, out_features=24, bias=True)"
    handles = [part.register_forward_hook(lambda m, args, out: seen.append((m is part, args[0].shape, out.shape))),
               net.register_forward_pre_hook(lambda m, args: seen.append("before")),
               net.up.register_full_backward_hook(lambda m, gi, go: seen.append((gi[0].shape, go[0].shape)))]
    assert (net(x) == want).all()
    net(x).sum().backward()
    assert seen == ["before", (True, (2, 3, 8), (2, 3, 24))] * 2 + [((2, 3, 8), (2, 3, 32))]
    for handle in handles:
        handle.remove()
    with net.down.register_forward_hook(lambda m, args, out: out * 0), \
            net.attention.proj.register_forward_pre_hook(lambda m, args: (args[0] * 0,)):
        np.testing.assert_allclose(net(x).tolist(), (x + net.attention.proj.bias).tolist(), rtol=1e-6)
    assert (net(x) == want).all() and len(seen) == 5


def test_a_module_of_cpp_is_a_module_like_others():
    net, x = block()
    holder = nn.Sequential(nn.Linear(8, 8), net)
    assert "1.attention.qkv.weight" in holder.state_dict() and len(list(holder.parameters())) == 14
    assert repr(holder).count("Linear(") == 5 and repr(net).startswith("TransformerBlock(\n  (norm1): LayerNorm((8,)")
    other = nn.TransformerBlock(8, 2)
    other.load_state_dict(net.state_dict())
    assert (other(x) == net(x)).all()
    holder.double()
    assert net.up.weight.dtype is weft.float64 and net(x.double()).dtype is weft.float64
    holder.eval()
    assert not net.attention.dropout.training
    with pytest.raises(TypeError, match="computes in C"):
        net.up(x.double())
    with pytest.raises(TypeError, match="state_dict"):
        pickle.dumps(net)
    with pytest.raises(ValueError, match=r"@|test_modules"):
        net(weft.ones(2, 2, dtype=weft.float64))


def test_modules_are_collected_whatever_their_hooks_hold():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.block = nn.TransformerBlock(4, 1)
            self.layer.register_forward_hook(self.seen)
            self.layer.register_full_backward_hook(self.seen)
            self.block.attention.register_forward_hook(self.seen)
            self.layer.parent = [self]

        def seen(self, *_):
            return None

        def forward(self, x):
            return self.layer(x)

    gc.collect()
    before = weft.live_tensors()
    net = Net()
    net(weft.ones(1, 2, requires_grad=True)).sum().backward()
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None and weft.live_tensors() == before


def test_a_forgotten_list_of_modules_gives_a_warning():
    class Forgetful(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(2, 2)]
            self.kept = nn.Linear(2, 2)

        def forward(self, x):
            return nn.Sequential(self.kept)(self.layers[0](x))

    net = Forgetful()
    with pytest.warns(UserWarning, match="Forgetful.*Linear is called in forward that no module has registered") as seen:
        net(weft.ones(1, 2))
    assert len(seen) == 1 and "ModuleList" in str(seen[0].message) and "6 elements" in str(seen[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with weft.no_grad():
            Forgetful()(weft.ones(1, 2))


def test_copies_and_pickles_keep_the_state_of_a_module():
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.3), nn.LayerNorm(2, elementwise_affine=False), nn.GELU("tanh"))
    net[0].note = {"a": 1}
    net[1].eval()
    net[0].register_buffer("scratch", weft.ones(1), persistent=False)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert repr(other) == repr(net) and other[0].note == {"a": 1} and not other[1].training and other[0].training
        assert list(other.state_dict()) == list(net.state_dict()) and other[0].scratch.item() == 1
        assert other[0].weight is not net[0].weight and (other[0].weight == net[0].weight).all()
        other[0].weight.data.fill_(0) if hasattr(other[0].weight, "data") else None
    assert isinstance(net[:2], nn.Sequential) and net[:2][0] is net[0]


def test_layers_start_as_cpps_and_take_device_and_dtype():
    weft.manual_seed(7)
    a = nn.Linear(4, 3)
    weft.manual_seed(7)
    b = nn.Linear(4, 3, device="cpu", dtype=weft.float64)
    np.testing.assert_array_equal(a.weight.double().tolist(), b.weight.tolist())
    assert b.weight.dtype is weft.float64 and b.weight.requires_grad and b.weight.is_leaf
    bound = 0.5
    b.reset_parameters()
    assert b.weight.abs().max().item() <= bound and not (a.weight.double() == b.weight).all()
    for wrong in (lambda: nn.Linear(-1, 2), lambda: nn.Dropout(1.5), lambda: nn.Embedding(3, 2, padding_idx=3)):
        with pytest.raises(ValueError):
            wrong()
    assert nn.LayerNorm(3, bias=False).bias is None and F.layer_norm(weft.ones(2, 3), 3).shape == (2, 3)


def test_the_state_of_a_module_survives_strange_objects():
    class Odd:
        def __getattr__(self, name):
            raise RuntimeError("odd")

    strange = [None, 3, -1.5, "weight", "", "a.b", b"\xff", (), [1], {}, Odd(), object(), weft.ones(2), nn.Linear(1, 1),
               nn.Parameter(weft.ones(1)), lambda *_: None, weft.Tensor, float("nan"), 2**70]
    allowed = (TypeError, ValueError, AttributeError, RuntimeError, KeyError, IndexError)
    for name in dir(weft._core._Module):
        if name.startswith("__"):
            continue
        for s in strange:
            for arguments in ((), (s,), ("weight", s), (s, s), (s, "x", s), (s, True), (s, (), {})):
                module = nn.Linear(2, 2)
                try:
                    member = getattr(module._state, name)
                    if callable(member):
                        member(*arguments)
                    else:
                        setattr(module._state, name, s)
                except allowed:
                    pass
    assert nn.Linear(2, 2)(weft.ones(1, 2)).shape == (1, 2)


def test_modules_survive_strange_members():
    net = nn.Linear(2, 2)
    for name in ("weight", "new", "forward", "_state", "_hooks", "__class__", "training"):
        for value in (3, "a", [weft.ones(1)], weft.ones(2, 3)):
            try:
                setattr(nn.Linear(2, 2), name, value)
            except (TypeError, ValueError, AttributeError):
                pass
    with pytest.raises(KeyError):
        nn.ModuleDict({"a.b": nn.ReLU()})
    with pytest.raises(TypeError):
        nn.Sequential(3)
    with pytest.raises((TypeError, ValueError)):
        net.load_state_dict({"weight": 3, "bias": 4})
    with pytest.raises((TypeError, AttributeError)):
        net.load_state_dict(3)
    with pytest.raises((ValueError, RuntimeError)):
        net.to("nowhere")
    with pytest.raises(TypeError):
        net.to(weft.int64)


# ---- tying and replacing ----


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)

    def forward(self, x):
        return self.head(self.token(x))


def test_a_tied_parameter_is_one_in_all_that_a_module_gives():
    net, x = Reader(), weft.tensor([0, 3])
    net.head.weight = net.token.weight
    assert [name for name, _ in net.named_parameters()] == ["token.weight"]
    net(x).sum().backward()
    assert net.head.weight.grad is not None and (net.token.weight.grad[4] != 0).any()
    net.double()
    assert net.head.weight is net.token.weight and net(x).dtype is weft.float64
    other = Reader().double()
    other.head.weight = other.token.weight
    other.load_state_dict(net.state_dict())
    assert other.head.weight is other.token.weight and weft.equal(other(x), net(x))
    twin = copy.deepcopy(net)
    assert twin.head.weight is twin.token.weight is not net.token.weight and len(list(twin.parameters())) == 1
    optimizer = optim.SGD(net.parameters(), lr=1.0)
    before = net.token.weight.detach().clone()
    optimizer.step()
    assert not weft.equal(before, net.head.weight)
    net.zero_grad()
    assert net.head.weight.grad is None


@pytest.mark.parametrize("change", [
    lambda net: setattr(net, "2", nn.Linear(3, 4)), lambda net: net.__setitem__(2, nn.Linear(3, 4)),
    lambda net: net.__setitem__(-1, nn.Linear(3, 4)), lambda net: net.register_module("2", nn.Linear(3, 4)),
    lambda net: setattr(net[2], "weight", nn.Parameter(weft.ones(4, 3))) or setattr(net[2], "bias", None),
    lambda net: net[2].register_parameter("weight", nn.Parameter(weft.ones(4, 3))) or net[2].register_parameter("bias", None)])
def test_replaced_members_are_in_parameters_states_and_calls(change):
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)).eval()
    before = list(net.parameters())
    change(net)
    assert net(weft.ones(1, 2)).shape == (1, 4) and net.state_dict()["2.weight"].shape == (4, 3)
    assert net[2].weight is list(net.parameters())[2] and not any(net[2].weight is p for p in before)
    assert net.train()[2].training and net.half()[2].weight.dtype is weft.float16


def test_containers_replace_insert_and_take_out_modules():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    del net[1]
    assert [name for name, _ in net.named_parameters()] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    net.insert(1, nn.Tanh())
    assert isinstance(net[1], nn.Tanh) and net(weft.ones(1, 2)).shape == (1, 1)
    assert isinstance(net.pop(), nn.Linear) and len(net) == 2
    net += [nn.Linear(3, 5)]
    assert len(net + [nn.ReLU()]) == 4 and len(net) == 3
    layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    layers[1], layers[0].weight = nn.Linear(2, 7), layers[1].weight
    assert layers[1].weight.shape == (7, 2) and len(list(layers.parameters())) == 4
    layers[0:2] = [nn.ReLU()]
    assert len(layers) == 1 and not list(layers.parameters())
    named = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.ReLU()})
    named["a"] = nn.Linear(2, 3)
    named.update({"c": nn.Tanh()})
    assert list(named) == ["a", "b", "c"] and named.pop("a").out_features == 3
    del named["b"]
    assert not list(named.parameters()) and list(named) == ["c"]
    named.clear()
    assert len(named) == 0
    parameters = nn.ParameterList([weft.ones(2), weft.ones(3)])
    parameters[-1] = weft.zeros(5)
    parameters += [weft.ones(1)]
    assert [p.shape[0] for p in parameters.parameters()] == [2, 5, 1] and isinstance(parameters[1:], nn.ParameterList)
    parameters[0] = parameters[2]
    assert len(list(parameters.parameters())) == 2


@pytest.mark.parametrize("name, value", [("weight", weft.ones(5, 4)), ("weight", 3), ("weight", nn.Linear), ("head", weft.ones(2))])
def test_a_value_of_another_kind_is_refused(name, value):
    net = Reader()
    before = dict(net.named_parameters())
    with pytest.raises(TypeError, match="is registered"):
        setattr(net if name == "head" else net.head, name, value)
    assert all(p is before[path] for path, p in net.named_parameters())


def test_layers_that_compute_in_cpp_compute_with_the_parameters_that_are_assigned():
    block, x = nn.TransformerBlock(8, 2).eval(), weft.randn(1, 3, 8)
    y = block(x)
    block.down.weight = nn.Parameter(weft.zeros(*block.down.weight.shape))
    block.down.bias = nn.Parameter(weft.zeros(8))
    changed = block(x)
    assert not weft.equal(y, changed)
    block.attention.proj.weight = nn.Parameter(weft.zeros(8, 8))
    block.attention.proj.bias = None
    assert weft.equal(block(x), x) and "attention.proj.bias" not in block.state_dict()
    block.up.weight = nn.Parameter(block.down.weight.detach().t().contiguous())
    names = [name for name, _ in block.named_parameters()]
    with pytest.raises(ValueError, match="computes in C"):
        block.down = nn.Linear(32, 8)
    with pytest.raises(ValueError, match="computes in C"):
        del block.down
    assert [name for name, _ in block.named_parameters()] == names and weft.equal(block(x), x)


@pytest.mark.parametrize("make, match", [(nn.QuantizedLinear, "quantized"), (nn.LoRALinear, "adapted by LoRA")])
def test_a_weight_that_something_else_computes_is_not_replaced(make, match):
    layer = make(4, 4)
    before = list(layer.state_dict())
    with pytest.raises(ValueError, match=match):
        layer.weight = nn.Parameter(weft.ones(4, 4))
    assert list(layer.state_dict()) == before


def test_a_plain_tensor_that_two_names_share_stays_one_where_it_is_moved():
    net, table = nn.Sequential(nn.ReLU(), nn.ReLU()), weft.ones(2)
    for part in net:
        part.register_buffer("table", table)
    net.double()
    assert table.dtype is weft.float32 and net[0].table.dtype is weft.float64
    net[0].table.fill_(7)
    assert net[1].table.tolist() == [7, 7] and len(list(net.buffers())) == 1


def test_entries_of_the_registries_are_the_members():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    net._modules["0"] = nn.Linear(2, 4)
    assert net[0].out_features == 4 and net.state_dict()["0.weight"].shape == (4, 2)
    net[0]._parameters["bias"] = None
    assert net[0].bias is None and "0.bias" not in net.state_dict()
    net[1]._buffers["running_mean"] = weft.ones(2)
    assert net[1].running_mean.tolist() == net.state_dict()["1.running_mean"].tolist() == [1, 1]
    assert isinstance(net._modules.pop("1"), nn.BatchNorm1d) and len(net) == 1
    net._modules.update({"act": nn.ReLU()})
    assert [*net._modules] == ["0", "act"] and copy.deepcopy(net)[1] is not net[1]
    with pytest.raises(TypeError, match="one by one"):
        net._modules.clear()
    with pytest.raises(TypeError, match="expected Module"):
        net._modules["0"] = 3
    assert len(net) == 2


def test_containers_repeat_and_count_their_modules():
    two = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    four = 2 * two
    assert len(four) == 4 and four[2] is two[0] and len(list(four.children())) == 2
    two *= 2
    assert len(two) == 4 and [name for name, _ in two.named_children()] == ["0", "1"]
    with pytest.raises(ValueError, match="at least 1"):
        two * 0
    with pytest.raises(TypeError):
        two * 1.5
    with pytest.raises(IndexError):
        two.insert(9, nn.ReLU())
    assert list(nn.ModuleDict([("a", nn.ReLU())])) == ["a"]
    with pytest.raises(TypeError):
        nn.ParameterList().extend(weft.ones(2))


def test_names_of_members_that_exist_and_buffers_set_to_none():
    module = nn.Module()
    module.size = 3
    for name in ("size", "forward"):
        with pytest.raises(KeyError, match=name):
            module.register_buffer(name, weft.ones(1))
    module.register_buffer("mean", None, persistent=False)
    module.mean = weft.ones(2)
    assert [n for n, _ in module.named_buffers()] == ["mean"] and not module.state_dict()
    module.mean = None
    module.mean = weft.zeros(2)
    assert [n for n, _ in module.named_buffers()] == ["mean"] and not module.state_dict()


def test_extra_states_and_versions_of_states():
    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.count, self.inner = 0, nn.Linear(1, 1)

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    first, second = nn.Sequential(Counted()), nn.Sequential(Counted())
    first[0].count = 5
    state = first.state_dict()
    assert state["0._extra_state"] == {"count": 5} and state._metadata["0.inner"] == {"version": 1}
    second.load_state_dict(state)
    assert second[0].count == 5
    del state["0._extra_state"]
    with pytest.raises(RuntimeError, match="extra states missing"):
        second.load_state_dict(state)
    assert second.load_state_dict(state, strict=False).missing_keys == ["0._extra_state"]
    with pytest.raises(RuntimeError, match="unexpected"):
        nn.Linear(1, 1).load_state_dict(nn.Linear(1, 1).state_dict() | {"_extra_state": 1})
    with pytest.raises(TypeError, match="expected a dict"):
        second.load_state_dict([])


def test_hooks_of_all_modules():
    from weft.nn import _global_hooks as hooks

    seen = []
    handles = [hooks.register_module_forward_pre_hook(lambda m, args: seen.append(("before", type(m).__name__))),
               hooks.register_module_forward_hook(lambda m, args, output: output + 1),
               hooks.register_module_full_backward_hook(lambda m, gi, go: seen.append(("backward", type(m).__name__)))]
    net = nn.Sequential(nn.ReLU(), nn.Tanh())
    x = weft.zeros(2, requires_grad=True)
    y = net(x)
    assert weft.allclose(y, weft.tanh(weft.ones(2)) + 2) and [name for _, name in seen] == ["Sequential", "ReLU", "Tanh"]
    y.sum().backward()
    assert ("backward", "Tanh") in seen and ("backward", "ReLU") in seen
    for handle in handles:
        handle.remove()
    seen.clear()
    assert weft.equal(net(x), weft.zeros(2)) and not seen and nn.Module.__call__ is hooks._plain_call
