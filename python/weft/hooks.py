"""Tools on hooks: the gradient recorder and its pages, the anomaly guard, stops, replays, the profiler, graphs, memory by
line."""

import functools
import importlib
import json
import os
import pathlib
import pdb
import sys
import time
import types
import weakref

from weft import _core
from weft._core import Graph, History, Replayed, ReplayedStep, Tensor
from weft._training_state import _run, training_states

__all__ = ["AnomalyGuard", "BreakOn", "GradientLog", "GradientRecorder", "Graph", "History", "MemoryHistory", "Profiler",
           "Replayed", "ReplayedStep", "StepRecorder", "comparison_html", "draw_graph", "load_history", "memory_snapshot",
           "replay", "replay_step", "step_text", "watch"]


def _named(module, function):
    """Names and tensors of a module, or of a dict."""
    named = getattr(module, "named_parameters", None)
    pairs = list(named()) if named is not None else [(str(n), p) for n, p in dict(module).items()]
    for _, tensor in pairs:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{function}(): argument 'module': expected tensors, got {type(tensor).__name__}")
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
        state = getattr(module, "_state", None)
        whole = activations and isinstance(state, _core._Module)
        super().__init__(state if whole else _named(module, "GradientRecorder"), every, histogram_every, kept_steps)
        self._handles, self._shown = [], None
        if activations and not whole and hasattr(module, "named_modules"):
            self._watch_parts(module)

    def _watch_parts(self, module):
        """For objects that are not modules, such as a ParallelModel."""
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

    def remove(self):
        """Stops watching activations and calls."""
        for handle in self._handles:
            handle.remove()
        super().remove()

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

    def suspects(self):
        """Suspicious findings in sentences, worst first."""
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
        raise TypeError(f"watch(): argument 'tensor': expected Tensor, got {type(tensor).__name__}")
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
    op, its line, the cause and what helps there. `forward=False` looks at gradients alone, which is cheaper. The first one
    leaves its reproduction in the folder `repro`, which `replay` runs again; "" leaves none.

    with AnomalyGuard():
        loss = model(x)
        loss.backward()
    """

    def __init__(self, *, forward=True, backward=True, repro="repro"):
        self._options, self._guards = (forward, backward, os.fspath(repro)), []

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
            forward, backward, repro = self._options
            with AnomalyGuard(forward=forward, backward=backward, repro=repro):
                return function(*arguments, **keywords)

        return inside


def _stop(event):
    """A prompt in the program's own frame; `c` continues."""
    print(f"weft: stopped {event.text}", file=sys.stderr, flush=True)
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    debugger = pdb.Pdb()
    debugger.reset()
    debugger.interaction(frame, None)


class BreakOn:
    """In a `with` block, stops this thread at what is given, which must hold all at once: before each op of a name, what a
    line calls, or inside a module of `model`, forward and backward; with `non_finite` after the op that makes a NaN or an
    infinity, whose reproduction it leaves in the folder `repro`. `skip=3` passes over three first.

    with BreakOn(op="softmax"):              # pdb's prompt in the line that calls it
        model(x)
    with BreakOn(line="train.py:41", call=lambda event: print(event.text)):
        train()
    with BreakOn(model=net, module="blocks.2", non_finite=True):
        net(x).sum().backward()

    `call` gets an event with `op`, `location`, `backward`, `after`, `kernel`, `incoming`, `outgoing` and `text`; what it
    raises is the op's error. Where nothing that ran was what the names say, a warning tells at the end.
    """

    def __init__(self, *, op="", line="", module="", model=None, non_finite=False, skip=0, repro="repro", call=None):
        function = call or _stop
        if not callable(function):
            raise TypeError(f"BreakOn(): argument 'call': expected a callable, got {type(call).__name__}")
        state = None if model is None else getattr(model, "_state", None)
        if model is not None and state is None:
            raise TypeError(f"BreakOn(): argument 'model': expected a weft.nn.Module, got {type(model).__name__}")
        self._core = _core._BreakOn(op, line, module, non_finite, skip, os.fspath(repro),
                                    lambda event: (function(types.SimpleNamespace(**event)), None)[1], state)

    def __enter__(self):
        self._core.enter()
        return self

    def __exit__(self, *_):
        self._core.leave()

    @property
    def stops(self):
        """How often it stopped."""
        return self._core.stops


def replay(folder="repro", device=None):
    """Runs the call again that an AnomalyGuard or BreakOn left, on `device` or on the kind that it came from: a Replayed
    with `happens`, `text`, `inputs`, `outputs`, `arrived`. Only folders from a trusted place."""
    return _core._replay(os.fspath(folder), device)


def _told(function, caught):
    """`function` for C++: what it raises is put into `caught`, and an Exception comes as its text."""

    def step(batch):
        try:
            return function(batch)
        except BaseException as error:
            caught.append(error)
            if not isinstance(error, Exception):
                return None
            return f"{type(error).__name__}: {str(error)}".splitlines()[0]

    return step


class StepRecorder(_core._StepRecorder):
    """Keeps the last good and the first bad step of a training whole in the folder `folder`, to run them again bit for bit.

    def step(batch):                       # all that changes from step to step is in the batch
        optimizer.zero_grad()
        loss = loss_of(model(batch["x"]), batch["y"])
        loss.backward()
        optimizer.step()
        return loss

    recorder = StepRecorder("step.weft", model, optimizer)
    for x, y in loader:
        loss = recorder.step(step, {"x": x, "y": y})

    Bad is a step that raises an Exception, or whose loss, gradients or parameters hold NaN or infinity at its end, and
    one of which `finding()` says why. `add_state()` gives values that JSON can hold, by name, which `replay_step` hands
    to its `restore_state`.
    """

    def __init__(self, folder, model, optimizer=None, *, generators=None, masters=None, loss=True, gradients=True,
                 parameters=True, finding=None, add_state=None, most_bytes=4 << 30, first_step=0):
        def documents():
            return {name: json.dumps(value, allow_nan=False) for name, value in add_state().items()}

        self._parts = model, optimizer, generators, masters  # C++ refers to them
        super().__init__(os.fspath(folder), _run(model, optimizer, generators, masters), loss, gradients, parameters,
                         finding and (lambda: str(finding() or "")), add_state and documents, most_bytes, first_step)

    def step(self, function, batch):
        """Runs function(batch) and returns its loss; exceptions propagate."""
        folder = os.environ.get("WEFT_REPLAY_STEP")
        if folder:
            self._replay(folder, function)
        for name, tensor in dict(batch).items():
            if not isinstance(tensor, Tensor):
                raise TypeError(f"step(): '{name}' of the batch: expected Tensor, got {type(tensor).__name__}")
        caught, loss = [], None
        try:
            loss = self._step(_told(function, caught), dict(batch))
        except Exception:
            if not caught:
                raise
        if caught:
            raise caught[0]
        return loss

    def _replay(self, folder, function):
        model, optimizer, generators, masters = self._parts
        again = functools.partial(replay_step, folder, model, optimizer, function, generators=generators, masters=masters)
        if len(training_states(folder)) == 3:
            print(again(last_good=True).text)
        bad = again()
        print(bad.text, flush=True)
        raise SystemExit(1 if bad.happens else 0)


def replay_step(folder, model, optimizer, function, *, last_good=False, generators=None, masters=None, restore_state=None):
    """Loads the state with which a recorded step began into the run, and runs it: the bad one, or the good one before. A
    ReplayedStep with `happens`, `same_bits`, `differs`, `text`, `loss`. What the function raises goes on, unless the step
    raised the same then."""

    def restore(documents):
        own = {name: json.loads(text) for name, text in documents.items() if name != "recorded_step"}
        restore_state(own)

    caught = []
    try:
        return _core._replay_step(os.fspath(folder), _run(model, optimizer, generators, masters), _told(function, caught),
                                  last_good, restore_state and restore)
    except Exception:
        if not caught:
            raise
    raise caught[0]


def step_text(folder):
    """The contents of a StepRecorder's folder as readable lines."""
    return _core._step_text(os.fspath(folder))


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
        state = getattr(module, "_state", None)
        super().__init__(state if isinstance(state, _core._Module) else _named(module or {}, "MemoryHistory"))

    def snapshot(self, device="cpu"):
        """The tensors on a device: a dict with `allocated`, `kinds` and `tensors`, the largest first."""
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
    """The tensors on a device: without a MemoryHistory those of a megabyte and more, and the module's parameters."""
    return json.loads(_core._memory_snapshot(device, _named(module or {}, "memory_snapshot")))
