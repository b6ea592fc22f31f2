"""The tools on hooks: recorder pages and logs, watch, the anomaly guard, the profiler, pictures of graphs."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import types

import pytest
import weft
from weft import hooks, nn, optim

F = nn.functional


def small_run(steps=6, every=None, inside=lambda h: h, **options):
    weft.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    recorder = hooks.GradientRecorder(net, **options)
    for step in range(steps):
        optimizer.zero_grad()
        x = weft.randn(16, 4)
        loss = (net[2](inside(net[1](net[0](x)))) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        recorder.step(loss.item())
        if every:
            every(recorder)
    return net, recorder, loss


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))


# ---- watch ----------------------------------------------------------------------------------------------------------

def test_watch_puts_a_tensor_and_its_gradient_on_the_page():
    def inside(h):
        assert hooks.watch(h, "hidden") is h
        return h

    _, recorder, _ = small_run(inside=inside)
    watched = {w["name"]: w for w in data_of(recorder.html())["watched"]}
    hidden = watched["hidden"]
    # A module's output and the same tensor under a name of its own have the same figures.
    assert hidden["gradient"]["rms"] == watched["1"]["gradient"]["rms"] and hidden["kind"] == "activation"
    assert hidden["op"] == "tanh" and "test_hooks.py" not in hidden["name"]
    with pytest.raises(TypeError, match="expected Tensor"):
        hooks.watch(3, "three")


def test_watch_is_of_the_recorders_of_its_thread_and_costs_nothing_without_one():
    x = weft.ones(3)
    assert hooks.watch(x, "nobody") is x
    w = weft.ones(3, requires_grad=True)
    recorder = hooks.GradientRecorder({"w": w})
    other = threading.Thread(target=lambda: hooks.watch(x, "elsewhere"))
    other.start(), other.join()
    for _ in range(3):  # a leaf keeps its hooks, which must not become more
        (hooks.watch(w, "same") * 2).sum().backward()
        w.grad = None
        recorder.step()
    lines = [json.loads(line) for line in recorder.json_lines()]
    assert "elsewhere" not in lines[-1]["tensors"]
    for line in lines:
        assert line["tensors"]["same"]["gradient"]["count"] == 3
        assert line["tensors"]["same"]["gradient"]["norm"] == pytest.approx(12 ** 0.5, rel=1e-5)


# ---- pages in a notebook --------------------------------------------------------------------------------------------

def test_the_page_in_a_notebook_is_a_frame_of_its_own():
    _, recorder, _ = small_run()
    shown = recorder._repr_html_()
    assert re.fullmatch(r'<iframe sandbox="allow-scripts" style="[^"]*" srcdoc="[^"]*"></iframe>', shown)
    import html
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', shown).group(1))
    assert page == recorder.html() and recorder.history()._repr_html_() == shown


def test_the_page_goes_along_while_training(monkeypatch):
    drawn = []

    class Handle:
        def update(self, what):
            drawn.append(data_of(what.html())["recorded"])

    module = types.ModuleType("IPython.display")
    module.display = lambda what, display_id: Handle()
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    net, recorder, loss = small_run(3)
    recorder.refresh()  # nothing is shown yet
    recorder.show(every=0)
    recorder.step(1.0)
    recorder.refresh()
    assert drawn == [4, 4]
    recorder.show(every=1000)
    recorder.step(1.0)
    assert drawn == [4, 4]
    recorder.refresh()
    assert drawn == [4, 4, 5]


def test_text_and_comparison():
    _, one, _ = small_run()
    _, two, _ = small_run(9)
    text = one.text("A run")
    assert text.startswith("A run\n6 steps up to step 5, 4 parameters") and "0.weight" in text
    assert all(len(line) <= 100 for line in text.splitlines())
    assert one.text(ascii=True).isascii()
    page = hooks.comparison_html(one, two.history(), ("first", "second"))
    assert [r["recorded"] for r in data_of(page)["runs"]] == [6, 9] and "<title>first and second</title>" in page


# ---- logs -----------------------------------------------------------------------------------------------------------

def test_a_log_leaves_files_and_is_read_again(tmp_path):
    weft.manual_seed(2)
    used, unused = weft.ones(3, requires_grad=True), weft.ones(3, requires_grad=True)
    recorder = hooks.GradientRecorder({"used": used, "unused": unused})
    with hooks.GradientLog(recorder, tmp_path, title="T", tensorboard=False):
        for _ in range(8):
            (used * used).sum().backward()
            recorder.step(1.0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["gradients.html", "gradients.jsonl"]
    assert data_of((tmp_path / "gradients.html").read_text())["note"] == ""
    history = hooks.load_history(tmp_path)
    assert history.suspects() == recorder.suspects() and any("unused" in s for s in history.suspects())
    assert hooks.comparison_html(tmp_path, recorder)
    with pytest.raises(OSError):
        hooks.load_history(tmp_path / "nowhere")
    with pytest.raises(ValueError):
        hooks.GradientLog(recorder, tmp_path, page_every=-1)


def test_the_page_names_the_error_that_ended_the_block(tmp_path):
    recorder = hooks.GradientRecorder({"w": weft.ones(2, requires_grad=True)})
    with pytest.raises(ZeroDivisionError), hooks.GradientLog(recorder, tmp_path):
        recorder.step(1.0)
        1 / 0
    assert data_of((tmp_path / "gradients.html").read_text())["note"] == "ended by ZeroDivisionError: division by zero"


ENDINGS = {
    "os.kill(os.getpid(), signal.SIGTERM)": (-signal.SIGTERM, "ended by SIGTERM"),
    "os.abort()": (-signal.SIGABRT, "ended by SIGABRT"),
    "ctypes.string_at(8)": (-signal.SIGSEGV, "ended by SIGSEGV"),
    "raise KeyError('k')": (1, ""),
    "sys.exit(3)": (3, ""),
    "os.kill(os.getpid(), signal.SIGINT); time.sleep(9)": (None, ""),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_however_the_process_ends_the_page_is_there(tmp_path, ending):
    status, note = ENDINGS[ending]
    program = f"""
import ctypes, os, signal, sys, time
import weft
from weft import hooks
w = weft.ones(3, requires_grad=True)
recorder = hooks.GradientRecorder({{"w": w}})
log = hooks.GradientLog(recorder, {str(tmp_path)!r}, tensorboard=False)
for _ in range(5):
    (w * w).sum().backward()
    recorder.step(1.0)
{ending}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert status is None or done.returncode == status, done.stderr
    data = data_of((tmp_path / "gradients.html").read_text())
    assert data["recorded"] == 5 and data["note"].startswith(note) and bool(data["note"]) == bool(note)
    assert hooks.load_history(tmp_path).suspects()


# ---- the anomaly guard ----------------------------------------------------------------------------------------------

def test_the_anomaly_guard_names_the_op_and_the_line():
    x = weft.tensor([4.0, 0.0], requires_grad=True)
    with hooks.AnomalyGuard():
        y = weft.sqrt(x).sum()  # the line
        with pytest.raises(RuntimeError, match=r"\[sqrt\] the first Inf in backward(.|\n)*test_hooks.py:\d+"):
            y.backward()
    x.grad = None
    weft.sqrt(x).sum().backward()  # nobody looks any more
    assert x.grad.tolist() == [0.25, float("inf")]
    with hooks.AnomalyGuard(), pytest.raises(RuntimeError, match=r"\[log\]"):
        weft.log(weft.tensor([-1.0]))
    with hooks.AnomalyGuard(forward=False):
        assert weft.log(weft.tensor([-1.0])).isnan().all()

    @hooks.AnomalyGuard()
    def step():
        return weft.log(weft.tensor([-1.0]))

    for _ in range(2):
        with pytest.raises(RuntimeError):
            step()
    with hooks.AnomalyGuard(), hooks.AnomalyGuard(forward=False):
        pass
    assert weft.log(weft.tensor([-1.0])).isnan().all()


def test_cases_of_a_guard_are_replayed(tmp_path):
    repro = tmp_path / "repro"
    with hooks.AnomalyGuard(repro=repro), pytest.raises(RuntimeError, match="./weft replay"):
        weft.log(weft.tensor([-1.0, 2.0]))
    again = weft.replay(repro)
    assert again.happens and "log" in again.text
    assert again.inputs[0].tolist() == [-1.0, 2.0] and again.outputs[0].isnan().tolist() == [True, False]
    assert weft.replay(repro, "cpu").happens and again.arrived == []
    with pytest.raises(OSError):
        weft.replay(tmp_path / "none")


# ---- stops ----------------------------------------------------------------------------------------------------------

def stops_of(run, **options):
    seen = []
    with weft.BreakOn(call=seen.append, **options) as stop:
        run()
    assert stop.stops == len(seen)
    return seen


def test_break_on_an_op_a_line_and_non_finite_values(tmp_path):
    x = weft.tensor([0.0, 4.0], requires_grad=True)

    def run():
        weft.sqrt(x).sum().backward()  # the line

    line = run.__code__.co_firstlineno + 1
    before, back = stops_of(run, op="sqrt")
    assert (before.op, before.backward, before.after, before.kernel) == ("sqrt", False, False, "unary")
    assert back.backward and back.incoming[0].tolist() == [1, 1] and "test_hooks.py" in back.location
    assert before.text.startswith("before sqrt, called at ") and "float32 [2] on cpu: 0 to 4" in before.text
    assert {e.op for e in stops_of(run, line=f"test_hooks.py:{line}")} >= {"sqrt", "sum"}
    bad, = stops_of(run, non_finite=True, repro=tmp_path / "repro")
    assert bad.after and bad.backward and bad.outgoing[0].isinf().tolist() == [True, False]
    assert weft.replay(tmp_path / "repro").happens
    assert len(stops_of(run, op="sqrt", skip=1)) == 1
    run()  # nothing stops any more


def test_break_on_a_module_of_pythons():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            if x.shape[1] != 3:
                raise ValueError("not three")
            return weft.exp(self.fc(x))

    net = nn.Sequential(Block(), Block())
    x = weft.ones(2, 3)
    assert [e.backward for e in stops_of(lambda: net(x).sum().backward(), model=net, module="1", op="exp")] == [False, True]

    def fails():
        with pytest.raises(ValueError, match="not three"):
            net[1](weft.ones(2, 2))
        weft.exp(x)  # outside of the module that threw
        net[1](x)

    assert len(stops_of(fails, model=net, module="1", op="exp")) == 1
    with pytest.raises(ValueError, match="no module '7'"), weft.BreakOn(model=net, module="7", call=print):
        pass
    with pytest.raises(ValueError, match="of no model"), weft.BreakOn(module="1", call=print):
        pass
    with pytest.raises(TypeError):
        weft.BreakOn(model=3)
    with pytest.raises(TypeError):
        weft.BreakOn(call=3)


def test_exceptions_of_the_handler_are_errors_of_the_op():
    def call(_):
        raise KeyError("mine")

    with weft.BreakOn(op="exp", call=call), pytest.raises(KeyError, match="mine"):
        weft.exp(weft.ones(2))
    assert weft.exp(weft.zeros(1)).tolist() == [1]


def test_without_a_function_the_debugger_opens_in_the_programs_line(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import weft\nvalue = weft.full((2,), 3.0)\nwith weft.BreakOn(op='exp'):\n    weft.exp(value)\nprint('went on')\n")
    done = subprocess.run([sys.executable, str(program)], input="p value.tolist()\nc\n", capture_output=True, text=True, timeout=120)
    assert "weft: stopped before exp, called at" in done.stderr
    assert "program.py(4)" in done.stdout and "[3.0, 3.0]" in done.stdout and "went on" in done.stdout


# ---- recorded steps -------------------------------------------------------------------------------------------------

class Training:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 1))
        self.optimizer = optim.AdamW(self.model.parameters(), lr=1e-2)
        self.calls = 0

    def step(self, batch):
        self.calls += 1
        self.optimizer.zero_grad()
        loss = (self.model(batch["x"]) - batch["y"]).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss


def test_the_bad_step_is_kept_and_runs_again_bit_for_bit(tmp_path):
    folder = tmp_path / "step.weft"
    run = Training()
    counter = {"calls": lambda: run.calls}
    recorder = weft.StepRecorder(folder, run.model, run.optimizer, add_state=lambda: {"calls": run.calls})
    for i in range(8):
        loss = recorder.step(run.step, {"x": weft.randn(6, 4), "y": weft.full((6, 1), weft.nan if i == 5 else 1.0)})
        assert isinstance(loss, weft.Tensor)
    assert counter["calls"]() == 8 and recorder.found and recorder.text.startswith("step 5: the loss is NaN; left in ")
    other, seen = Training(), []
    good = weft.replay_step(folder, other.model, other.optimizer, other.step, last_good=True)
    assert good.same_bits and not good.happens and good.step == 4, good.text
    bad = weft.replay_step(folder, other.model, other.optimizer, other.step, restore_state=seen.append)
    assert bad.same_bits and bad.happens and bad.why == "the loss is NaN" and bad.loss.isnan().item(), bad.text
    assert seen == [{"calls": 5}]
    assert "step 5, bad: the loss is NaN" in hooks.step_text(folder)

    def differs(batch):
        weft.randn(1)
        return other.step(batch)

    assert "generators" in weft.replay_step(folder, other.model, other.optimizer, differs, last_good=True).differs


def test_a_recorded_steps_modules_are_in_their_modes_again(tmp_path):
    def trained():
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        return model, lambda batch: model(batch["x"]).mean() + batch["y"].mean()

    model, step = trained()
    model.eval()
    model[2].train()
    recorder = weft.StepRecorder(tmp_path / "step", model)
    recorder.step(step, {"x": weft.randn(2, 4), "y": weft.full([1], float("nan"))})
    other, again = trained()
    bad = weft.replay_step(tmp_path / "step", other, None, again)
    assert bad.same_bits, bad.text
    assert [other.training] + [part.training for part in other] == [False, False, False, True]


def test_exceptions_of_a_step_propagate_and_are_kept(tmp_path):
    run = Training()

    def raising(batch):
        run.step(batch)
        raise LookupError("a file is gone")

    batch = {"x": weft.ones(2, 4), "y": weft.ones(2, 1)}
    recorder = weft.StepRecorder(tmp_path / "step", run.model, run.optimizer)
    with pytest.raises(LookupError, match="a file is gone"):
        recorder.step(raising, batch)
    assert "it threw LookupError: a file is gone" in recorder.text
    again = weft.replay_step(tmp_path / "step", run.model, run.optimizer, raising)
    assert again.happens and again.same_bits

    def interrupted(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # no step's fault
        weft.StepRecorder(tmp_path / "other", run.model, run.optimizer).step(interrupted, batch)
    assert not (tmp_path / "other").exists()
    found = weft.StepRecorder(tmp_path / "third", run.model, run.optimizer, finding=lambda: "mine" if run.calls > 2 else None)
    found.step(run.step, batch)
    assert "mine" in found.text
    with pytest.raises(TypeError, match="a Tensor, or None, got float"):
        weft.StepRecorder(tmp_path / "fourth", run.model, run.optimizer).step(lambda _: 3.0, batch)
    with pytest.raises(TypeError, match="'x' of the batch: expected Tensor, got float"):
        weft.StepRecorder(tmp_path / "fifth", run.model, run.optimizer).step(run.step, {"x": 3.0})


def test_a_program_replays_its_step(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(textwrap.dedent("""
        import weft
        from weft import nn, optim
        model = nn.Linear(3, 1)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        recorder = weft.StepRecorder("step.weft", model, optimizer)

        def step(batch):
            optimizer.zero_grad()
            loss = weft.log(model(batch["x"]).square().mean() + batch["y"])
            loss.backward()
            optimizer.step()
            return loss

        for i in range(5):
            recorder.step(step, {"x": weft.randn(4, 3), "y": weft.tensor(1.0 if i < 3 else -1e3)})
        print(recorder.text)
    """))

    def run(**environment):
        return subprocess.run([sys.executable, str(program)], capture_output=True, text=True, cwd=tmp_path, timeout=120,
                              env={**os.environ, "PYTHONPATH": os.path.dirname(weft.__path__[0]), **environment})

    assert "step 3: the loss is NaN; left in step.weft" in run().stdout
    again = run(WEFT_REPLAY_STEP="step.weft")
    assert again.returncode == 1, again.stderr
    assert again.stdout.splitlines() == ["step 2, the last good one", "  every bit is as it was",
                                         "step 3, bad: the loss is NaN", "  it still happens", "  every bit is as it was"]


# ---- model calls ----------------------------------------------------------------------------------------------------

def suspects_of(sick):
    weft.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    recorder = hooks.GradientRecorder(net)
    if sick:
        net.eval()
    for _ in range(30):
        optimizer.zero_grad()
        x = weft.randn(16, 4)
        loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        recorder.step(loss.item())
    return recorder.suspects()


def test_a_recorder_records_the_calls_of_the_model():
    assert any("evaluation mode" in s for s in suspects_of(True)), suspects_of(True)
    assert not any("evaluation mode" in s for s in suspects_of(False))


CUTS = [
    ("detach", lambda h: h.detach()),
    ("detach", lambda h: h.detach() * 2 + 1),
    ("detach", lambda h: weft.tensor(h)),
    ("detach", lambda h: weft.from_numpy(h.detach().numpy())),
    ("numpy", lambda h: weft.from_numpy(h.numpy(force=True).copy())),
    ("tolist", lambda h: weft.tensor(h.tolist())),
    ("item", lambda h: weft.ones(16, 32) * h.mean().item()),
    ("to", lambda h: h.long().float()),
]


@pytest.mark.parametrize("op, cut", CUTS)
def test_a_recorder_names_the_line_that_cuts_parameters_off(op, cut):
    net = CutNet(cut)
    recorder, optimizer = hooks.GradientRecorder(net), optim.SGD(net.parameters(), lr=0.01)
    for _ in range(40):
        x = weft.randn(16, 8)
        optimizer.zero_grad()
        loss = ((net(x) - x[:, :1]) ** 2).mean()
        loss.backward()
        optimizer.step()
        recorder.step(loss.item())
    said = [str(s) for s in recorder.suspects() if "encoder.weight" in str(s)]
    assert len(said) == 1 and f"{op} at test_hooks.py:{cut.__code__.co_firstlineno}" in said[0], said


class CutNet(nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.encoder, self.head, self.cut = nn.Linear(8, 32), nn.Linear(32, 1), cut

    def forward(self, x):
        return self.head(self.cut(weft.relu(self.encoder(x))))


def test_a_recorder_that_is_removed_sees_no_activation():
    net, recorder, _ = small_run()
    assert any(w["kind"] == "activation" for w in data_of(recorder.html())["watched"])
    recorder.remove()
    steps = len(recorder.json_lines())
    net(weft.ones(2, 4)).sum().backward()
    recorder.step(1.0)
    last = json.loads(recorder.json_lines()[-1])
    assert len(recorder.json_lines()) == steps + 1 and not any(t.get("kind") == "activation" for t in last["tensors"].values())


def test_a_module_may_return_other_values():
    class Odd(nn.Module):
        def forward(self, x):
            return {"none": None, "loss": x * 2}, 3

    net = nn.Sequential(nn.Linear(2, 2))
    net.odd = Odd()
    recorder = hooks.GradientRecorder(net)
    result = net.odd(net[0](weft.ones(1, 2)))
    assert result[1] == 3 and result[0]["none"] is None
    result[0]["loss"].sum().backward()
    recorder.step(1.0)
    assert "odd" in json.loads(recorder.json_lines()[0])["tensors"]


# ---- the profiler ---------------------------------------------------------------------------------------------------

def test_the_profiler_measures_ops(tmp_path):
    x = weft.randn(64, 64, requires_grad=True)
    with hooks.Profiler() as profiler:
        (x @ x).tanh().sum().backward()
    table = profiler.table()
    assert "matmul" in table and "tanh" in table
    assert "test_hooks.py:" in profiler.table(by_line=True, rows=5)
    events = profiler.events
    matmul = next(e for e in events if e["op"] == "matmul" and e["kind"] == "kernel" and not e["backward"])
    assert matmul["shape"] == (64, 64) and 0 <= matmul["begin_ns"] <= matmul["end_ns"]
    assert any(e["kind"] == "node" and e["backward"] for e in events)
    profiler.save_trace(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    with pytest.raises(ValueError):
        profiler.stop()
    with hooks.Profiler(), pytest.raises(ValueError):
        hooks.Profiler().start()


# ---- graphs ---------------------------------------------------------------------------------------------------------

def test_draw_graph_shows_names_shapes_and_lines():
    net, _, loss = small_run(1)
    x = weft.randn(5, 4)
    loss = net(x).square().mean()
    graph = hooks.draw_graph(loss, net)
    nodes = graph.nodes
    assert nodes[0]["op"] == "mean" and nodes[0]["shape"] == () and "test_hooks.py:" in nodes[0]["location"]
    assert {n["name"] for n in nodes if n["leaf"]} == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert graph.saved_bytes > 0 and all(0 <= a < len(nodes) and 0 <= b < len(nodes) for a, b in graph.edges)
    assert graph._repr_svg_() == graph.svg() and graph.svg().startswith("<svg") and "0.weight" in graph.dot()
    assert net[0].weight.grad is not None  # of the run; drawing changes none
    assert hooks.draw_graph(loss, most_nodes=2).left_out > 0
    with pytest.raises(RuntimeError):
        hooks.draw_graph(x)
    with pytest.raises(TypeError):
        hooks.draw_graph(loss, {"a": 3})
