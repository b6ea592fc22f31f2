"""Mixed precision: `weft.autocast`, and loss scaling for float16."""

from weft import _core
from weft._core import Tensor
from weft._modes import autocast, get_autocast_dtype, is_autocast_enabled  # noqa: F401


def _core_of(optimizer):
    """C++'s optimizer, or one over the same parameters for an optimizer written in Python."""
    core = getattr(optimizer, "_core", None)
    if core is None:
        core = optimizer.__dict__.get("_stand_in")
    if core is None:
        from weft.optim import SGD

        core = optimizer._stand_in = SGD([p for group in optimizer.param_groups for p in group["params"]])._core
    return core


class GradScaler:
    """Scales the loss so that small float16 gradients do not underflow, skips steps with non-finite gradients, and
    adapts the scale (Micikevicius et al. 2018)."""

    def __init__(self, device="cpu", init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000,
                 enabled=True):
        self._options = (growth_factor, backoff_factor, growth_interval)
        self._enabled = bool(enabled)
        self._core = _core._GradScaler(init_scale, growth_factor, backoff_factor, growth_interval, self._enabled)

    def scale(self, outputs):
        """The loss, or each of several losses, times the scale."""
        if isinstance(outputs, Tensor):
            return self._core._scale(outputs)
        return type(outputs)(self.scale(t) for t in outputs)

    def unscale_(self, optimizer):
        """Divides the gradients by the scale, so that they can be clipped."""
        self._core._unscale(_core_of(optimizer))

    def step(self, optimizer, *args, **kwargs):
        """Returns optimizer.step(…); skips the step and returns None if a gradient is not finite."""
        return self._core._step(_core_of(optimizer), lambda: optimizer.step(*args, **kwargs))[1]

    def update(self, new_scale=None):
        """Ends the iteration: the scale grows, shrinks, or is set to `new_scale`."""
        if new_scale is not None:
            if self._enabled:
                self._core._set(float(new_scale), self._core._tracker)
            return
        self._core._update()

    def get_scale(self):
        return self._core._scale_now if self._enabled else 1.0

    def is_enabled(self):
        return self._enabled

    def get_growth_factor(self):
        return self._options[0]

    def get_backoff_factor(self):
        return self._options[1]

    def get_growth_interval(self):
        return self._options[2]

    def state_dict(self):
        """The scale, the options and the number of consecutive good steps; empty if scaling is disabled."""
        if not self._enabled:
            return {}
        growth_factor, backoff_factor, growth_interval = self._options
        return {"scale": self._core._scale_now, "growth_factor": growth_factor, "backoff_factor": backoff_factor,
                "growth_interval": growth_interval, "_growth_tracker": self._core._tracker}

    def load_state_dict(self, state_dict):
        if not self._enabled:
            return
        missing = {"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"} - set(state_dict)
        if missing:
            raise ValueError(f"GradScaler.load_state_dict(): the state lacks {', '.join(sorted(missing))}")
        options = (state_dict["growth_factor"], state_dict["backoff_factor"], state_dict["growth_interval"])
        core = _core._GradScaler(state_dict["scale"], *options, True)
        core._set(state_dict["scale"], state_dict["_growth_tracker"])
        self._core, self._options = core, options
