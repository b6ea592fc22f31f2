"""weft.train.Trainer: steps, evaluations, states, resuming, errors, and the page of its run."""

import gc
import json
import math
import os
import pathlib
import re
import signal
import weakref

import pytest

import weft
from weft._trainer import _samples_in
from weft import data, nn, optim, train


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.drop, self.out = nn.Linear(2, 16), nn.Dropout(0.1), nn.Linear(16, 2)

    def forward(self, x):
        return self.out(self.drop(weft.tanh(self.hidden(x))))


def circle(count, seed):
    weft.manual_seed(seed)
    x = weft.rand(count, 2) * 2 - 1
    return data.TensorDataset(x, ((x * x).sum(1) < 0.6).to(weft.int64))


def parts(workers=0):
    weft.manual_seed(1)
    net = Net()
    optimizer = optim.AdamW(net.parameters(), lr=0.05)
    loader = data.DataLoader(circle(256, 2), 32, shuffle=True, seed=3, num_workers=workers)
    return net, optimizer, loader, optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)


def loss_with(net):
    return lambda batch: nn.functional.cross_entropy(net(batch[0]), batch[1])


def judge_with(net):
    def judge(batch, e):
        scores = net(batch[0])
        e.mean("val_loss").update(nn.functional.cross_entropy(scores, batch[1]).item(), weight=len(batch[1]))
        e.metric("val_accuracy", train.Accuracy).update(scores, batch[1])
        e.metric("agreement", train.ConfusionMatrix, 2).update(scores, batch[1])

    return judge


def weights(net):
    return [p.tolist() for p in net.parameters()]


def test_it_trains_evaluates_and_has_the_page(tmp_path):
    net, optimizer, loader, scheduler = parts(workers=2)
    events = {kind: [] for kind in ("step_end", "epoch_end", "evaluate", "save")}
    with train.RunFolder(tmp_path / "run", title="Inside a circle", config={"width": 16}) as run:
        trainer = train.Trainer(net, optimizer, epochs=5, clip_norm=1.0, accumulate=2, metric="val_accuracy", maximize=True,
                                patience=10, save=tmp_path / "states", log=run)
        trainer.schedule(scheduler)
        trainer.on_step_end(events["step_end"].append)
        trainer.on_epoch_end(events["epoch_end"].append)
        trainer.on_save(events["save"].append)

        @trainer.on_evaluate
        def tell(event):
            events["evaluate"].append(event)
            run.sample_text(event.step, "a word", "accuracy %.2f" % event.figures["val_accuracy"])

        result = trainer.fit(loader, loss_with(net), data.DataLoader(circle(64, 4), 64), judge_with(net))
    assert (result.steps, result.epochs, result.stopped_early, result.signal) == (20, 5, False, 0)
    assert trainer.steps == 20 and result.best > 0.5 and scheduler.last_epoch == 20 and net.training
    assert [len(events[kind]) for kind in ("step_end", "epoch_end", "evaluate")] == [20, 5, 5] and events["save"]
    first, last = events["step_end"][0], events["step_end"][-1]
    assert (first.step, first.epoch, first.batch) == (1, 0, 2) and last.step == 20
    assert set(last.figures) == {"train_loss", "lr", "grad_norm", "samples_per_s"}
    losses = [e.figures["train_loss"] for e in events["step_end"]]
    assert sum(losses[-5:]) < sum(losses[:5])
    written = json.loads((tmp_path / "run" / "run.json").read_text())
    assert written["state"] == "done" and written["config"] == {"width": 16} and written["checkpoints"]
    assert {f["name"] for f in written["figures"]} >= {"train_loss", "val_loss", "val_accuracy", "lr"}
    assert "agreement" not in {f["name"] for f in written["figures"]}, "a confusion matrix is a picture"
    assert {s["kind"] for s in written["samples"]} == {"text", "svg"}
    assert "Inside a circle" in (tmp_path / "run" / "index.html").read_text()
    best = Net()
    weft.io.load_training_state(tmp_path / "states" / "best", best, weights_only=True)


@pytest.mark.parametrize("with_place", [True, False])
def test_a_resumed_run_has_the_same_bits(tmp_path, with_place):
    class WithoutPlace:
        """Goes over the same batches in every epoch."""

        def __init__(self, loader):
            self.batches = list(loader)

        def __iter__(self):
            return iter(self.batches)

    def run(folder, stops):
        for stop in stops:
            net, optimizer, loader, scheduler = parts()
            trainer = train.Trainer(net, optimizer, epochs=4, save=tmp_path / folder, save_every=5, resume=True,
                                    end_by_signal=False)
            trainer.schedule(scheduler)
            if stop:
                trainer.on_step_end(lambda e: trainer.stop() if e.step == stop else None)
            result = trainer.fit(loader if with_place else WithoutPlace(loader), loss_with(net),
                                 data.DataLoader(circle(64, 4), 64), judge_with(net))
        return weights(net), result.steps, result.epochs, scheduler.last_epoch  # a stop is evaluated, too

    assert run("straight", [0]) == run("interrupted", [3, 8, 21, 0])


def test_the_loop_is_the_written_out_one():
    net, optimizer, loader, scheduler = parts()
    losses = []
    trainer = train.Trainer(net, optimizer, steps=10)
    trainer.schedule(scheduler)
    trainer.on_step_end(lambda e: losses.append(e.figures["train_loss"]))
    trainer.fit(loader, loss_with(net))

    other, optimizer, loader, scheduler = parts()
    own, step = [], 0
    while step < 10:
        for x, y in loader:
            loss = nn.functional.cross_entropy(other(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            own.append(loss.item())
            step += 1
            if step == 10:
                break
    assert losses == own and weights(net) == weights(other)


def test_early_stopping_and_given_figures():
    net, optimizer, loader, _ = parts()
    seen = iter([3.0, 2.0, math.nan, 5.0, 1.0])
    trainer = train.Trainer(net, optimizer, epochs=50, patience=1)
    result = trainer.fit(loader, loss_with(net), evaluate=lambda e: e.set("val_loss", next(seen)))
    assert (result.stopped_early, result.best, result.epochs) == (True, 2.0, 3)
    net, optimizer, loader, _ = parts()
    trainer = train.Trainer(net, optimizer, epochs=2, metric="val_los")
    with pytest.raises(ValueError, match='"val_los" is none of the evaluation\'s figures: val_loss, val_accuracy'):
        trainer.fit(loader, loss_with(net), data.DataLoader(circle(64, 4), 64), judge_with(net))


def test_the_best_state_has_the_weights_that_were_evaluated(tmp_path):
    net, optimizer, loader, _ = parts()
    values, seen = [0.9, 0.1, 0.5, 0.5], []

    def judge(e):
        e.set("v", values[len(seen)])
        seen.append(weights(net))

    trainer = train.Trainer(net, optimizer, epochs=4, metric="v", save=tmp_path, save_every=3)
    trainer.fit(loader, loss_with(net), evaluate=judge)
    best = Net()
    assert weft.io.load_training_state(tmp_path / "best", best, weights_only=True).step == 16
    assert weights(best) == seen[1]


def test_a_further_fit_of_a_run_that_ended_is_an_error(tmp_path):
    net, optimizer, loader, _ = parts()
    with train.RunFolder(tmp_path / "run") as run:
        trainer = train.Trainer(net, optimizer, epochs=1, log=run)
        trainer.fit(loader, loss_with(net))
        with pytest.raises(ValueError, match="has ended already"):
            trainer.fit(loader, loss_with(net))
    assert json.loads((tmp_path / "run" / "run.json").read_text())["state"] == "done"


def test_samples_of_all_batches_are_counted():
    class Item:
        def __init__(self, x):
            self.x, self.itself = x, self

    x = weft.zeros(5, 2)
    for batch in (x, (x, 1), {"a": [x]}, Item(x), data.DataLoader):
        assert train.Trainer.__init__.__globals__["_samples_in"](batch) == (1 if batch is data.DataLoader else 5)
    loader = data.DataLoader([(weft.arange(3 + i % 2), i) for i in range(6)], 6, collate_fn=data.pad(lengths=True))
    for batch in loader:
        assert train.Trainer.__init__.__globals__["_samples_in"](batch) == 6


def test_modes_are_those_of_the_module():
    class Frozen(Net):
        def train(self, mode=True):
            super().train(mode)
            self.drop.training = False
            modes.append((mode, self.training))
            return self

    modes, seen = [], []
    net = Frozen()
    loader = data.DataLoader(circle(64, 2), 32)

    def loss(batch):
        seen.append((net.training, net.drop.training, weft.is_grad_enabled()))
        return loss_with(net)(batch)

    def judge(batch, e):
        seen.append((net.training, net.drop.training, weft.is_grad_enabled()))
        e.set("val_loss", 1)

    train.Trainer(net, optim.SGD(net.parameters(), lr=0.1), epochs=2).fit(loader, loss, [0], judge)
    assert seen == 2 * [(True, False, True), (True, False, True), (False, False, False)]


def test_exceptions_of_a_part_propagate_and_the_run_fails(tmp_path):
    def fit(loss_of=None, loader=None, run=None, **kwargs):
        net, optimizer, own, _ = parts()
        trainer = train.Trainer(net, optimizer, epochs=2, log=run)
        return trainer.fit(own if loader is None else loader, loss_of or loss_with(net), **kwargs)

    class Odd(Exception):
        pass

    def raises(*_):
        raise Odd("no such thing")

    def broken():
        yield weft.zeros(2, 2), weft.tensor([0, 1])
        raise Odd("cut off")

    run = train.RunFolder(tmp_path / "run")
    with pytest.raises(Odd) as caught:
        fit(raises, run=run)
    assert "weft.train.Trainer: step 1, rank 0" in caught.value.__notes__
    written = json.loads((tmp_path / "run" / "run.json").read_text())
    assert written["state"] == "failed" and "Odd: no such thing" in written["failure"] and "step 1" in written["failure"]
    assert (tmp_path / "run" / "failure.txt").read_text().startswith("Odd: no such thing\n")
    with pytest.raises(Odd, match="cut off"):
        fit(loader=broken())
    with pytest.raises(Odd):
        fit(evaluate=raises)
    with pytest.raises(TypeError):
        fit(lambda batch: 3.0)
    with pytest.raises(TypeError):
        fit(loader=7)
    with pytest.raises(TypeError):
        fit(evaluate=raises, validation=[1], each=raises)
    with pytest.raises(TypeError):
        fit(validation=[1])
    with pytest.raises(ValueError, match="no batch"):
        fit(loader=[])
    with pytest.raises(ValueError, match="size"):
        fit(lambda batch: weft.zeros(3) @ weft.zeros(4))
    with pytest.raises(Odd) as caught:
        net, optimizer, loader, _ = parts()
        trainer = train.Trainer(net, optimizer, epochs=1)
        trainer.on_step_end(raises)
        trainer.fit(loader, loss_with(net))
    assert "weft.train.Trainer: on_step_end of step 1, rank 0" in caught.value.__notes__
    with pytest.raises(RuntimeError, match=r"step 1, rank 0: the loss is NaN: \[log\]"):
        net, optimizer, loader, _ = parts()
        train.Trainer(net, optimizer, epochs=1).fit(loader, lambda b: weft.log(-loss_with(net)(b)))


def test_bad_options():
    net, optimizer, _, _ = parts()
    for options in ({}, {"epochs": -1}, {"epochs": 1, "accumulate": 0}, {"epochs": 1, "patience": -1},
                    {"epochs": 1, "resume": True}, {"epochs": 1, "clip_norm": -1.0}):
        with pytest.raises(ValueError):
            train.Trainer(net, optimizer, **options)
    for options in ({"epochs": "3"}, {"epochs": 1.5}, {"epochs": 1, "metric": 3}, {"epochs": 1, "generators": {"a": 3}},
                    {"epochs": 1, "log": 3}, {"epochs": 1, "autocast": "float16"}):
        with pytest.raises((TypeError, ValueError)):
            train.Trainer(net, optimizer, **options)
    with pytest.raises(TypeError):
        train.Trainer(net, optim.LBFGS(net.parameters()), epochs=1)
    trainer = train.Trainer(net, optimizer, epochs=1)
    trainer.keep("more", type("Part", (), {"state_dict": lambda s: {}})())
    with pytest.raises(ValueError, match="kept already"):
        trainer.keep("more", None)
    optimizer.register_step_post_hook(lambda *a: None)
    with pytest.raises(NotImplementedError):
        trainer.fit([], loss_with(net))


def test_mixed_precision_scaler_and_generators(tmp_path):
    net, optimizer, loader, _ = parts()
    scaler, own = weft.amp.GradScaler(init_scale=1024.0), weft.Generator().manual_seed(7)
    trainer = train.Trainer(net, optimizer, steps=4, autocast=weft.bfloat16, scaler=scaler, save=tmp_path,
                            generators={"own": own}, reduce=lambda: reduced.append(1))
    reduced, types = [], set()

    def loss(batch):
        types.add(net.hidden(batch[0]).dtype)
        weft.rand((), generator=own)
        return loss_with(net)(batch)

    trainer.fit(loader, loss)
    assert types == {weft.bfloat16} and len(reduced) == 4
    assert weft.io.read_run_state(tmp_path).documents["loop"]["scaler"] == {"scale": 1024.0, "growth_tracker": 4}


class Kept:
    """A part with tensors and numbers in its state."""

    def __init__(self, refuses=False):
        self.refuses = refuses
        self.state = {"seen": [], "mean": {"a.b": weft.zeros(2), "a": {"b": weft.zeros(2, 2, dtype=weft.bfloat16)}},
                      "name": None, "empty": weft.zeros(0)}
        self.state["again"] = self.state["mean"]["a.b"]

    def see(self, loss):
        self.state["seen"].append(loss)
        for t in (self.state["mean"]["a.b"], self.state["mean"]["a"]["b"]):
            t.add_(loss)

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state
        if self.refuses:
            raise KeyError("not this one")

    def values(self):
        mean = self.state["mean"]
        return (self.state["seen"], mean["a.b"].tolist(), mean["a"]["b"].float().tolist(), mean["a"]["b"].dtype,
                self.state["again"].tolist(), self.state["name"], self.state["empty"].shape)


def test_a_part_with_tensors_in_its_state_is_restored(tmp_path):
    def run(folder, stops):
        for stop in stops:
            net, optimizer, loader, _ = parts()
            kept, second = Kept(), optim.Adam(Net().parameters(), lr=0.5)
            trainer = train.Trainer(net, optimizer, steps=stop, save=tmp_path / folder, resume=True)
            trainer.keep("kept", kept)
            trainer.keep("second", second)

            @trainer.on_step_end
            def see(e):
                kept.see(e.figures["train_loss"])
                for group in second.param_groups:
                    group["lr"] = e.figures["train_loss"]
                    for p in group["params"]:
                        p.grad = weft.full_like(p, e.figures["train_loss"])
                second.step()

            trainer.fit(loader, loss_with(net))
        return kept.values(), {name: t.tolist() for name, t in second.state_dict().items()}

    whole = run("whole", [13])
    assert run("cut", [2, 7, 13]) == whole and len(whole[0][0]) == 13
    with pytest.raises(ValueError, match="weft.tensor"):
        net, optimizer, loader, _ = parts()
        trainer = train.Trainer(net, optimizer, steps=1, save=tmp_path / "s")
        trainer.keep("kept", type("Part", (), {"state_dict": lambda s: {"weft.tensor": 3}})())
        trainer.fit(loader, loss_with(net))


@pytest.mark.parametrize("refusing", ["scheduler", "kept", "loader"])
def test_an_error_of_a_part_changes_no_other_part(tmp_path, refusing):
    class Refusing:
        def __init__(self, inner):
            self.inner, self.step = inner, getattr(inner, "step", None)

        def __iter__(self):
            return iter(self.inner)

        def state_dict(self):
            return self.inner.state_dict()

        def load_state_dict(self, state):
            self.inner.load_state_dict(state)
            raise KeyError("not this one")

    def made(steps, refuses=None):
        net, optimizer, loader, scheduler = parts()
        kept = Kept()
        named = {"scheduler": scheduler, "kept": kept, "loader": loader}
        if refuses is not None:
            named[refuses] = Refusing(named[refuses])
        trainer = train.Trainer(net, optimizer, steps=steps, save=tmp_path / "s", resume=True)
        trainer.schedule(named["scheduler"])
        trainer.keep("kept", named["kept"])
        trainer.on_step_end(lambda e: kept.see(e.figures["train_loss"]))

        def everything():
            return (weights(net), {name: t.tolist() for name, t in optimizer.state_dict().items()}, kept.values(),
                    scheduler.state_dict(), loader.state(), weft.get_rng_state().tolist())

        return (lambda: trainer.fit(named["loader"], loss_with(net))), everything

    fit, straight = made(5)
    fit()
    fit, everything = made(9, refusing)
    before = everything()
    with pytest.raises(KeyError) as caught:
        fit()
    assert any(f'"{refusing}" of the state' in note for note in caught.value.__notes__)
    assert everything() == before
    fit, everything = made(5)
    fit()
    assert everything()[:4] == straight()[:4]


def test_master_weights_go_on_bit_for_bit(tmp_path):
    def made():
        weft.manual_seed(1)
        net = Net().to(weft.bfloat16)
        masters = optim.MasterWeights(net.parameters())
        return net, masters, optim.AdamW(masters.parameters(), lr=1e-3), data.DataLoader(circle(64, 2), 8, seed=3)

    def run(folder, stops):
        for stop in stops:
            net, masters, optimizer, loader = made()
            trainer = train.Trainer(net, optimizer, masters=masters, steps=stop, accumulate=2, clip_norm=1.0,
                                    save=tmp_path / folder, resume=True)
            trainer.fit(loader, lambda b: nn.functional.cross_entropy(net(b[0].to(weft.bfloat16)).float(), b[1]))
        return [p.tolist() for p in masters.parameters()], [p.float().tolist() for p in net.parameters()]

    whole = run("whole", [7])
    assert run("cut", [2, 5, 7]) == whole
    net, masters, optimizer, loader = made()
    assert weft.io.load_training_state(tmp_path / "whole", net, optimizer, masters=masters).step == 7
    assert [p.tolist() for p in masters.parameters()] == whole[0]
    with pytest.raises(ValueError, match="give these as .masters"):
        train.Trainer(net, optimizer, steps=1)
    with pytest.raises(ValueError, match="give these as .masters"):
        weft.io.save_training_state(tmp_path / "without", net, optimizer)


def test_a_signal_ends_the_run_after_its_step(tmp_path):
    net, optimizer, loader, _ = parts()
    trainer = train.Trainer(net, optimizer, epochs=100, save=tmp_path)
    trainer.on_step_end(lambda e: os.kill(os.getpid(), signal.SIGINT) if e.step == 5 else None)
    result = trainer.fit(loader, loss_with(net))
    assert (result.steps, result.signal) == (5, signal.SIGINT)
    assert weft.io.read_run_state(tmp_path).step == 5
    with pytest.raises(KeyboardInterrupt):  # Python's handler is there again
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass


def test_the_page_of_the_documents_is_true(tmp_path, monkeypatch):
    text = (pathlib.Path(__file__).parents[2] / "docs" / "trainer.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.S)
    monkeypatch.chdir(tmp_path)
    said = {}
    exec(compile(block, "trainer.md", "exec"), said)
    assert said["result"].steps == 320 and said["result"].best > 0.9
    exec(compile(block, "trainer.md", "exec"), said)  # the run has ended: nothing is left to do
    assert said["result"].steps == 320
    written = json.loads((tmp_path / "runs" / "circle" / "run.json").read_text())
    assert written["state"] == "done" and (tmp_path / "runs" / "circle" / "index.html").stat().st_size > 10000


def test_checkpoints_by_themselves(tmp_path):
    net, optimizer, _, _ = parts()
    checkpoints = train.Checkpoints(tmp_path, keep_last=1)
    for step in (1, 2, 3):
        checkpoints.save(net, optimizer, weft.io.RunState(step=step), best=step == 2)
    checkpoints.wait()
    assert weft.io.read_run_state(tmp_path).step == 3 and weft.io.read_run_state(tmp_path / "best").step == 2
    with pytest.raises(ValueError):
        train.Checkpoints(tmp_path, keep_last=-1)


def test_nothing_keeps_a_trainer():
    net, optimizer, loader, scheduler = parts()
    trainer = train.Trainer(net, optimizer, steps=2)
    trainer.schedule(scheduler)
    trainer.on_step_end(lambda e: trainer.steps)
    trainer.fit(loader, loss_with(net))
    gone = weakref.ref(net)
    del net, optimizer, loader, scheduler, trainer
    gc.collect()
    weft.live_tensors()
    assert gone() is None


@pytest.mark.parametrize("as_sum", [False, True])
@pytest.mark.parametrize("accumulate", [3, 4])
def test_batches_count_by_their_weights(accumulate, as_sum):
    x, y = weft.randn(12, 4), weft.randint(0, 2, (12,))
    y[2:7] = -100
    F = weft.nn.functional
    one, many = weft.nn.Linear(4, 2), weft.nn.Linear(4, 2)
    many.load_state_dict(one.state_dict())
    right = F.cross_entropy(one(x), y)
    right.backward()
    weft.optim.SGD(one.parameters(), lr=1.0).step()
    batches = [(x[a:b], y[a:b]) for a, b in [(0, 3), (3, 5), (5, 12)]]

    def loss_of(batch):
        tokens = (batch[1] != -100).sum()
        if as_sum:
            return F.cross_entropy(many(batch[0]), batch[1], reduction="sum") / tokens, tokens
        return F.cross_entropy(many(batch[0]), batch[1]), tokens.item()

    losses = []
    trainer = weft.train.Trainer(many, weft.optim.SGD(many.parameters(), lr=1.0), epochs=1, accumulate=accumulate)
    trainer.on_step_end(lambda event: losses.append(event.figures["train_loss"]))
    trainer.fit(batches, loss_of)
    assert losses == [pytest.approx(right.item(), rel=1e-5)]
    assert weft.allclose(many.weight, one.weight, atol=1e-6)


def test_batches_count_by_their_samples_where_no_weight_is_given():
    x, y = weft.randn(12, 4), weft.randn(12, 2)
    one, many = weft.nn.Linear(4, 2), weft.nn.Linear(4, 2)
    many.load_state_dict(one.state_dict())
    weft.nn.functional.mse_loss(one(x), y).backward()
    weft.optim.SGD(one.parameters(), lr=1.0).step()
    trainer = weft.train.Trainer(many, weft.optim.SGD(many.parameters(), lr=1.0), epochs=1, accumulate=3)
    loader = data.DataLoader(data.TensorDataset(x, y), batch_size=5)
    trainer.fit(loader, lambda batch: weft.nn.functional.mse_loss(many(batch[0]), batch[1]))
    assert weft.allclose(many.weight, one.weight, atol=1e-6)


def test_a_list_of_samples_counts_by_its_length():
    sample = (weft.ones(3), 1)
    assert [_samples_in(batch) for batch in ([sample], [sample] * 5, [weft.ones(4, 3), weft.ones(4)], (weft.ones(2, 3), 1),
                                             [{"x": weft.ones(3)}] * 2, ((weft.ones(6, 2), weft.ones(6)), weft.ones(6)))] == [
        1, 5, 4, 2, 2, 6]
