"""The tools on hooks: recorder pages and logs, watch, the anomaly guard, the profiler, pictures of graphs."""

import json
import re
import signal
import subprocess
import sys
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
    with pytest.raises(TypeError, match="must be Tensor"):
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


def test_the_page_says_what_error_ended_the_block(tmp_path):
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


# ---- the profiler ---------------------------------------------------------------------------------------------------

def test_the_profiler_says_where_the_time_goes(tmp_path):
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

def test_draw_graph_knows_names_shapes_and_lines():
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
