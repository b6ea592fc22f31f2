"""Captured steps in Python."""

import pytest

import weft
from weft import nn, optim


def train(wrap, steps=20):
    weft.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
    optimizer = optim.AdamW(net.parameters(), lr=0.01)

    @wrap
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    losses = []
    for i in range(steps):
        x = weft.randn(5 if i % 7 == 6 else 8, 4)
        losses.append(step(x, x.square().sum(1, keepdim=True)).item())
    return losses, step


def test_replays_have_the_bits_of_the_eager_step():
    eager, _ = train(lambda step: step)
    captured, step = train(weft.capture)
    assert captured == eager
    assert step.stats()["replayed"] == 20 - step.stats()["eager"] > 10


def test_results_come_as_the_step_returns_them():
    one, several, nothing = weft.capture(lambda x: x + 1), weft.capture(lambda x: (x, x * 2)), weft.capture(lambda x: None)
    for i in range(5):
        x = weft.full((2,), float(i))
        assert one(x).tolist() == [i + 1.0] * 2
        assert [t.tolist() for t in several(x)] == [[float(i)] * 2, [2.0 * i] * 2]
        assert nothing(x) is None


def test_host_reads_raise_with_their_line():
    for step in (lambda x: x * x.sum().item(), lambda x: weft.tensor(x.tolist()), lambda x: x + x.numpy().sum()):
        captured = weft.capture(step)
        with pytest.raises(NotImplementedError, match="cannot be replayed"):
            for _ in range(4):
                captured(weft.ones(2))


def test_an_error_of_the_step_comes_through():
    def step(x):
        raise KeyError("of the program's own")

    captured = weft.capture(step)
    for _ in range(3):
        with pytest.raises(KeyError):
            captured(weft.ones(2))
    with pytest.raises(TypeError):
        captured(3)


def test_forgetting_gives_the_memory_back():
    captured = weft.capture(lambda x: (x + 1).exp())
    for _ in range(4):
        captured(weft.ones(1000))
    assert captured.stats()["bytes"] > 0
    captured.forget()
    assert captured.stats()["bytes"] == 0
    del captured


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.drop, self.scale = nn.Linear(4, 4), nn.Dropout(0.5), 1.0
        self.act = nn.ReLU()

    def forward(self, x):
        return self.drop(self.act(self.lin(x))) * self.scale * GLOBAL_SCALE * Options.scale


class Options:
    scale = 1.0


GLOBAL_SCALE = 1.0


def compare(change, steps=20):
    """Losses and parameters of a training with change(i, parts) before each step, eagerly and captured."""
    results = []
    for wrap in (lambda step: step, weft.capture):
        weft.manual_seed(1)
        net = Scaled()
        optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        factor, options, parts = 1.0, {"power": 1}, {"net": net, "optimizer": optimizer}

        @wrap
        def step(x):
            optimizer.zero_grad()
            loss = (net(x) ** options["power"]).square().mean() * factor
            loss.backward()
            optimizer.step()
            return loss

        losses = []
        for i in range(steps):
            factor = change(i, parts) or 1.0
            options["power"] = parts.get("power", 1)
            losses.append(step(weft.full((3, 4), 0.1 * i)).item())
        results.append(losses + [v for p in net.parameters() for v in p.flatten().tolist()])
        Options.scale, globals()["GLOBAL_SCALE"] = 1.0, 1.0
    assert results[0] == results[1]
    return step.stats()


def on(i):
    return 6 <= i < 14


def hooked(i, parts, register):
    if i == 6:
        parts["handle"] = register()
    if i == 14:
        parts["handle"].remove()


changes = {
    "mode": lambda i, p: p["net"].train(not on(i)) and None,
    "mode of a layer": lambda i, p: setattr(p["net"].drop, "training", not on(i)),
    "option of a layer": lambda i, p: setattr(p["net"].drop, "p", 0.9 if on(i) else 0.5),
    "attribute": lambda i, p: setattr(p["net"], "scale", 2.0 if on(i) else 1.0),
    "layer": lambda i, p: setattr(p["net"], "act", nn.Tanh()) if i == 6 else None,
    "layer with parameters": lambda i, p: setattr(p["net"], "lin", p.setdefault("lin", nn.Linear(4, 4))) if i == 6 else None,
    "forward hook": lambda i, p: hooked(i, p, lambda: p["net"].lin.register_forward_hook(lambda m, x, y: y * 3)),
    "pre-hook": lambda i, p: hooked(i, p, lambda: p["net"].register_forward_pre_hook(lambda m, x: (x[0] * 3,))),
    "hook of a leaf": lambda i, p: hooked(i, p, lambda: p["net"].lin.weight.register_hook(lambda g: g * 3)),
    "frozen": lambda i, p: p["net"].requires_grad_(True) and p["net"].lin.weight.requires_grad_(not on(i)) is None,
    "closure": lambda i, p: 2.0 if on(i) else 1.0,
    "dict in a closure": lambda i, p: p.update(power=2 if on(i) else 1),
    "global": lambda i, p: globals().update(GLOBAL_SCALE=2.0 if on(i) else 1.0),
    "class": lambda i, p: setattr(Options, "scale", 2.0 if on(i) else 1.0),
    "optimizer": lambda i, p: p["optimizer"].param_groups[0].update(weight_decay=0.5 if on(i) else 0.0),
}


@pytest.mark.parametrize("name", changes)
def test_changes_between_steps_are_noticed(name):
    stats = compare(changes[name])
    assert stats["replayed"] > 6


def test_autocast_and_gradient_modes_have_recordings_of_their_own():
    w = weft.full((4, 4), 1 / 3, requires_grad=True)

    def step(x):
        return (x @ w).exp().sum()

    captured, modes = weft.capture(step), [weft.no_grad, lambda: weft.amp.autocast("cpu", dtype=weft.bfloat16), weft.enable_grad]
    for i in range(15):
        x = weft.full((4, 4), 0.1 * i)
        with modes[i % 3]():
            assert captured(x).item() == step(x).item()
    assert captured.stats()["recordings"] == 3


def test_methods_partials_and_counters_of_the_step():
    import functools

    class Trainer:
        def __init__(self):
            self.scale, self.calls, self.w = 1.0, 0, weft.ones(2, requires_grad=True)

        def loss(self, x):
            return (x * self.w * self.scale).sum()

        def step(self, x, *, power=1):
            self.calls += 1
            return self.loss(x) ** power

    trainer = Trainer()
    captured, powered = weft.capture(trainer.step), weft.capture(functools.partial(trainer.step, power=2))
    for i in range(12):
        trainer.scale = 2.0 if i > 6 else 1.0
        assert captured(weft.full((2,), float(i))).item() == 2 * i * trainer.scale
        assert powered(weft.full((2,), float(i))).item() == (2 * i * trainer.scale) ** 2
    assert captured.stats()["replayed"] == powered.stats()["replayed"] > 5
    assert trainer.calls == captured.stats()["eager"] + powered.stats()["eager"]


def test_numbers_that_change_in_each_call_are_right_and_warned_about():
    number = 0.0
    captured = weft.capture(lambda x: x * number)
    with pytest.warns(UserWarning, match="recorded again and again"):
        for i in range(24):
            number = float(i)
            assert captured(weft.ones(2)).tolist() == [i, i]
