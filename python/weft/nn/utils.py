"""Help for training loops."""

from weft import _core


def _listed(parameters):
    return [parameters] if isinstance(parameters, _core.Tensor) else list(parameters)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales all gradients in place so that their joint norm is at most max_norm; returns the norm they had."""
    return _core._clip_grad_norm_(_listed(parameters), float(max_norm), float(norm_type), error_if_nonfinite)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Limits every element of the gradients to ±clip_value, in place."""
    _core._clip_grad_value_(_listed(parameters), float(clip_value))
