"""Layers that put edges around images, or let channels change places with pixels."""

from numbers import Integral

from weft.errors import ValueError
from weft.nn import functional as F
from weft.nn.layers import _on_meta
from weft.nn.module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle", "ChannelShuffle"]


class _Pad(Module):
    """The edges of the last dimensions, from the last one on: one number for all, or two for each."""

    _dims, _mode, _value = 1, "constant", None

    def __init__(self, padding):
        super().__init__()
        self.padding = (padding,) * (2 * self._dims) if isinstance(padding, Integral) else tuple(padding)
        if len(self.padding) != 2 * self._dims:
            raise ValueError(f"{type(self).__name__}(): argument 'padding': expected one or {2 * self._dims} integers, got {padding!r}")
        _Pad.forward(self, self._image())

    def _image(self):
        """The smallest image on meta that can be padded so, for a call that raises the errors of the options."""
        edges = [abs(edge) if isinstance(edge, Integral) else 0 for edge in reversed(self.padding)]
        sizes = [before + after + 1 for after, before in zip(edges[::2], edges[1::2])]
        return _on_meta(0, 1, *(size if size < 1 << 62 else 1 for size in sizes))

    def forward(self, input):
        return F.pad(input, self.padding, self._mode, self._value)

    def extra_repr(self):
        return str(self.padding)


class _ConstantPad(_Pad):
    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value
        _ConstantPad.forward(self, self._image())

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


def _layers(name, base, document, **settings):
    for dims in (1, 2, 3):
        layer = type(f"{name}{dims}d", (base,), {"_dims": dims, "__doc__": document, "__module__": __name__, **settings})
        globals()[layer.__name__] = layer
        __all__.append(layer.__name__)


_layers("ConstantPad", _ConstantPad, "Edges of one value.")
_layers("ZeroPad", _Pad, "Edges of zeros.")
_layers("ReflectionPad", _Pad, "Edges mirrored at the outermost element.", _mode="reflect")
_layers("ReplicationPad", _Pad, "Edges of the outermost element.", _mode="replicate")
_layers("CircularPad", _Pad, "Edges of the elements of the other side.", _mode="circular")


_no_images = _on_meta(0, 0, 0, 0)


class PixelShuffle(Module):
    """[..., channels * r * r, rows, columns] as [..., channels, rows * r, columns * r]."""

    def __init__(self, upscale_factor):
        super().__init__()
        self.upscale_factor = upscale_factor
        F.pixel_shuffle(_no_images, upscale_factor)

    def forward(self, input):
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self):
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """[..., channels, rows * r, columns * r] as [..., channels * r * r, rows, columns]."""

    def __init__(self, downscale_factor):
        super().__init__()
        self.downscale_factor = downscale_factor
        F.pixel_unshuffle(_no_images, downscale_factor)

    def forward(self, input):
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self):
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """The channels, seen as [groups, channels / groups], transposed."""

    def __init__(self, groups):
        super().__init__()
        self.groups = groups
        F.channel_shuffle(_no_images, groups)

    def forward(self, input):
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self):
        return f"groups={self.groups}"
