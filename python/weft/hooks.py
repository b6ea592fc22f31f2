"""Tools on hooks: the gradient recorder."""

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
