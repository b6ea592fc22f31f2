"""Help for training loops."""

from weft import _core
from weft.nn.utils import parametrizations, parametrize, rnn  # noqa: F401


def _listed(parameters):
    return [parameters] if isinstance(parameters, _core.Tensor) else list(parameters)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales all gradients in place so that their joint norm is at most max_norm; returns the norm they had. A parameter
    that is given twice counts once; an expanded gradient is replaced by a copy of its own."""
    return _core._clip_grad_norm_(_listed(parameters), float(max_norm), float(norm_type), error_if_nonfinite)


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The joint norm of tensors, such as gradients; a norm_type of 0 counts the elements that are not 0."""
    return _core._total_norm(_listed(tensors), float(norm_type), error_if_nonfinite)


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scales all gradients in place by min(1, max_norm / total_norm), as clip_grad_norm_ does."""
    _core._clip_grads_with_norm_(_listed(parameters), float(max_norm), total_norm)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Limits every element of the gradients to ±clip_value, in place."""
    _core._clip_grad_value_(_listed(parameters), float(clip_value))


def freeze(module, pattern=None):
    """Parameters whose names the regular expression (ECMAScript's, as in C++) finds, or all, get no gradients any more;
    returns the names of those that had. ValueError for a pattern that is none."""
    return _core._freeze(module._state, pattern or "", True)


def unfreeze(module, pattern=None):
    """The other way round."""
    return _core._freeze(module._state, pattern or "", False)
