"""torch.autograd.forward_ad: dual tensors, whose tangents come from two passes of backward.

A dual tensor records its graph. unpack_dual() computes the tangent of a result as the derivative of its gradients with
respect to the seed, so that every op with a derivative of second order has one here.
"""

import collections
import contextlib

import weft
from weft import autograd
from weft._autograd_functional import _grad

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual", "_current_level",
           "_is_fwd_grad_enabled", "_set_fwd_grad_enabled"]

UnpackedDualTensor = collections.namedtuple("UnpackedDualTensor", "primal tangent")
_current_level = -1
_pairs: list = []  # (dual tensor, its version, source of its graph, tangent) of the level


def enter_dual_level():
    """Begins the level; there is one at a time."""
    global _current_level
    if _current_level >= 0:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _current_level += 1
    return _current_level


def exit_dual_level(*, level=None):
    """Ends the level: its dual tensors have no tangents any more."""
    global _current_level
    if level is not None and level != _current_level or _current_level < 0:
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created. This is not supported.")
    _pairs.clear()
    _current_level -= 1


class dual_level(contextlib.ContextDecorator):
    """The level in a `with` block."""

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *_):
        exit_dual_level()


def make_dual(tensor, tangent, *, level=None):
    """The tensor with a tangent."""
    if _current_level < 0:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to "
                           "enter_dual_level() first.")
    if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if not (tangent.dtype.is_floating_point or tangent.dtype.is_complex):
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(f"Expected tangent of shape {tuple(tensor.shape)}, got {tuple(tangent.shape)}")
    with weft.enable_grad():
        source = tensor.clone() if tensor.requires_grad else tensor.detach().requires_grad_()
        dual = source.clone()  # no leaf, so that ops may write to it
    _pairs.append((dual, dual._version, source, tangent))
    return dual


def unpack_dual(tensor, *, level=None):
    """(primal, tangent); the tangent of a tensor that does not depend on a dual one is None."""
    if _current_level < 0 or not _pairs:
        return UnpackedDualTensor(tensor, None)
    written = False
    for dual, version, _, tangent in _pairs:
        if tensor is dual and tensor._version == version:
            return UnpackedDualTensor(tensor, tangent)
        written = written or tensor is dual
    if not tensor.requires_grad:
        return UnpackedDualTensor(tensor, weft.zeros_like(tensor) if written else None)
    with weft.enable_grad():
        seed = weft.zeros_like(tensor).requires_grad_()
        gradients = autograd.grad([tensor], [source for _, _, source, _ in _pairs], [seed], retain_graph=True, create_graph=True,
                                  allow_unused=True)
        used = [(g, tangent) for g, (_, _, _, tangent) in zip(gradients, _pairs) if g is not None]
        if not used:
            return UnpackedDualTensor(tensor, weft.zeros_like(tensor) if written else None)
        tangent, = _grad([g for g, _ in used], [seed], [t.to(g.dtype) for g, t in used], strict=False,
                         create_graph=any(g.requires_grad and t.requires_grad for g, t in used))
    return UnpackedDualTensor(tensor, tangent)


def _is_fwd_grad_enabled():
    return True


class _set_fwd_grad_enabled:
    """Nothing: tangents follow from the graph."""

    def __init__(self, mode):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass
