"""Help for training loops."""

from weft import _core


def clip_grad_norm_(parameters, max_norm):
    """Scales all gradients in place so that their joint Euclidean norm is at most max_norm; returns the norm they had."""
    parameters = [parameters] if isinstance(parameters, _core.Tensor) else list(parameters)
    return _core._clip_grad_norm_(parameters, float(max_norm))
