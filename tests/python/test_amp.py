"""Mixed precision and loss scaling under PyTorch's names."""

import pytest

import weft
from weft import nn


def test_products_run_in_16_bits_and_losses_in_32():
    x, w = weft.randn(3, 4), weft.randn(4, 2)
    with weft.autocast("cpu", dtype=weft.bfloat16):
        y = x @ w
        assert y.dtype == weft.bfloat16
        assert weft.softmax(y, 1).dtype == weft.float32
        assert weft.exp(y).dtype == weft.float32
        assert weft.relu(y).dtype == weft.bfloat16
        assert weft.is_autocast_enabled() and weft.get_autocast_dtype("cpu") == weft.bfloat16
        with weft.autocast("cpu", enabled=False):
            assert (x @ w).dtype == weft.float32
    assert (x @ w).dtype == weft.float32
    assert not weft.is_autocast_enabled() and weft.get_autocast_dtype() == weft.float32


def test_it_is_a_decorator_and_the_default_type_follows_the_device():
    @weft.autocast("cpu")
    def f(x):
        return (x @ x).dtype

    assert f(weft.ones(2, 2)) == weft.bfloat16
    assert weft.autocast("cuda").fast_dtype == weft.float16
    assert weft.amp.autocast is weft.autocast


def test_an_exception_ends_the_scope():
    with pytest.raises(ValueError):
        with weft.autocast():
            weft.ones(2, 3) @ weft.ones(2, 3)
    assert not weft.is_autocast_enabled()
    with pytest.raises(TypeError):
        weft.autocast(dtype=weft.float32).__enter__()
    with pytest.raises(TypeError):
        weft.autocast(3)


def test_a_module_trains_with_a_scaler_in_float16():
    weft.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = weft.optim.SGD(net.parameters(), lr=0.1)
    scaler = weft.amp.GradScaler(init_scale=1024.0)
    x = weft.randn(32, 4)
    y = x.sum(1, keepdim=True) * 0.3
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        with weft.autocast("cpu", dtype=weft.float16):
            loss = nn.functional.mse_loss(net(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


def test_a_scaler_passes_over_infinite_gradients_and_its_state_is_kept():
    w = weft.ones(2, requires_grad=True)
    optimizer = weft.optim.SGD([w], lr=1.0)
    scaler = weft.amp.GradScaler(init_scale=16.0, growth_interval=2)
    scaler.scale((w * float("inf")).sum()).backward()
    assert scaler.step(optimizer) is None
    scaler.update()
    assert scaler.get_scale() == 8.0 and w.tolist() == [1.0, 1.0]
    optimizer.zero_grad()
    scaler.scale(w.sum()).backward()
    assert scaler.step(optimizer, lambda: 5) == 5
    scaler.update()
    state = scaler.state_dict()
    assert state == {"scale": 8.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2,
                     "_growth_tracker": 1}
    other = weft.amp.GradScaler()
    other.load_state_dict(state)
    assert other.state_dict() == state
    with pytest.raises(ValueError):
        other.load_state_dict({"scale": 1.0})
    with pytest.raises(ValueError):
        scaler.update()
    off = weft.amp.GradScaler(enabled=False)
    assert off.state_dict() == {} and off.get_scale() == 1.0 and off.scale(w).tolist() == w.tolist()
    off.step(optimizer)
    off.update()


def test_the_scaler_takes_optimizers_written_in_python():
    class Plain(weft.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 1.0})

        @weft.no_grad()
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    p.sub_(p.grad, alpha=group["lr"])

    w = weft.nn.Parameter(weft.tensor([3.0]))
    optimizer, scaler = Plain([w]), weft.amp.GradScaler(init_scale=4.0, growth_interval=1)
    scaler.scale((2 * w).sum()).backward()
    scaler.unscale_(optimizer)
    assert w.grad.item() == 2
    scaler.step(optimizer), scaler.update()
    assert w.item() == 1 and scaler.get_scale() == 8
    w.grad = weft.tensor([float("inf")])
    scaler.step(optimizer), scaler.update()
    assert w.item() == 1 and scaler.get_scale() == 4
