"""The common layers. Parameters start as PyTorch's do, drawn in float32 on the CPU."""

import math
import numbers

from weft import _core
from weft.errors import ValueError
from weft.nn import functional as F
from weft.nn.described import _WithTensors, described
from weft.nn.module import Module, NativeModule, Parameter

__all__ = ["Linear", "Bilinear", "Embedding", "LayerNorm", "RMSNorm", "PReLU", "TransformerBlock", "CrossEntropyLoss",
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
        super().__init__(_core._transformer_block(width, heads, hidden, causal, dropout, bias))
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


def _check_types(name, defaults, options):
    """Raises TypeError for an option that is not a number as its default is."""
    for key, value in options.items():
        default = defaults[key]
        if key == "distance_function":
            fits, expected = value is None or callable(value), "a function or None"
        elif isinstance(default, bool):
            fits, expected = isinstance(value, bool), "a bool"
        elif isinstance(default, numbers.Integral):
            fits, expected = isinstance(value, numbers.Integral), "an integer"
        else:
            fits, expected = isinstance(value, numbers.Real), "a number"
        if not fits:
            raise TypeError(f"{name}(): argument '{key}': expected {expected}, got {type(value).__name__}")


def _check_loss(name, reduction, options):
    """Raises ValueError for options that no input suits."""
    allowed = ("none", "mean", "sum") + ("batchmean",) * (name == "KLDivLoss")
    if reduction not in allowed:
        raise ValueError(f"{name}(): argument 'reduction': expected one of {', '.join(allowed)}, got {reduction!r}")
    limits = {"label_smoothing": ("in [0, 1]", lambda x: 0 <= x <= 1), "delta": ("above 0", lambda x: x > 0),
              "beta": ("at least 0", lambda x: x >= 0), "blank": ("at least 0", lambda x: x >= 0)}
    if name.startswith("Triplet"):
        limits |= {"margin": ("above 0", lambda x: x > 0), "p": ("a number", lambda x: x == x)}
    if name == "MultiMarginLoss":
        limits["p"] = ("1 or 2", lambda x: x in (1, 2))
    for key in limits.keys() & options.keys():
        expected, holds = limits[key]
        if not holds(options[key]):
            raise ValueError(f"{name}(): argument '{key}': expected {expected}, got {options[key]}")


class _Loss(Module):
    def __init__(self, tensors, reduction, options):
        super().__init__()
        self.reduction, self.tensors, self.option_names = reduction, tuple(tensors), tuple(options)
        for name, value in options.items():
            setattr(self, name, value)
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    @property
    def options(self):
        return {name: getattr(self, name) for name in self.option_names}

    def get_config(self):
        weights = {name: getattr(self, name) for name in self.tensors}
        shapes = {name: None if weight is None else tuple(weight.shape) for name, weight in weights.items()}
        return {**shapes, **self.options, "reduction": self.reduction}

    @classmethod
    def from_config(cls, config):
        weights = {name: None if value is None else _core._ops["ones"](value)
                   for name, value in config.items() if name in ("weight", "pos_weight")}
        return cls(**{**config, **weights})

    def forward(self, *inputs):
        tensors = {name: getattr(self, name) for name in self.tensors}
        return self.function(*inputs, reduction=self.reduction, **tensors, **self.options)


def _loss(name, function, *tensors, positional=(), **defaults):
    """A module of a loss, whose tensors are buffers; the first of them, or the options in `positional`, may be given by
    position."""
    positional = positional or tensors[:1]

    def __init__(self, *first, size_average=None, reduce=None, reduction="mean", **options):
        if size_average is not None or reduce is not None:
            raise NotImplementedError(f"{name}(): use 'reduction' in place of 'size_average' and 'reduce'")
        if len(first) > len(positional):
            raise TypeError(f"{name}() takes at most {len(positional)} positional arguments, {len(first)} were given")
        options = {**dict(zip(positional, first)), **options}
        unknown = set(options) - set(defaults) - set(tensors)
        if unknown:
            raise TypeError(f"{name}() got an unexpected keyword argument '{unknown.pop()}'")
        held = {key: options.pop(key, None) for key in tensors}
        _check_types(name, defaults, options)
        _check_loss(name, reduction, {**defaults, **options})
        _Loss.__init__(self, held, reduction, {**defaults, **options})

    globals()[name] = type(name, (_Loss,), {"__init__": __init__, "function": staticmethod(function),
                                            "__doc__": function.__doc__, "__module__": __name__})


_loss("CrossEntropyLoss", F.cross_entropy, "weight", ignore_index=-100, label_smoothing=0.0)
_loss("NLLLoss", F.nll_loss, "weight", ignore_index=-100)
_loss("MSELoss", F.mse_loss)
_loss("L1Loss", F.l1_loss)
_loss("HuberLoss", F.huber_loss, delta=1.0)
_loss("SmoothL1Loss", F.smooth_l1_loss, beta=1.0)
_loss("BCEWithLogitsLoss", F.binary_cross_entropy_with_logits, "weight", "pos_weight")
_loss("BCELoss", F.binary_cross_entropy, "weight")
_loss("KLDivLoss", F.kl_div, log_target=False)
_loss("GaussianNLLLoss", F.gaussian_nll_loss, full=False, eps=1e-6)
_loss("PoissonNLLLoss", F.poisson_nll_loss, positional=("log_input", "full"), log_input=True, full=False, eps=1e-8)
_loss("CosineEmbeddingLoss", F.cosine_embedding_loss, positional=("margin",), margin=0.0)
_loss("HingeEmbeddingLoss", F.hinge_embedding_loss, positional=("margin",), margin=1.0)
_loss("MarginRankingLoss", F.margin_ranking_loss, positional=("margin",), margin=0.0)
_loss("SoftMarginLoss", F.soft_margin_loss)
_loss("MultiMarginLoss", F.multi_margin_loss, "weight", positional=("p", "margin", "weight"), p=1, margin=1.0)
_loss("MultiLabelMarginLoss", F.multilabel_margin_loss)
_loss("MultiLabelSoftMarginLoss", F.multilabel_soft_margin_loss, "weight")
_loss("TripletMarginLoss", F.triplet_margin_loss, positional=("margin", "p", "eps", "swap"), margin=1.0, p=2.0, eps=1e-6,
      swap=False)
_loss("TripletMarginWithDistanceLoss", F.triplet_margin_with_distance_loss, distance_function=None, margin=1.0, swap=False)
_loss("CTCLoss", F.ctc_loss, positional=("blank",), blank=0, zero_infinity=False)


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
