"""Names of torch.nn.functional beside weft.nn.functional: in-place forms and old names."""

from weft.nn import functional as F
from weft.torch import _nn_grad as grad  # noqa: F401
from weft.torch._losses import functions

__all__ = ["grad", "adaptive_max_pool1d_with_indices", "gumbel_softmax", "hardsigmoid", "upsample", "upsample_bilinear", "upsample_nearest"]


def _in_place(name):
    function = getattr(F, name)

    def apply(input, *args, **kwargs):
        return input.copy_(function(input.clone() if input.requires_grad else input, *args, **kwargs))

    apply.__name__, apply.__doc__ = name + "_", f"In place: {function.__doc__}"
    return apply


for _name in ("relu", "elu", "selu", "celu", "leaky_relu", "hardtanh", "rrelu", "threshold"):
    globals()[_name + "_"] = _in_place(_name)
    __all__.append(_name + "_")

adaptive_max_pool1d_with_indices, gumbel_softmax, hardsigmoid = (F.adaptive_max_pool1d_with_indices, F.gumbel_softmax,
                                                                 F.hardsigmoid)


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """interpolate."""
    return F.interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate by the nearest element."""
    return F.interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate by lines with aligned corners."""
    return F.interpolate(input, size, scale_factor, "bilinear", True)


globals().update(functions)
__all__ += functions
