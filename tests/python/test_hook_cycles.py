"""A parameter's hook may hold its module or its optimizer: the cycle is collected, and only when nothing else holds it."""

import gc
import weakref

import pytest

import weft
from weft import nn, optim


def collect():
    weft._core.live_tensors()  # drops what C++ has released since the last call
    gc.collect()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        self.scale = nn.Parameter(weft.ones(2))
        self.seen = []

    def forward(self, x):
        return self.body(x) * self.scale


def hooked(net):
    """Every parameter gets a hook that holds the whole net."""
    for p in net.parameters():
        p.register_hook(lambda g: net.seen.append(1))
    return net


def makers():
    def layer(cls, *args, **kwargs):
        return lambda: with_list(cls(*args, **kwargs))

    def with_list(module):
        module.seen = []
        return module

    return {
        "own class": Net,
        "Linear": layer(nn.Linear, 3, 2),
        "Conv2d": layer(nn.Conv2d, 3, 2, 3),
        "BatchNorm1d": layer(nn.BatchNorm1d, 3),
        "Embedding": layer(nn.Embedding, 3, 2),
        "LSTM": layer(nn.LSTM, 3, 2),
        "MultiheadAttention": layer(nn.MultiheadAttention, 4, 2),
        "TransformerEncoderLayer": layer(nn.TransformerEncoderLayer, 4, 2, 8),
        "ModuleList": lambda: with_list(nn.ModuleList([nn.Linear(3, 2), nn.Linear(2, 2)])),
        "ModuleDict": lambda: with_list(nn.ModuleDict({"a": nn.Linear(3, 2)})),
        "nested": lambda: with_list(nn.Sequential(nn.Sequential(nn.Linear(3, 2)), Net())),
    }


@pytest.mark.parametrize("name", makers())
def test_a_hook_that_holds_the_module_is_collected(name):
    net = hooked(makers()[name]())
    tensors = [weakref.ref(p) for p in net.parameters()]
    module = weakref.ref(net)
    del net
    collect()
    assert module() is None and all(t() is None for t in tensors)


@pytest.mark.parametrize("kind", ["SGD", "AdamW", "LBFGS", "Adafactor"])
def test_a_hook_that_holds_the_optimizer_is_collected(kind):
    net = Net()
    optimizer = getattr(optim, kind)(net.parameters(), lr=0.1)
    for p in net.parameters():
        p.register_post_accumulate_grad_hook(lambda p: optimizer.zero_grad())
    net(weft.ones(1, 3)).sum().backward()
    refs = [weakref.ref(net), weakref.ref(optimizer), weakref.ref(net.scale)]
    del net, optimizer
    collect()
    assert [r() for r in refs] == [None] * 3


def test_an_optimizer_for_each_parameter_is_collected():
    net = Net()
    optimizers = {p: optim.SGD([p], lr=0.1) for p in net.parameters()}

    def update(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in net.parameters():
        p.register_post_accumulate_grad_hook(update)
    net(weft.ones(1, 3)).sum().backward()
    refs = [weakref.ref(o) for o in optimizers.values()] + [weakref.ref(net)]
    del net, optimizers, update, p
    collect()
    assert all(r() is None for r in refs)


def runs(p, calls):
    before = len(calls)
    (p * 1).sum().backward()
    return len(calls) - before


def test_the_hook_runs_while_the_parameter_is_held():
    net = hooked(Net())
    p, calls, module = net.scale, net.seen, weakref.ref(net)
    del net
    collect()
    assert module() is not None and runs(p, calls) == 1
    del p
    collect()
    assert module() is None


def test_the_hook_runs_while_the_optimizer_is_held():
    net = hooked(Net())
    optimizer, calls, module = optim.SGD(net.parameters(), lr=0.1), net.seen, weakref.ref(net)
    del net
    collect()
    assert module() is not None
    assert runs(optimizer.param_groups[0]["params"][0], calls) == 1
    del optimizer
    collect()
    assert module() is None


@pytest.mark.parametrize("holder", ["parent", "list", "averaged", "recorder", "view", "graph"])
def test_the_hook_runs_while_something_else_holds_the_tensors(holder):
    net = hooked(Net())
    calls, module = net.seen, weakref.ref(net)
    if holder == "parent":
        other = nn.Sequential(net)
        read = lambda: other[0].scale  # noqa: E731
    elif holder == "list":
        other = nn.ModuleList([net])
        read = lambda: other[0].scale  # noqa: E731
    elif holder == "averaged":
        other = nn.ParameterList([net.scale])
        read = lambda: other[0]  # noqa: E731
    elif holder == "recorder":
        other = weft.hooks.GradientRecorder(net)
        read = lambda: None  # noqa: E731
    elif holder == "view":
        other = net.scale[0:1]
        read = lambda: other  # noqa: E731
    else:
        other = net(weft.ones(1, 3)).sum()
        read = lambda: None  # noqa: E731
    del net
    collect()
    if holder == "graph":
        other.backward()
        assert len(calls) == 5 and module() is not None
    elif holder == "view":
        assert runs(read(), calls) == 1
    elif read() is not None:
        assert runs(read(), calls) == 1
    del other, read
    collect()
    if holder != "recorder":
        collect()
        assert module() is None


def test_a_replaced_parameter_counts_no_more():
    net = hooked(Net())
    old, calls = net.scale, net.seen
    net.scale = nn.Parameter(weft.zeros(2))
    collect()
    assert runs(old, calls) == 1
    module = weakref.ref(net)
    del net
    collect()
    assert module() is not None and runs(old, calls) == 1
    del old
    collect()
    assert module() is None


def test_shared_parameters_are_collected():
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)
    b.weight = a.weight
    net = nn.Sequential(a, b)
    net.seen = []
    hooked(net)
    module, weight = weakref.ref(net), weakref.ref(a.weight)
    del net, a, b
    collect()
    assert module() is None and weight() is None


def test_many_rounds_need_no_more_memory():
    def one():
        net = hooked(Net())
        optimizer = optim.AdamW(net.parameters())
        net.body[0].weight.register_hook(lambda g: optimizer.zero_grad())
        net(weft.ones(1, 3)).sum().backward()
        optimizer.step()

    one()
    collect()
    before = weft._core.live_tensors()
    for _ in range(20):
        one()
    collect()
    assert weft._core.live_tensors() == before
