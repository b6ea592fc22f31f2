"""The common layers. Parameters start as PyTorch's do, drawn in float32 on the CPU."""

import inspect
import math

from weft import _core
from weft.errors import ValueError
from weft.nn import functional as F
from weft.nn.described import _Described, _WithTensors, described
from weft.nn.module import Module, NativeModule, Parameter

__all__ = ["Linear", "Bilinear", "Embedding", "EmbeddingBag", "LayerNorm", "RMSNorm", "PReLU", "TransformerBlock", "CrossEntropyLoss",
           "NLLLoss", "MSELoss", "L1Loss", "HuberLoss", "SmoothL1Loss", "BCEWithLogitsLoss", "BCELoss", "KLDivLoss",
           "GaussianNLLLoss", "PoissonNLLLoss", "CosineEmbeddingLoss", "HingeEmbeddingLoss", "MarginRankingLoss",
           "SoftMarginLoss", "MultiMarginLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "TripletMarginLoss",
           "TripletMarginWithDistanceLoss", "CTCLoss", "LinearCrossEntropyLoss"]


@described
class Linear(_WithTensors):
    """x · weightᵀ + bias; weight is [out_features, in_features]."""

    switches = {"bias": ("bias",)}

    def reset_parameters(self):
        fresh = Linear(self.in_features, self.out_features, self.bias is not None)
        self.load_state_dict(fresh.state_dict())

    def forward(self, input):
        return F.linear(input, self.weight, self.bias)


@described
class Bilinear(_WithTensors):
    """x1ᵀ · weight · x2 + bias; weight is [out_features, in1_features, in2_features]."""

    switches = {"bias": ("bias",)}

    def forward(self, input1, input2):
        return F.bilinear(input1, input2, self.weight, self.bias)


def _refuse_scaled_gradients(layer, options):
    if options["scale_grad_by_freq"]:
        raise NotImplementedError(f"{type(layer).__name__}(): 'scale_grad_by_freq' is there with its default alone")


def _set_rows(layer, rows, learns=True):
    """Counts padding_idx from the start, and puts the given rows in the place of those that were drawn."""
    if layer.padding_idx is not None:
        layer.padding_idx %= layer.num_embeddings
    if rows is None:
        return
    if not isinstance(rows, _core.Tensor):
        raise TypeError(f"{type(layer).__name__}(): argument '_weight': expected a Tensor, got {type(rows).__name__}")
    wanted = layer.num_embeddings, layer.embedding_dim
    if tuple(rows.shape) != wanted:
        raise ValueError(f"{type(layer).__name__}(): expected a weight of shape {list(wanted)}, got {list(rows.shape)}")
    layer.weight = Parameter(rows, learns)


@described
class Embedding(_WithTensors):
    """Rows of weight [num_embeddings, embedding_dim] at integer indices; with max_norm, rows that a call reads are scaled
    down to that norm before."""

    def _set_options(self, _weight=None, _freeze=False, **options):
        _refuse_scaled_gradients(self, options)
        super()._set_options(**options)
        _set_rows(self, _weight, not _freeze)

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, padding_idx=None, max_norm=None, norm_type=2.0,
                        scale_grad_by_freq=False, sparse=False):
        """A layer with these rows, which do not learn if frozen."""
        if embeddings.ndim != 2:
            raise ValueError(f"from_pretrained(): expected a matrix of rows, got {embeddings.ndim} dimensions")
        return cls(*embeddings.shape, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze)

    def get_config(self):
        return {key: value for key, value in super().get_config().items() if key not in ("_weight", "_freeze")}

    def forward(self, input):
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, sparse=self.sparse)


@described
class EmbeddingBag(_WithTensors):
    """The sum, mean or maximum of the rows of weight [num_embeddings, embedding_dim] at each bag of indices."""

    def _set_options(self, _weight=None, **options):
        _refuse_scaled_gradients(self, options)
        super()._set_options(**options)
        _set_rows(self, _weight)

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


@described
class LayerNorm(_WithTensors):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions."""

    switches = {"elementwise_affine": ("weight", "bias"), "bias": ("bias",)}

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


@described
class RMSNorm(_WithTensors):
    """x / sqrt(mean(x * x) + eps) * weight over the last dimensions."""

    switches = {"elementwise_affine": ("weight",)}

    def forward(self, input):
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)


class TransformerBlock(NativeModule):
    """x + attention(norm1(x)), then x + down(gelu(up(norm2(x)))): the pre-norm block of GPT-2, computed by C++'s layers.
    x is [batch, length, width]; `hidden` is 4 * width where it is 0."""

    def __init__(self, width, heads, hidden=0, causal=True, dropout=0.0, bias=True, *, device=None, dtype=None):
        options = {"width": width, "heads": heads, "hidden": hidden, "causal": causal, "dropout": dropout, "bias": bias}
        super().__init__(_core._described_layer("TransformerBlock", options, native=True))
        if device is not None or dtype is not None:
            self.to(device, dtype)


@described
class PReLU(_WithTensors):
    """x where it is above 0, else x * weight, which is learned: one number, or one for each channel (dimension 1)."""

    def forward(self, input):
        return F.prelu(input, self.weight)


def _on_meta(*sizes):
    """A tensor for calls that raise the errors of a layer's options."""
    return _core._ops["empty"](sizes, device="meta")


class _Loss(_Described):
    """A loss, whose tensors are buffers."""

    arguments = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in ("size_average", "reduce")]
    extra_repr = Module.extra_repr

    def _set_options(self, size_average=None, reduce=None, **options):
        name = type(self).__name__
        if size_average is not None or reduce is not None:
            raise NotImplementedError(f"{name}(): use 'reduction' in place of 'size_average' and 'reduce'")
        super()._set_options(**options)
        for tensor in self._tensors():
            self.register_buffer(tensor, options[tensor])

    def _tensors(self):
        return [name for name in ("weight", "pos_weight") if name in self.options]

    def get_config(self):
        weights = {name: getattr(self, name) for name in self._tensors()}
        shapes = {name: None if weight is None else tuple(weight.shape) for name, weight in weights.items()}
        return {**shapes, **{name: getattr(self, name) for name in self.options if name not in shapes}}

    @classmethod
    def from_config(cls, config):
        weights = {name: None if value is None else _core._ops["ones"](value)
                   for name, value in config.items() if name in ("weight", "pos_weight")}
        return cls(**{**config, **weights})

    def _given(self):
        return {name: getattr(self, name) for name in self.options}

    def forward(self, *inputs):
        return type(self).function(*inputs, **self._given())


@described
class KLDivLoss(_Loss):
    def _checked(self, options):
        return options | {"reduction": "mean"} if options["reduction"] == "batchmean" else options


for _name in ("CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "HuberLoss", "SmoothL1Loss", "BCEWithLogitsLoss", "BCELoss",
              "GaussianNLLLoss", "PoissonNLLLoss", "CosineEmbeddingLoss", "HingeEmbeddingLoss", "MarginRankingLoss",
              "SoftMarginLoss", "MultiMarginLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "CTCLoss"):
    globals()[_name] = described(type(_name, (_Loss,), {"__module__": __name__}))


@described
class TripletMarginLoss(_Loss):
    pass


class TripletMarginWithDistanceLoss(_Loss):
    __doc__ = F.triplet_margin_with_distance_loss.__doc__
    function, description = staticmethod(F.triplet_margin_with_distance_loss), "TripletMarginLoss"
    options = {name: TripletMarginLoss.options[name] for name in ("margin", "swap", "reduction")}

    def __init__(self, *, distance_function=None, margin=1.0, swap=False, reduction="mean", size_average=None, reduce=None):
        if distance_function is not None and not callable(distance_function):
            raise TypeError("TripletMarginWithDistanceLoss(): argument 'distance_function': expected a function or None, got "
                            f"{type(distance_function).__name__}")
        self._set_options(size_average, reduce, margin=margin, swap=swap, reduction=reduction)
        self.distance_function = distance_function

    def get_config(self):
        return {"distance_function": self.distance_function, **super().get_config()}

    def _given(self):
        return {"distance_function": self.distance_function, **super()._given()}


class LinearCrossEntropyLoss(Module):
    """The cross entropy of a linear layer's results, [N, in_features] to [N, num_classes, *out_features], with targets."""

    def __init__(self, in_features, num_classes, *, out_features=(), bias=False, device=None, dtype=None, reduction="mean",
                 weight=None, ignore_index=None, label_smoothing=0.0, options=None):
        super().__init__()
        if weight is not None and not isinstance(weight, _core.Tensor):
            raise TypeError(f"LinearCrossEntropyLoss(): argument 'weight': expected a Tensor, got {type(weight).__name__}")
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise ValueError(f"LinearCrossEntropyLoss(): a weight of shape {tuple(weight.shape)} is not [{num_classes}]")
        if not 0 <= label_smoothing <= 1:
            raise ValueError(f"LinearCrossEntropyLoss(): argument 'label_smoothing': expected a number in [0, 1], got {label_smoothing}")
        if options is not None:
            raise NotImplementedError("LinearCrossEntropyLoss(): argument 'options' is there with its default alone")
        scores = _on_meta(0, num_classes, *out_features)
        if num_classes < 1:
            raise ValueError(f"LinearCrossEntropyLoss(): argument 'num_classes': expected at least 1, got {num_classes}")
        F.cross_entropy(scores, scores[:, 0].long(), None, reduction=reduction,
                        ignore_index=-100 if ignore_index is None else ignore_index, label_smoothing=label_smoothing)
        self.num_classes, self.out_features, self.reduction = num_classes, tuple(out_features), reduction
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        self.register_buffer("weight", weight)
        self.linear = Linear(in_features, math.prod(self.out_features, start=num_classes), bias, device, dtype)

    def forward(self, input, target):
        shape, bias = (self.num_classes, *self.out_features), self.linear.bias
        if "forward" in vars(self.linear):  # that of an adapter or of low precision
            logits = self.linear(input).reshape(*input.shape[:-1], *shape)
            return F.cross_entropy(logits, target, self.weight, reduction=self.reduction, label_smoothing=self.label_smoothing,
                                   ignore_index=-100 if self.ignore_index is None else self.ignore_index)
        return F.linear_cross_entropy(input, self.linear.weight.reshape(*shape, -1), target,
                                      linear_bias=None if bias is None else bias.reshape(shape), weight=self.weight,
                                      reduction=self.reduction, ignore_index=self.ignore_index,
                                      label_smoothing=self.label_smoothing, options=self.options)

    def extra_repr(self):
        return (f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
                f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
                f"label_smoothing={self.label_smoothing}, options={self.options}")
