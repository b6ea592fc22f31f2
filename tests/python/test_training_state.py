"""Training states from Python: training resumes bit for bit."""

import math
import os
import subprocess
import sys

import pytest

import weft
from weft import io as states
from weft import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.3)
        self.b = nn.Linear(8, 2)

    def forward(self, x):
        return self.b(self.drop(self.norm(self.a(x)).tanh()))


class Run:
    def __init__(self):
        self.net = Net()
        groups = [{"params": list(self.net.a.parameters())}, {"params": list(self.net.b.parameters()), "lr": 0.02}]
        self.optimizer = weft.optim.AdamW(groups, lr=0.01)
        self.data = weft.Generator()
        self.data.manual_seed(5)

    def backward(self):
        x = weft.randn(16, 4, generator=self.data)
        (self.net(x) - weft.randn(16, 2, generator=self.data)).square().mean().backward()

    def steps(self, first, last):
        for step in range(first, last):
            self.optimizer.param_groups[0]["lr"] = 0.01 * math.cos(step / 10)
            self.net.zero_grad()
            self.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
            self.optimizer.step()

    def values(self):
        return {name: t.tolist() for name, t in self.net.state_dict().items()}


CONTINUES = """
import sys
sys.path.insert(0, {tests!r})
from test_training_state import Run, states, weft
run = Run()
state = states.load_training_state({folder!r}, run.net, run.optimizer, generators={{"data": run.data}})
assert state == states.RunState(step=5, documents={{"config": {{"width": [8]}}}}), state
run.steps(5, 10)
weft.save_file({{k: v.detach() for k, v in run.net.state_dict().items()}}, {out!r})
"""


def test_ten_steps_are_five_and_five_in_another_process(tmp_path):
    weft.manual_seed(11)
    straight = Run()
    straight.steps(0, 10)
    weft.manual_seed(11)
    first = Run()
    first.steps(0, 5)
    state = states.RunState(step=5, documents={"config": {"width": [8]}})
    folder = states.save_training_state(tmp_path / "run", first.net, first.optimizer, state,
                                        generators={"data": first.data})
    assert folder == str(tmp_path / "run" / "step-00000005")
    out = str(tmp_path / "out.safetensors")
    script = CONTINUES.format(tests=os.path.dirname(__file__), folder=str(tmp_path / "run"), out=out)
    subprocess.run([sys.executable, "-c", script], check=True)
    assert {k: v.tolist() for k, v in weft.load_file(out).items()} == straight.values()


def test_background_saver_copies_first_and_keeps_the_last(tmp_path):
    run = Run()
    saver = states.BackgroundSaver(tmp_path / "run", keep_last=2)
    for step in range(4):
        before = run.values()
        saver.save(run.net, run.optimizer, states.RunState(step=step))
        run.steps(step, step + 1)
    other = Run()
    assert states.load_training_state(saver.wait(), other.net, other.optimizer).step == 3
    assert other.values() == before
    assert [os.path.basename(path) for path in states.training_states(tmp_path / "run")] == [
        "step-00000002", "step-00000003"]


def test_accumulated_gradients_go_on(tmp_path):
    run, other = Run(), Run()
    run.backward()
    states.save_training_state(tmp_path, run.net, run.optimizer, states.RunState(accumulated=1))
    other.backward()
    assert states.load_training_state(tmp_path, other.net, other.optimizer).accumulated == 1
    for mine, theirs in zip(run.net.parameters(), other.net.parameters()):
        assert mine.grad.tolist() == theirs.grad.tolist()


def test_a_mapping_carries_a_state_to_another_model(tmp_path):
    whole = nn.Linear(4, 6)
    optimizer = weft.optim.AdamW(whole.parameters(), lr=0.1)
    x = weft.randn(5, 4)
    (whole(x) ** 2).mean().backward()
    optimizer.step()
    states.save_training_state(tmp_path, whole, optimizer)

    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            self.upper, self.lower = nn.Linear(4, 3), nn.Linear(4, 3)

    halves = Halves()
    same = weft.optim.AdamW(halves.parameters(), lr=0.5)
    mapping = states.Mapping("weight -> upper.weight, lower.weight, axis=0\nbias -> upper.bias, lower.bias, axis=0")
    states.load_training_state(tmp_path, halves, same, mapping=mapping)
    assert halves.lower.weight.tolist() == whole.weight[3:].tolist()
    assert same.param_groups[0]["lr"] == 0.1


def test_errors_are_typed(tmp_path):
    run = Run()
    with pytest.raises(OSError, match="holds no complete state"):
        states.load_training_state(tmp_path, run.net)
    with pytest.raises(ValueError, match="not negative"):
        states.save_training_state(tmp_path, run.net, state=states.RunState(step=-1))
    with pytest.raises(ValueError):
        states.save_training_state(tmp_path, run.net, state=states.RunState(documents={"config": math.nan}))
    with pytest.raises(TypeError, match="no weft.Generator"):
        states.save_training_state(tmp_path, run.net, generators={"data": 3})
    states.save_training_state(tmp_path, run.net, state=states.RunState(best_metric=math.inf))
    assert states.read_run_state(tmp_path).best_metric == math.inf
    with pytest.raises(ValueError, match="holds no optimizer's state"):
        states.load_training_state(tmp_path, run.net, run.optimizer)
    states.load_training_state(tmp_path, run.net, run.optimizer, weights_only=True)
