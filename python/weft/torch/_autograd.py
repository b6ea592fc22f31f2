"""Names of torch.autograd beside weft.autograd."""

import contextlib
import functools

import weft
from weft import hooks
from weft.autograd import Function, FunctionCtx  # noqa: F401
from weft.torch._legacy import Variable  # noqa: F401

__all__ = ["InplaceFunction", "NestedIOFunction", "Variable", "detect_anomaly", "enforce_grad_layout_policy",
           "kineto_available", "once_differentiable", "set_detect_anomaly", "set_multithreading_enabled"]

InplaceFunction = NestedIOFunction = Function


def kineto_available():
    """False: profiles are those of Weft's own profiler."""
    return False


class set_multithreading_enabled:
    """Nothing: backward runs on the thread that calls it."""

    def __init__(self, mode):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def enforce_grad_layout_policy(*_, **__):
    """Nothing: gradients are row-major."""


class _OnceDifferentiated(Function):
    """Gradients whose own gradient is an error."""

    @staticmethod
    def forward(ctx, *gradients):
        return tuple(g.detach() for g in gradients)

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(fn):
    """A backward that is not recorded: a second derivative through it raises RuntimeError."""
    @functools.wraps(fn)
    def backward(ctx, *gradients):
        with weft.no_grad():
            returned = fn(ctx, *gradients)
        if not weft.is_grad_enabled() or not any(isinstance(g, weft.Tensor) and g.requires_grad for g in gradients):
            return returned
        items = returned if isinstance(returned, tuple) else (returned,)
        tensors = [g for g in items if g is not None]
        anchor = weft.zeros(()).requires_grad_()
        recorded = iter(_OnceDifferentiated.apply(*tensors, anchor)[:-1])
        items = tuple(None if g is None else next(recorded) for g in items)
        return items if isinstance(returned, tuple) else items[0]

    return backward


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


