"""Bases of layers with leading underscores, and tuples of sizes, below torch.nn.modules."""

import abc
import collections.abc

from weft import nn
from weft.nn import convolution
from weft.nn.lazy import _Lazy as LazyModuleMixin
from weft.nn.module import Module
from weft.torch._losses import reduction_of

__all__ = ["_AdaptiveAvgPoolNd", "_AvgPoolNd", "_BatchNorm", "_ConvNd", "_ConvTransposeNd", "_DropoutNd", "_InstanceNorm",
           "_LazyNormBase", "_Loss", "_MaxPoolNd", "_NormBase", "_WeightedLoss", "_ntuple", "_pair", "_quadruple",
           "_reverse_repeat_tuple", "_single", "_triple", "consume_prefix_in_state_dict_if_present",
           "LazyModuleMixin"]

_BatchNorm, _InstanceNorm, _NormBase = convolution._BatchNorm, convolution._InstanceNorm, convolution._ChannelNorm
_LazyNormBase = _NormBase


def _family(name, members):
    """A class that isinstance and issubclass take for a base of these layers."""
    made = abc.ABCMeta(name, (), {"__doc__": f"The base of {', '.join(members)}.", "__module__": __name__})
    for member in members:
        made.register(getattr(nn, member))
    return made


def _each(name):
    return [name + dims for dims in ("1d", "2d", "3d")]


_ConvTransposeNd = _family("_ConvTransposeNd", _each("ConvTranspose"))
_ConvNd = _family("_ConvNd", _each("Conv") + _each("ConvTranspose"))
_DropoutNd = _family("_DropoutNd", ["Dropout", *_each("Dropout"), "AlphaDropout", "FeatureAlphaDropout"])
_MaxPoolNd, _AvgPoolNd = _family("_MaxPoolNd", _each("MaxPool")), _family("_AvgPoolNd", _each("AvgPool"))
_AdaptiveAvgPoolNd = _family("_AdaptiveAvgPoolNd", _each("AdaptiveAvgPool"))


class _Loss(Module):
    """A loss with a reduction."""

    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__()
        self.reduction = reduction_of(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """A loss with a weight of each class."""

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


def _ntuple(n, name="parse"):
    """The function that makes n sizes of one; others become a tuple."""
    def parse(x):
        return tuple(x) if isinstance(x, collections.abc.Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = (_ntuple(n, name) for n, name in enumerate(
    ("_single", "_pair", "_triple", "_quadruple"), 1))


def _reverse_repeat_tuple(t, n):
    return tuple(x for x in reversed(t) for _ in range(n))


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Takes the prefix off the names of a state, in place."""
    for name in [name for name in state_dict if name.startswith(prefix)]:
        state_dict[name[len(prefix):]] = state_dict.pop(name)
    metadata = getattr(state_dict, "_metadata", {})
    for name in [name for name in metadata if name and name.startswith(prefix.rstrip("."))]:
        metadata[name[len(prefix):]] = metadata.pop(name)
