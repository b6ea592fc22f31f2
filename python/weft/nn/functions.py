"""Layers of one function each, which C++ describes: activations, pooling, padding, dropout, shapes and distances."""

from weft.errors import ValueError
from weft.nn import functional as F
from weft.nn.described import _descriptions, _Described, described
from weft.nn.module import Module

__all__ = ["Identity", "Softmin", "Softmax2d", "UpsamplingNearest2d", "UpsamplingBilinear2d"]


class Identity(Module):
    """x itself."""

    def __init__(self, *_, **__):
        super().__init__()

    def forward(self, input):
        return input


class _Dropout(_Described):
    def forward(self, input):
        return type(self).function(input, self.p, self.training, self.inplace)


class _RandomSlope(_Described):
    def forward(self, input):
        return type(self).function(input, training=self.training, **self._given())


class _Pad(_Described):
    """The edges of the last dimensions, from the last one on: one number for all, or two for each."""

    value = None
    get_config = Module.get_config  # one number for all stays one

    def forward(self, input):
        family = self.description[:-len("Pad1d")]
        mode = {"Reflection": "reflect", "Replication": "replicate", "Circular": "circular"}.get(family, "constant")
        return F.pad(input, self.padding, mode, self.value)


class _Adaptive(_Described):
    def _checked(self, options):
        sizes = options["output_size"]  # None keeps a size
        if isinstance(sizes, (tuple, list)):
            options = options | {"output_size": [1 if size is None else size for size in sizes]}
        return super()._checked(options)


class _Unpool(_Described):
    def forward(self, input, indices, output_size=None):
        return type(self).function(input, indices, output_size=output_size, **self._given())


class _Unflatten(_Described):
    def forward(self, input):
        return input.unflatten(self.dim, self.unflattened_size)


class _OfTwo(_Described):
    def forward(self, x1, x2):
        return type(self).function(x1, x2, **self._given())


class _Distance(_OfTwo):
    norm = property(lambda self: self.p, lambda self, norm: setattr(self, "p", norm), doc="PyTorch's name of p.")


class _Upsample(_Described):
    def _set_options(self, **options):
        factor = options["scale_factor"]
        if factor is not None:
            factor = tuple(map(float, factor)) if isinstance(factor, (tuple, list)) else float(factor)
        super()._set_options(**options | {"scale_factor": factor})

    def extra_repr(self):
        size = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}"


def _base_of(name):
    bases = {"Unflatten": _Unflatten, "Upsample": _Upsample, "CosineSimilarity": _OfTwo, "PairwiseDistance": _Distance,
             "RReLU": _RandomSlope}
    families = {"Dropout": _Dropout, "Pad": _Pad, "Adaptive": _Adaptive, "Unpool": _Unpool}
    return bases.get(name) or next((base for part, base in families.items() if part in name), _Described)


for _name, (_function, _) in _descriptions.items():
    if _function:
        globals()[_name] = described(type(_name, (_base_of(_name),), {"__module__": __name__}))
        __all__.append(_name)


class Softmin(Softmax):  # noqa: F821
    function = staticmethod(F.softmin)
    __doc__ = F.softmin.__doc__


class Softmax2d(Module):
    """softmax over the channels of [N, C, H, W] or [C, H, W]."""

    def forward(self, input):
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d(): input: expected 3 or 4 dimensions, got {input.ndim}")
        return F.softmax(input, -3)


class _Upsampling(Upsample):  # noqa: F821
    @classmethod
    def from_config(cls, config):
        return cls(config["size"], config["scale_factor"])


class UpsamplingNearest2d(_Upsampling):
    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(_Upsampling):
    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, "bilinear", True)
