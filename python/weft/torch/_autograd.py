"""Names of torch.autograd beside weft.autograd."""

import contextlib

from weft import hooks
from weft.autograd import Function, FunctionCtx  # noqa: F401
from weft.torch._legacy import Variable  # noqa: F401

__all__ = ["InplaceFunction", "Variable", "detect_anomaly", "once_differentiable", "set_detect_anomaly"]

InplaceFunction = Function


def once_differentiable(fn):
    """backward as it is: a second derivative follows from the ops that it calls."""
    return fn


class detect_anomaly:
    """Finds the op with the first NaN gradient in a `with` block; check_nan=False changes nothing."""

    def __init__(self, check_nan=True):
        self._guard = hooks.AnomalyGuard() if check_nan else contextlib.nullcontext()

    def __enter__(self):
        self._guard.__enter__()
        return self

    def __exit__(self, *error):
        return self._guard.__exit__(*error)


class set_detect_anomaly:
    """detect_anomaly from now on, or within a `with` block."""

    _on = None

    def __init__(self, mode, check_nan=True):
        before = set_detect_anomaly._on
        if before is not None:
            before.__exit__(None, None, None)
        set_detect_anomaly._on = detect_anomaly(check_nan) if mode else None
        if mode:
            set_detect_anomaly._on.__enter__()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        set_detect_anomaly(False)


