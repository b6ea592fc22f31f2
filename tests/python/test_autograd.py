"""Gradients, hooks, functions written in Python, threads."""

import gc
import threading
import warnings
import weakref

import pytest

import weft
from weft import autograd


def leaf(*values):
    return weft.tensor(values, dtype=weft.float64, requires_grad=True)


def test_backward_and_grad():
    x = leaf(2.0, 3.0)
    (x * x).sum().backward()
    assert x.grad.tolist() == [4, 6]
    x.grad = None
    y = x**3
    y.backward(weft.tensor([1.0, 0.5], dtype=weft.float64), retain_graph=True)
    assert x.grad.tolist() == [12, 13.5]
    (g,) = autograd.grad(y.sum(), x, create_graph=True)
    (h,) = autograd.grad(g.sum(), [x])
    assert h.tolist() == [12, 18]
    assert autograd.grad(x.sum(), [leaf(1.0)], allow_unused=True) == (None,)
    with pytest.raises(RuntimeError):
        autograd.grad(x.sum(), [leaf(1.0)])
    with pytest.raises(TypeError, match="gradient"):
        y.backward(3)
    with pytest.raises(TypeError, match="'outputs'"):
        autograd.grad([1], x)
    autograd.backward([x.sum(), (2 * x).sum()])
    assert x.grad.tolist() == [15, 16.5]


def test_grad_fn_names_the_op_and_the_line():
    y = leaf(1.0) * 2
    assert y.grad_fn.name() == "mul" and y.grad_fn.file.endswith("test_autograd.py") and y.grad_fn.line > 10
    assert "mul at" in repr(y.grad_fn)


def test_errors_of_backward_name_the_forward_line():
    x = leaf(1.0)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"exp(.|\n)*test_autograd.py:\d+"):
        y.sum().backward()


def test_modes():
    x = leaf(1.0)
    with weft.no_grad():
        assert not (x * 2).requires_grad and not weft.is_grad_enabled()
        with weft.enable_grad():
            assert (x * 2).requires_grad
    assert weft.is_grad_enabled()

    @weft.no_grad()
    def f():
        return x * 2

    @weft.no_grad
    def g():
        return x * 2

    assert not f().requires_grad and not g().requires_grad and weft.is_grad_enabled()
    with weft.inference_mode():
        assert weft.is_inference_mode_enabled()
        y = weft.ones(1)
    assert not weft.is_inference_mode_enabled() and y.item() == 1
    with pytest.raises(ZeroDivisionError):
        with weft.no_grad():
            1 / 0
    assert weft.is_grad_enabled()
    with weft.set_grad_enabled(False):
        assert not weft.is_grad_enabled()
    assert weft.is_grad_enabled()
    seen = []
    with weft.no_grad():
        t = threading.Thread(target=lambda: seen.append(weft.is_grad_enabled()))
        t.start()
        t.join()
    assert seen == [True]


def test_hooks_run_in_order_replace_and_go():
    x = leaf(1.0, 2.0)
    y = x * 3
    order = []
    y.register_hook(lambda g: order.append("a"))
    h = y.register_hook(lambda g: g * 2)
    y.register_hook(lambda g: order.append(g.tolist()))
    x.register_post_accumulate_grad_hook(lambda p: order.append(p.grad.tolist()))
    y.sum().backward(retain_graph=True)
    assert order == ["a", [2, 2], [6, 6]]
    assert h.remove() and not h.remove()
    x.grad = None
    y.sum().backward()
    assert order[3:] == ["a", [1, 1], [3, 3]]
    with pytest.raises(TypeError, match="callable"):
        x.register_hook(3)
    with pytest.raises(ValueError):
        weft.ones(1).register_hook(print)


def test_hooks_may_remove_themselves_and_are_freed():
    class Hook:
        def __call__(self, g):
            self.handle.remove()

    x = leaf(1.0)
    hook = Hook()
    hook.handle = x.register_hook(hook)
    gone = weakref.ref(hook)
    del hook
    x.sum().backward()
    weft.live_tensors()
    gc.collect()
    assert gone() is None


def test_errors_in_hooks_reach_the_caller_with_their_traceback():
    def fail(g):
        raise KeyError("from the hook")

    x = leaf(1.0)
    x.register_hook(fail)
    with pytest.raises(KeyError, match="from the hook") as error:
        (x * 2).sum().backward()
    assert any(entry.name == "fail" for entry in error.traceback)
    y = leaf(1.0)
    y.register_hook(lambda g: "no tensor")
    with pytest.raises(TypeError, match="result of a hook"):
        y.sum().backward()
    z = leaf(1.0, 2.0)
    z.register_hook(lambda g: weft.ones(3, dtype=weft.float64))
    with pytest.raises(ValueError):
        z.sum().backward()


def test_node_hooks_see_the_event():
    x = leaf(2.0)
    y = x * x
    seen = []
    y.register_node_pre_hook(lambda e: seen.append((e.op, e.phase, e.incoming[0].tolist())))
    y.register_node_post_hook(lambda e: seen.append((e.phase, e.file.endswith("test_autograd.py"))))
    y.sum().backward()
    assert seen == [("mul", "node_before", [1]), ("node_after", True)]


class Cube(autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * x * scale

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g * x * x * ctx.scale, None


def test_functions_written_in_python():
    x = leaf(1.0, 2.0)
    y = Cube.apply(x, 2.0)
    assert y.tolist() == [2, 16] and y.requires_grad and y.grad_fn.name() == "Cube"
    y.sum().backward()
    assert x.grad.tolist() == [6, 24]
    assert autograd.gradcheck(lambda t: Cube.apply(t, 0.5), [leaf(0.3, 0.7)])
    assert autograd.gradgradcheck(lambda t: Cube.apply(t, 0.5), [leaf(0.3, 0.7)])
    assert not Cube.apply(weft.ones(1), 1.0).requires_grad
    with weft.no_grad():
        assert not Cube.apply(x, 1.0).requires_grad


def test_functions_with_several_outputs_and_needs():
    class Two(autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            assert ctx.needs_input_grad == (True, False)
            out = a + b
            ctx.mark_non_differentiable(b2 := b * 2)
            return out, b2

        @staticmethod
        def backward(ctx, g, _):
            return g, None

    a = leaf(1.0)
    out, other = Two.apply(a, weft.ones(1, dtype=weft.float64))
    assert out.requires_grad and not other.requires_grad
    out.sum().backward()
    assert a.grad.tolist() == [1]


def test_functions_that_write_into_their_input():
    class Double(autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(x)
            x.mul_(2)
            return x, x + y

        @staticmethod
        def backward(ctx, g, h):
            return 2 * (g + h), h

    x, other = leaf(1.0, 2.0), leaf(5.0, 6.0)
    y = x * 3
    old = y * y
    z, total = Double.apply(y, other)
    assert z is y and y.tolist() == [6, 12] and total.tolist() == [11, 18] and y.grad_fn.name() == "Double"
    (y.sum() + total.sum()).backward()
    assert x.grad.tolist() == [12, 12] and other.grad.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="modified by an in-place"):
        old.sum().backward()
    whole = x * 1
    x.grad = None
    Double.apply(whole[1:], other[1:])
    whole.sum().backward()
    assert x.grad.tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="leaf"):
        Double.apply(x, other)
    with weft.no_grad():
        assert Double.apply(x, other)[0] is x

    class Lost(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x * 2

    with pytest.raises(ValueError, match="dirty"):
        Lost.apply(leaf(1.0) * 1)


def test_functions_that_misbehave():
    def function(forward, backward):
        return type("Odd", (autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})

    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="apply"):
        function(lambda ctx, x: x, None)()(x)
    for wrong, kind in [(lambda ctx, g: "a", TypeError), (lambda ctx, g: (g, g), RuntimeError),
                        (lambda ctx, g: weft.ones(5, dtype=weft.float64), ValueError),
                        (lambda ctx, g: 1 / 0, ZeroDivisionError)]:
        with pytest.raises(kind):
            function(lambda ctx, x: x * 2, wrong).apply(x).sum().backward()
    with pytest.raises(NotImplementedError):
        autograd.Function.apply(x)


def test_results_of_a_function_that_are_no_tensors():
    class Parts(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 3, x * 2, "text"

        @staticmethod
        def backward(ctx, first, gradient, last):
            assert first is None and last is None
            return gradient * 2

    x = leaf(1.0)
    number, y, text = Parts.apply(x)
    assert (number, text) == (3, "text")
    y.backward()
    assert x.grad.item() == 2
    assert type("Number", (autograd.Function,), {"forward": staticmethod(lambda ctx, x: 3)}).apply(x) == 3


def test_nodes_of_the_graph_name_their_ops_and_lead_to_leaves():
    x = leaf(2.0)
    y = x * x + 1
    node = y.grad_fn
    assert type(node).__name__ == "AddBackward0" and node == y.grad_fn and hash(node) == hash(y.grad_fn) and node != 3
    product = node.next_functions[0][0]
    assert type(product).__name__ == "MulBackward0"
    leaf_node = product.next_functions[0][0]
    assert leaf_node.name() == "AccumulateGrad" and leaf_node.variable is x
    seen = []
    node.register_prehook(lambda gradients: seen.append(("before", gradients[0].item())))
    handle = node.register_hook(lambda inputs, outputs: seen.append(("after", inputs[0].item(), outputs[0].item())))
    y.backward()
    handle.remove()
    assert seen == [("before", 1), ("after", 1, 1)]
    with pytest.raises(NotImplementedError, match="alive"):
        product.register_hook(print)


def test_saved_tensors_are_packed_and_unpacked():
    from weft._graph_nodes import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks

    x, packed = leaf(3.0), []
    with saved_tensors_hooks(lambda t: packed.append(t) or ("packed", t.item()), lambda p: weft.tensor([p[1]], dtype=x.dtype)):
        y = x * x
    y.backward()
    assert x.grad.item() == 6 and packed
    with save_on_cpu():
        y = x.exp()
    y.backward()
    with saved_tensors_hooks(lambda t: t, lambda t: "wrong"):
        y = x * x
    with pytest.raises(TypeError, match="unpack_hook"):
        y.backward()
    with disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
        with saved_tensors_hooks(lambda t: t, lambda t: t):
            pass


def test_seeds_take_the_dtype_of_their_outputs_and_results_get_gradients():
    x = leaf(2.0)
    (x * 3).backward(weft.ones(1, dtype=weft.float32))
    assert x.grad.item() == 3 and autograd.grad(x * 2, x, weft.ones(1, dtype=weft.int64))[0].item() == 2
    middle = x * 2
    (middle * middle).backward(inputs=[middle])
    assert middle.grad.item() == 8 and x.grad.item() == 3


def test_vjp_is_a_name_of_backward():
    class Twice(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, gradient):
            return gradient * 2

    x = leaf(1.0)
    Twice.apply(x).backward()
    assert x.grad.item() == 2
    Twice.backward = staticmethod(lambda ctx, gradient: gradient)
    with pytest.raises(RuntimeError, match="both"):
        Twice.apply(x).backward()


def test_a_function_with_jvp_alone_is_differentiated():
    class Scaled(autograd.Function):
        @staticmethod
        def forward(ctx, x, factor, y):
            ctx.factor = factor
            return x * factor + y

        @staticmethod
        def jvp(ctx, x, factor, y):
            return x * ctx.factor + y

    x, y = leaf(1.0), leaf(2.0)
    Scaled.apply(x, 3, y).sum().backward()
    assert x.grad.item() == 3 and y.grad.item() == 1


def test_gradients_of_many_seeds_and_of_unused_inputs():
    x, other = leaf(1.0), leaf(2.0)
    y = weft.cat([x * 2, x * 3])
    rows, = autograd.grad(y, x, weft.eye(2, dtype=x.dtype), is_grads_batched=True, retain_graph=True)
    assert rows.tolist() == [[2], [3]]
    assert autograd.grad(y.sum(), (x, other), materialize_grads=True, retain_graph=True)[1].item() == 0
    with pytest.raises(ValueError, match="at least one"):
        autograd.grad(y.sum(), ())


def test_modes_in_generators_hold_while_their_code_runs():
    @weft.no_grad()
    def numbers():
        received = yield weft.is_grad_enabled()
        try:
            yield received, weft.is_grad_enabled()
        except KeyError:
            yield "thrown", weft.is_grad_enabled()
        return "end"

    made = numbers()
    assert next(made) is False and weft.is_grad_enabled()
    assert made.send("sent") == ("sent", False) and weft.is_grad_enabled()
    assert made.throw(KeyError()) == ("thrown", False)
    with pytest.raises(StopIteration, match="end"):
        next(made)


def test_contexts_and_graphs_leak_nothing():
    gc.collect()
    before = weft.live_tensors()
    for _ in range(50):
        x = leaf(1.0)
        y = Cube.apply(x, 2.0)
        y.register_hook(lambda g, y=y: None)
        y.sum().backward()
    del x, y
    gc.collect()
    assert weft.live_tensors() == before


def test_gradcheck_finds_a_wrong_gradient():
    class Wrong(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    assert not autograd.gradcheck(Wrong.apply, [leaf(1.0)], raise_exception=False)
    with pytest.raises(RuntimeError):
        autograd.gradcheck(Wrong.apply, [leaf(1.0)])
    with pytest.raises(TypeError):
        autograd.gradcheck(3, [leaf(1.0)])


def test_threads_with_hooks_run_without_deadlock():
    w = leaf(*range(8))
    calls, errors = [], []

    def work():
        try:
            for _ in range(50):
                y = (w * 2).exp()
                handle = y.register_hook(lambda g: calls.append(1))
                y.sum().backward()
                handle.remove()
        except BaseException as e:  # noqa: B902
            errors.append(e)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads), "deadlock"
    assert not errors and len(calls) == 200


def test_other_threads_run_during_backward_and_large_ops():
    ticks, stop = [0], threading.Event()

    def tick():
        while not stop.is_set():
            ticks[0] += 1

    t = threading.Thread(target=tick)
    t.start()
    x = weft.randn(600, 600)
    start = ticks[0]
    for _ in range(20):
        x @ x
    stop.set()
    t.join()
    assert ticks[0] > start


def test_hooks_of_python_and_of_cpp_stand_in_one_list():
    # retain_grad and the recorder are hooks written in C++.
    x = leaf(1.0)
    y = x * 1
    first = y.register_hook(lambda g: g * 10)
    y.retain_grad()
    y.register_hook(lambda g: g * 5)
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [50]
    assert first.remove()
    x.grad = y.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [5]

    p, order = leaf(2.0), []
    a = p.register_post_accumulate_grad_hook(lambda t: order.append(("before", t.grad.item())))
    recorder = weft.hooks.GradientRecorder({"p": p})
    p.register_post_accumulate_grad_hook(lambda t: (order.append("after"), t.grad.mul_(0))[0])
    p.sum().backward()
    recorder.step()
    assert order == [("before", 1), "after"] and p.grad.tolist() == [0]
    assert '"norm":1,' in recorder.json_lines()[0]  # it looked between the two
    assert a.remove()
    p.sum().backward()
    assert order[2:] == ["after"]


def test_hooks_on_one_tensor_from_several_threads():
    """Threads register, run backward and remove on one leaf, while another thread does Python work and collects."""
    w = leaf(*range(4))
    stop, errors, calls = threading.Event(), [], []

    def guarded(f):
        def run():
            try:
                f()
            except BaseException as e:  # noqa: B902
                errors.append(e)

        return threading.Thread(target=run, daemon=True)

    def work():
        for i in range(60):
            handle = w.register_hook(lambda g: (calls.append(1), weft.ones(1).exp_(), None)[2])
            post = w.register_post_accumulate_grad_hook(lambda t: None)
            (w * i).sum().backward()
            handle.remove()
            post.remove()

    def collect():
        while not stop.is_set():
            gc.collect()

    workers, collector = [guarded(work) for _ in range(4)], guarded(collect)
    for t in [*workers, collector]:
        t.start()
    for t in workers:
        t.join(120)
    stop.set()
    collector.join(60)
    assert not any(t.is_alive() for t in [*workers, collector]), "deadlock"
    assert not errors and len(calls) >= 240
    w.grad = None
    w.sum().backward()
    assert w.grad.tolist() == [1, 1, 1, 1]


def test_the_gradient_of_a_result_that_retains_none_warns():
    w = weft.ones(2, requires_grad=True)
    (w * w).sum().backward()
    w = w - 0.1 * w.grad
    with pytest.warns(UserWarning, match=r"no leaf[\s\S]*retain_grad\(\)"):
        assert w.grad is None
    kept = w * 2
    kept.retain_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kept.grad is None and weft.ones(2).grad is None


def hooked_leaf(register, make):
    w = make()
    getattr(w, register)(lambda given: w * 0 if register == "register_hook" else None)
    (w * 2).sum().backward()
    return weakref.ref(w)


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
@pytest.mark.parametrize("make", [lambda: weft.ones(2, requires_grad=True), lambda: weft.ones(2).requires_grad_(),
                                  lambda: weft.nn.Parameter(weft.ones(2))])
def test_a_leaf_in_its_own_hook_is_collected(register, make):
    leaf = hooked_leaf(register, make)
    gc.collect()
    assert leaf() is None


def test_a_hook_of_a_leaf_in_a_cycle_lives_as_long_as_the_leaf_is_used():
    calls = []

    def graph():
        w = weft.ones(2, requires_grad=True)
        w.register_hook(lambda g: calls.append(w.sum().item()))
        return (w * 2).sum(), [w.detach(), w][1:]

    loss, held = graph()
    gc.collect()
    loss.backward()
    loss, held = graph()
    del held
    gc.collect()
    loss.backward()
    assert calls == [2.0, 2.0]


@pytest.mark.parametrize("result", [lambda w: w * 2, lambda w: w.exp(), lambda w: w[1:], lambda w: w.detach().requires_grad_()])
def test_a_result_in_its_own_hook_is_collected_without_backward(result):
    def make():
        y = result(weft.ones(2, requires_grad=True))
        y.register_hook(lambda g: y * 0)
        return weakref.ref(y)

    y = make()
    gc.collect()
    assert y() is None


@pytest.mark.parametrize("result", [lambda w: w, lambda w: w * 2])
def test_a_hook_outlives_a_cycle_that_held_its_tensor(result):
    """The collector frees the Python object; the graph still owns the tensor and its hooks."""
    calls = []

    def graph():
        y = result(weft.ones(2, requires_grad=True))
        y.register_hook(lambda g: calls.append(g.tolist()))
        held = [y]
        held.append(held)
        return (y * 3).sum()

    loss = graph()
    gc.collect()
    loss.backward()
    assert calls == [[3.0, 3.0]]


def test_views_keep_hooks_and_retained_gradients_when_their_base_is_written():
    for view in (lambda x: x[1:], lambda x: x[1:][0], lambda x: x.t(), lambda x: x.unbind()[1], lambda x: x.view(9)):
        for write in (lambda x: x.__setitem__(0, 1), lambda x: x.mul_(2), lambda x: x.__setitem__(x > 5, 1),
                      lambda x: x.detach().add_(1)):
            x, sums = weft.ones(3, 3, requires_grad=True) * 1, []
            y = view(x)
            y.register_hook(lambda g: sums.append(g.sum().item()))
            y.retain_grad()
            write(x)
            y.sum().backward()
            assert sums == [y.numel()] and y.grad.tolist() == weft.ones_like(y).tolist()
