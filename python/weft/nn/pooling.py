"""Pooling, columns, other sizes, dropout of channels, and bags of embeddings: layers of one function each."""

import math
import numbers

from weft import _core
from weft.errors import ValueError
from weft.nn import functional as F
from weft.nn.convolution import _each
from weft.nn.layers import _Activation, _empty_batch
from weft.nn.module import Module, Parameter

__all__ = ["EmbeddingBag", "UpsamplingNearest2d", "UpsamplingBilinear2d"]


def _most(sizes):
    """The largest of a layer's sizes; 0 for other values, which the layer's function rejects."""
    listed = sizes if isinstance(sizes, (tuple, list)) else (sizes,)
    return max((size for size in listed if isinstance(size, numbers.Integral)), default=0)


class _Options(_Activation):
    """A function of one tensor whose options are attributes; without a stride windows lie side by side."""

    dims = 1  # of the images

    def _call_once(self):
        _Activation.forward(self, _empty_batch(self.dims, self._reach()))

    def _reach(self):
        """The largest distance from the first to the last element of a window, in any dimension."""
        kernel, dilation = (_most(getattr(self, key, 1)) for key in ("kernel_size", "dilation"))
        return kernel * dilation if kernel * dilation < 1 << 40 else 0

    def _set_options(self, values, options):
        super()._set_options(values, options)
        if "stride" in self.options and self.stride is None:
            self.stride = self.kernel_size


class _LPPool(_Options):
    """Keeps a stride of None, as PyTorch does; the function takes it for kernel_size."""

    def _set_options(self, values, options):
        _Activation._set_options(self, values, options)


class _Tuples(_Options):
    """Keeps its sizes as tuples of `dims` numbers."""

    def _set_options(self, values, options):
        super()._set_options(values, options)
        for key in ("kernel_size", "stride", "padding"):
            setattr(self, key, _each(getattr(self, key), self.dims))


class _Unpool(_Tuples):
    def _call_once(self):
        getattr(F, f"max_pool{self.dims}d")(_empty_batch(self.dims, self._reach()), self.kernel_size, self.stride, self.padding)

    def forward(self, input, indices, output_size=None):
        options = {key: getattr(self, key) for key in self.options}
        return type(self).function(input, indices, output_size=output_size, **options)


class _Upsample(_Options):
    dims = property(lambda self: {"bilinear": 2, "bicubic": 2, "trilinear": 3}.get(self.mode, max(
        len(given) if isinstance(given, (tuple, list)) else 1 for given in (self.size, self.scale_factor))))

    def _set_options(self, values, options):
        super()._set_options(values, options)
        factor = self.scale_factor
        if factor is not None:
            self.scale_factor = tuple(map(float, factor)) if isinstance(factor, (tuple, list)) else float(factor)

    def _reach(self):
        factors = self.scale_factor if isinstance(self.scale_factor, tuple) else (self.scale_factor,)
        return max([1, *(math.ceil(1 / factor) for factor in factors if factor is not None and 1e-12 < factor)])

    def extra_repr(self):
        size = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}"


class _Fold(_Options):
    def _call_once(self):
        size = self.output_size if isinstance(self.output_size, (tuple, list)) else (self.output_size,) * 2
        F.unfold(_core._ops["empty"]((0, 1, *size), device="meta"), self.kernel_size, self.dilation, self.padding, self.stride)


class _Fractional(_Options):
    def _call_once(self):
        samples = self._random_samples
        if samples is not None and not isinstance(samples, _core.Tensor):
            raise TypeError(f"{type(self).__name__}(): argument '_random_samples': expected a Tensor or None, got "
                            f"{type(samples).__name__}")
        options = {key: getattr(self, key) for key in self.options if key != "_random_samples"}
        reach = self._reach() + _most(self.output_size)
        type(self).function(_empty_batch(self.dims, reach), **options)


class _Random(_Options):
    """Draws in training alone."""

    def _call_once(self):
        options = {key: getattr(self, key) for key in self.options}
        type(self).function(_empty_batch(self.dims), training=False, **options)
        if "lower" in self.options and not math.isfinite(self.lower + self.upper):
            raise ValueError(f"RReLU(): expected finite slopes, got [{self.lower}, {self.upper}]")

    def _set_options(self, values, options):
        super()._set_options(values, options)
        if "p" in self.options and not 0 <= self.p <= 1:
            raise ValueError(f"{type(self).__name__}(): the probability {self.p} is outside [0, 1]")

    def forward(self, input):
        options = {key: getattr(self, key) for key in self.options}
        return type(self).function(input, training=self.training, **options)


def _layer(base, name, function, *, look={}, **options):
    globals()[name] = type(name, (base,), {
        **look, "function": staticmethod(getattr(F, function)), "options": options, "__module__": __name__,
        "__doc__": getattr(F, function).__doc__})
    __all__.append(name)


_dropout = {"shown": ("p", "inplace"), "dims": 2}
for _dims, _n in enumerate(("1d", "2d", "3d"), 1):
    _divisor = {} if _n == "1d" else {"divisor_override": None}
    _layer(_Options, "MaxPool" + _n, "max_pool" + _n, look={"dims": _dims}, kernel_size=..., stride=None, padding=0, dilation=1,
           return_indices=False, ceil_mode=False)
    _layer(_Tuples if _n == "1d" else _Options, "AvgPool" + _n, "avg_pool" + _n,
           look={"dims": _dims, "shown": ("kernel_size", "stride", "padding")}, kernel_size=..., stride=None, padding=0,
           ceil_mode=False, count_include_pad=True, **_divisor)
    _layer(_LPPool, "LPPool" + _n, "lp_pool" + _n, look={"dims": _dims}, norm_type=..., kernel_size=..., stride=None,
           ceil_mode=False)
    _layer(_Options, "AdaptiveAvgPool" + _n, "adaptive_avg_pool" + _n, look={"dims": _dims}, output_size=...)
    _layer(_Options, "AdaptiveMaxPool" + _n, "adaptive_max_pool" + _n, look={"dims": _dims}, output_size=...,
           return_indices=False)
    _layer(_Unpool, "MaxUnpool" + _n, "max_unpool" + _n, look={"dims": _dims}, kernel_size=..., stride=None, padding=0)
    if _n != "1d":
        _layer(_Fractional, "FractionalMaxPool" + _n, "fractional_max_pool" + _n, look={"dims": _dims, "shown": ()},
               kernel_size=..., output_size=None, output_ratio=None, return_indices=False, _random_samples=None)
    _layer(_Random, "Dropout" + _n, "dropout" + _n, look={**_dropout, "dims": _dims}, p=0.5, inplace=False)
_layer(_Random, "AlphaDropout", "alpha_dropout", look=_dropout, p=0.5, inplace=False)
_layer(_Random, "FeatureAlphaDropout", "feature_alpha_dropout", look=_dropout, p=0.5, inplace=False)
_layer(_Random, "RReLU", "rrelu", lower=1 / 8, upper=1 / 3, inplace=False)
_layer(_Options, "Unfold", "unfold", look={"dims": 2}, kernel_size=..., dilation=1, padding=0, stride=1)
_layer(_Fold, "Fold", "fold", output_size=..., kernel_size=..., dilation=1, padding=0, stride=1)
_layer(_Options, "LocalResponseNorm", "local_response_norm", look={"bare": ("size",)}, size=..., alpha=1e-4, beta=0.75, k=1.0)
_layer(_Upsample, "Upsample", "interpolate", size=None, scale_factor=None, mode="nearest", align_corners=None,
       recompute_scale_factor=None)


class UpsamplingNearest2d(Upsample):  # noqa: F821
    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):  # noqa: F821
    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, "bilinear", True)


class EmbeddingBag(Module):
    """The sum, mean or maximum of the rows of weight [num_embeddings, embedding_dim] at each bag of indices."""

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean",
                 sparse=False, _weight=None, include_last_offset=False, padding_idx=None, device=None, dtype=None):
        super().__init__()
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f"EmbeddingBag(): argument 'mode': expected 'sum', 'mean' or 'max', got {mode!r}")
        if max_norm is not None and not max_norm >= 0:
            raise ValueError(f"EmbeddingBag(): argument 'max_norm': expected at least 0, got {max_norm}")
        if not isinstance(norm_type, numbers.Real) or not isinstance(include_last_offset, bool):
            raise TypeError("EmbeddingBag(): arguments 'norm_type' and 'include_last_offset': expected a number and a bool, "
                            f"got {type(norm_type).__name__} and {type(include_last_offset).__name__}")
        if scale_grad_by_freq:
            raise NotImplementedError("EmbeddingBag(): 'scale_grad_by_freq' is there with its default alone")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"EmbeddingBag(): argument 'padding_idx': expected one of {num_embeddings} rows, got {padding_idx}")
        self.num_embeddings, self.embedding_dim, self.mode = num_embeddings, embedding_dim, mode
        self.max_norm, self.norm_type, self.include_last_offset = max_norm, norm_type, include_last_offset
        self.sparse = bool(sparse)
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        if _weight is not None and list(_weight.shape) != [num_embeddings, embedding_dim]:
            raise ValueError(f"EmbeddingBag(): a weight of shape {tuple(_weight.shape)} is not [{num_embeddings}, "
                             f"{embedding_dim}]")
        weight = _core._ops["randn"]((num_embeddings, embedding_dim)) if _weight is None else _weight
        self.weight = Parameter(weight.to(device, dtype) if device is not None or dtype is not None else weight)
        if self.padding_idx is not None and _weight is None:
            self.weight.detach()[self.padding_idx].zero_()

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean",
                        sparse=False, include_last_offset=False, padding_idx=None):
        """A layer with these rows, which do not learn if frozen."""
        rows, width = embeddings.shape
        layer = cls(rows, width, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings, include_last_offset,
                    padding_idx)
        layer.weight.requires_grad_(not freeze)
        return layer

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type, mode=self.mode,
                               per_sample_weights=per_sample_weights, include_last_offset=self.include_last_offset,
                               padding_idx=self.padding_idx, sparse=self.sparse)

    def extra_repr(self):
        shown = [f"{self.num_embeddings}, {self.embedding_dim}", f"mode={self.mode!r}"]
        shown += [f"padding_idx={self.padding_idx}"] * (self.padding_idx is not None)
        shown += [f"max_norm={self.max_norm}"] * (self.max_norm is not None)
        shown += ["sparse=True"] * self.sparse
        return ", ".join(shown)


del _n, _dims, _divisor, _dropout
