"""A tensor that Python holds is one object: identity, attributes, dict keys and weak references."""

import copy
import gc
import threading
import weakref

import pytest

import weft
from weft import nn


class Marked(weft.Tensor):
    pass


def test_properties_give_the_same_object():
    w = weft.ones(2, requires_grad=True)
    (w * w).sum().backward()
    assert w.grad is w.grad
    grad = w.grad
    w.grad.zero_()
    assert w.grad is grad and grad.tolist() == [0.0, 0.0]


def test_optimizers_give_the_parameters_themselves():
    net = nn.Linear(2, 2)
    optimizer = weft.optim.SGD(net.parameters(), lr=0.1)
    given = optimizer.param_groups[0]["params"]
    assert given[0] is net.weight and given[1] is net.bias
    assert isinstance(given[0], nn.Parameter)


def test_hooks_get_the_leaf_itself():
    net, met = nn.Linear(2, 1), []
    optimizers = {p: weft.optim.SGD([p], lr=0.5) for p in net.parameters()}

    def update(p):
        met.append(p)
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in net.parameters():
        p.register_post_accumulate_grad_hook(update)
    before = net.weight.tolist()
    net(weft.ones(1, 2)).sum().backward()
    assert {id(p) for p in met} == {id(net.weight), id(net.bias)}
    assert net.weight.tolist() == [[x - 0.5 for x in before[0]]]


def test_saved_tensors_are_the_inputs():
    class Square(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            met.extend(ctx.saved_tensors)
            return 2 * ctx.saved_tensors[0] * gradient, None

    met, x, y = [], weft.ones(2, requires_grad=True), weft.zeros(3)
    Square.apply(x, y).sum().backward()
    assert met[0] is x and met[1] is y


def test_ops_that_return_their_argument_return_its_object():
    x = Marked([1.0, 2.0])
    assert x.contiguous() is x and x.to("cpu") is x and x.add_(1) is x and x.requires_grad_() is x
    assert type(x.mul_(2) if not x.requires_grad else x) is Marked


def test_attributes_stay_while_the_object_lives():
    net = nn.Linear(2, 2)
    net.weight.mark = "mine"
    assert next(iter(net.parameters())).mark == "mine"
    assert dict(net.named_parameters())["weight"].mark == "mine"


def test_an_object_ends_with_its_last_reference():
    x = weft.ones(2, requires_grad=True)
    y = (x * 2).sum()
    seen = weakref.ref(x)
    del x
    assert seen() is None
    y.backward()


def test_a_parameter_takes_the_place_of_a_plain_object():
    data = weft.ones(2)
    p = nn.Parameter(data)
    assert p is not data and isinstance(p, nn.Parameter)
    holder = nn.Module()
    holder.p = p
    assert holder.p is p and next(holder.parameters()) is p


def test_a_copy_is_another_object():
    x = weft.ones(2)
    for other in (copy.copy(x), copy.deepcopy(x), x.clone(), x.detach(), x.view(2), x[:]):
        assert other is not x


def test_an_object_that_is_asked_for_while_it_ends():
    """The callback of a weak reference runs Python code while the object is destroyed."""
    x = weft.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    found = []
    grad = x.grad
    ended = weakref.ref(grad, lambda _: found.append(x.grad.tolist()))
    del grad
    gc.collect()
    assert ended() is None and found == [[2.0, 2.0]] and x.grad.tolist() == [2.0, 2.0]


def test_threads_see_one_object():
    x = weft.ones(4, requires_grad=True)
    (x * 2).sum().backward()
    met = []

    def look():
        for _ in range(2000):
            met.append(x.grad is x.grad)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(met) and len(met) == 8000


@pytest.mark.parametrize("make", [lambda: weft.ones(2), lambda: nn.Parameter(weft.ones(2)), lambda: Marked([1.0])])
def test_results_do_not_keep_objects(make):
    live = weft._core.live_tensors() if hasattr(weft._core, "live_tensors") else None
    for _ in range(100):
        x = make()
        x.view(-1).sum()
    del x
    gc.collect()
    assert live is None or weft._core.live_tensors() <= live + 1
