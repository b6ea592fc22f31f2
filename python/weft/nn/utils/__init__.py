"""Help for training loops."""

from weft import _core
from weft._modes import no_grad
from weft.nn.utils import parametrizations, parametrize, prune, rnn  # noqa: F401


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


def parameters_to_vector(parameters):
    """All elements of the parameters as one vector."""
    return _core._ops["cat"]([p.reshape(-1) for p in _listed(parameters)])


def vector_to_parameters(vec, parameters):
    """Writes the elements of a vector into the parameters, in order. ValueError where their numbers differ."""
    parameters = _listed(parameters)
    counts = [p.numel() for p in parameters]
    if vec.numel() != sum(counts):
        raise ValueError(f"vector_to_parameters(): {vec.numel()} elements for parameters of {sum(counts)}")
    with no_grad():
        for p, part in zip(parameters, vec.split(counts)):
            p.copy_(part.reshape(p.shape))


def convert_conv2d_weight_memory_format(module, memory_format):
    """The module: every memory format means row-major."""
    return module


convert_conv3d_weight_memory_format = convert_conv2d_weight_memory_format


def skip_init(module_cls, *args, **kwargs):
    """The module; its parameters have first values all the same."""
    return module_cls(*args, **kwargs)


def __getattr__(name):
    if name in ("fusion", "stateless"):  # which import all of weft.nn
        import importlib

        return importlib.import_module(f"weft.nn.utils.{name}")
    if name in ("fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"):
        from weft.nn.utils import fusion

        return getattr(fusion, name)
    raise AttributeError(f"module 'weft.nn.utils' has no attribute '{name}'")
