"""Tools on hooks: the gradient recorder and its pages, the anomaly guard, the profiler, graphs, memory by line."""

import functools
import importlib
import json
import pathlib
import time
import weakref

from weft import _core
from weft._core import Graph, History, Tensor

__all__ = ["AnomalyGuard", "GradientLog", "GradientRecorder", "Graph", "History", "MemoryHistory", "Profiler", "comparison_html",
           "draw_graph", "load_history", "memory_snapshot", "watch"]


def _named(module, function):
    """Names and tensors of a module, or of a dict."""
    named = getattr(module, "named_parameters", None)
    pairs = list(named()) if named is not None else [(str(n), p) for n, p in dict(module).items()]
    for _, tensor in pairs:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{function}(): argument 'module' must hold tensors, not {type(tensor).__name__}")
    return pairs


class GradientRecorder(_core._GradientRecorder):
    """Watches the gradients of a module, or of named parameters, from step to step; in a notebook it shows as a page.

    recorder = GradientRecorder(model)
    recorder.show()                      # in a notebook: a page that goes along
    for ...:
        loss.backward(); optimizer.step(); recorder.step(loss.item())
    recorder.suspects()
    """

    def __init__(self, module, *, every=1, histogram_every=10, activations=True, kept_steps=512):
        super().__init__(_named(module, "GradientRecorder"), every, histogram_every, kept_steps)
        self._handles, self._shown = [], None
        if activations and getattr(module, "named_parameters", None) is not None:
            me = weakref.ref(self)

            def watcher(name):
                def see(_, args, output):
                    recorder = me()
                    if recorder is not None and isinstance(output, Tensor):
                        recorder.watch(name, output)

                return see

            for name, child in module.named_modules():
                if name:
                    self._handles.append(child.register_forward_hook(watcher(name)))

    def step(self, loss=None):
        """Ends a step, after the optimizer's. A page that `show` opened is drawn anew when its time has come."""
        super().step(loss)
        if self._shown is not None and time.monotonic() >= self._due:
            self.refresh()

    def show(self, every=2.0):
        """In a notebook: shows the page here, and draws it anew while steps come, at most every so many seconds and for
        at most a twentieth of the time. ImportError without IPython."""
        notebook = importlib.import_module("IPython.display")
        self._every, self._due = every, time.monotonic() + every
        self._shown = notebook.display(self, display_id=True)

    def refresh(self):
        """Draws the page that `show` opened now, as after the last step."""
        if self._shown is None:
            return
        begin = time.monotonic()
        self._shown.update(self)
        end = time.monotonic()
        self._due = end + max(self._every, 20 * (end - begin))

    def remove(self):
        """Stops watching activations."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def suspects(self):
        """What looks wrong, the worst first, in sentences."""
        return self.history().suspects()

    def json_lines(self):
        """One line of JSON for every step that is kept."""
        return self.history().json_lines()

    def html(self, title="Gradients"):
        """The report as one self-contained page."""
        return self.history().html(title)

    def text(self, title="Gradients", columns=100, rows=40, ascii=False):
        """The report for a terminal."""
        return self.history().text(title, columns, rows, ascii)

    def _repr_html_(self):
        return self.history()._repr_html_()


def watch(tensor, name):
    """Puts any tensor on the page of this thread's recorders, with its gradient, and returns it."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"watch(): argument 'tensor' must be Tensor, not {type(tensor).__name__}")
    _core._watch(tensor, name)
    return tensor


class GradientLog(_core._GradientLog):
    """Writes what a recorder sees into a folder: gradients.jsonl and TensorBoard events as the run goes, gradients.html
    every few seconds and at the end, however that comes. As a context manager it notes the error that ended the block.

    with GradientLog(recorder, "runs/first"):
        train()
    """

    def __init__(self, recorder, folder, *, title="Gradients", page_every=5.0, at_any_end=True, json_lines=True,
                 tensorboard=True, page=True):
        super().__init__(recorder, str(folder), json_lines, tensorboard, page, title, page_every, at_any_end)
        self._page = page

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is not None:
            self.set_note(f"ended by {kind.__name__}: {error}" if str(error) else f"ended by {kind.__name__}")
        if self._page:
            self.save_page()


def load_history(path):
    """The history of a log, a file or a folder with gradients.jsonl, wherever it was made. OSError, ValueError."""
    return _core._load_history(str(path))


def comparison_html(left, right, titles=("left", "right")):
    """Two runs beside each other as one page. Each is a History, a recorder, or the path of a log."""

    def history(run):
        if isinstance(run, (str, pathlib.Path)):
            return load_history(run)
        return run.history() if isinstance(run, GradientRecorder) else run

    return _core._comparison_html(titles[0], history(left), titles[1], history(right))


class AnomalyGuard:
    """In a `with` block, or as a decorator, the first NaN or infinity that this thread makes raises RuntimeError, with the
    op, its line, the cause and what helps there. `forward=False` looks at gradients alone, which is cheaper.

    with AnomalyGuard():
        loss = model(x)
        loss.backward()
    """

    def __init__(self, *, forward=True, backward=True):
        self._options, self._guards = (forward, backward), []

    def __enter__(self):
        guard = _core._AnomalyGuard(*self._options)
        guard.enter()
        self._guards.append(guard)
        return self

    def __exit__(self, *_):
        self._guards.pop().leave()

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*arguments, **keywords):
            with AnomalyGuard(forward=self._options[0], backward=self._options[1]):
                return function(*arguments, **keywords)

        return inside


class Profiler(_core._Profiler):
    """Measures a block kernel by kernel, forward and backward; one at a time.

    with Profiler() as profiler:
        train_step()
    print(profiler.table(by_line=True))
    profiler.save_trace("trace.json")    # for ui.perfetto.dev
    """

    def __init__(self, *, synchronize=True, device_spans=True, most_events=1000000):
        super().__init__(synchronize, device_spans, most_events)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def save_trace(self, path):
        """Writes the trace to a file."""
        pathlib.Path(path).write_text(self.chrome_trace())


def draw_graph(tensor, names=None, *, shapes=True, most_nodes=300):
    """The graph that leads to a tensor; in a notebook it shows as a picture. `names` is a module or a dict that names
    leaves. RuntimeError where the tensor requires no gradient."""
    return _core._draw_graph(tensor, [] if names is None else _named(names, "draw_graph"), shapes, most_nodes)


class MemoryHistory(_core._MemoryHistory):
    """Notes every tensor that is made and freed, by line, op and kind: parameter, gradient, activation, optimizer or other.
    One at a time. In a notebook it shows the last step's memory as a picture.

    with MemoryHistory(model) as history:
        for ...:
            loss.backward(); optimizer.step(); history.step()
        print(history.text(), history.growth_text())
    """

    def __init__(self, module=None):
        super().__init__(_named(module or {}, "MemoryHistory"))

    def snapshot(self, device="cpu"):
        """What lives on a device: a dict with `allocated`, `kinds` and `tensors`, the largest first."""
        return json.loads(self._json(device))

    def peak(self, device="cpu"):
        """The same of the last step's highest moment."""
        return json.loads(self._peak_json(device))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _repr_html_(self):
        return self.svg()


def memory_snapshot(device="cpu", module=None):
    """What lives on a device: without a MemoryHistory tensors of a megabyte and more, and the module's parameters."""
    return json.loads(_core._memory_snapshot(device, _named(module or {}, "memory_snapshot")))
