"""Tools on hooks: the gradient recorder, and memory by line."""

import json
import weakref

from weft import _core
from weft._core import Tensor


class GradientRecorder(_core._GradientRecorder):
    """Watches the gradients of a module, or of named parameters, from step to step; in a notebook it shows as a page.

    recorder = GradientRecorder(model)
    for ...:
        loss.backward(); optimizer.step(); recorder.step(loss.item())
    recorder.suspects()
    """

    def __init__(self, module, *, every=1, histogram_every=10, activations=True, kept_steps=512):
        named = getattr(module, "named_parameters", None)
        parameters = list(named()) if named is not None else [(str(n), p) for n, p in dict(module).items()]
        for name, parameter in parameters:
            if not isinstance(parameter, Tensor):
                raise TypeError(f"GradientRecorder(): argument 'module' must hold tensors, not {type(parameter).__name__}")
        super().__init__(parameters, every, histogram_every, kept_steps)
        self._handles = []
        if named is not None and activations:
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

    def _repr_html_(self):
        return self.html()


def _named(module):
    named = getattr(module, "named_parameters", None)
    return list(named()) if named is not None else [(str(n), p) for n, p in dict(module or {}).items()]


class MemoryHistory(_core._MemoryHistory):
    """Notes every tensor that is made and freed, by line, op and kind: parameter, gradient, activation, optimizer or other.
    One at a time. In a notebook it shows the last step's memory as a picture.

    with MemoryHistory(model) as history:
        for ...:
            loss.backward(); optimizer.step(); history.step()
        print(history.text(), history.growth_text())
    """

    def __init__(self, module=None):
        super().__init__(_named(module))

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
    return json.loads(_core._memory_snapshot(device, _named(module)))
