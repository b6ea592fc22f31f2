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


def test_what_is_read_on_the_host_is_refused_with_its_line():
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
