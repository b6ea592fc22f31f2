"""The common layers. Parameters are float32 on the CPU and start as PyTorch's do."""

import math

from weft import _core
from weft._core import _ops
from weft.nn import functional as F
from weft.nn import init
from weft.nn.module import Module, Parameter

__all__ = ["Linear", "Embedding", "LayerNorm", "RMSNorm", "Dropout", "Identity", "Flatten", "Softmax", "LogSoftmax",
           "GELU", "CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "HuberLoss", "SmoothL1Loss", "BCEWithLogitsLoss"]


def _parameter(shape, device, dtype):
    return Parameter(_ops["empty"](shape, dtype=dtype or _core.float32, device=device))


class Linear(Module):
    """x · weightᵀ + bias; weight is [out_features, in_features]."""

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = _parameter((out_features, in_features), device, dtype)
        self.register_parameter("bias", _parameter((out_features,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """Rows of weight [num_embeddings, embedding_dim] at integer indices."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
                 scale_grad_by_freq=False, sparse=False, *, device=None, dtype=None):
        super().__init__()
        if max_norm is not None or scale_grad_by_freq or sparse:
            raise NotImplementedError("Embedding(): 'max_norm', 'scale_grad_by_freq' and 'sparse' are there with their "
                                      "defaults alone")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"Embedding(): argument 'padding_idx' must be one of {num_embeddings} rows, not {padding_idx}")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = _parameter((num_embeddings, embedding_dim), device, dtype)
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.detach()[self.padding_idx] = 0

    def forward(self, input):
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self):
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class _Norm(Module):
    def __init__(self, normalized_shape, eps, elementwise_affine, bias, device, dtype):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        make = lambda wanted: _parameter(self.normalized_shape, device, dtype) if wanted else None  # noqa: E731
        self.register_parameter("weight", make(elementwise_affine))
        self.register_parameter("bias", make(elementwise_affine and bias))
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"


class LayerNorm(_Norm):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device, dtype)

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{super().extra_repr()}, bias={self.bias is not None}"


class RMSNorm(_Norm):
    """x / sqrt(mean(x * x) + eps) * weight over the last dimensions."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__(normalized_shape, eps, elementwise_affine, False, device, dtype)

    def forward(self, input):
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)


class Dropout(Module):
    """In training zeroes each element with probability p and scales the rest."""

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        self.inplace = inplace
        if not 0 <= p <= 1:
            raise ValueError(f"Dropout(): argument 'p' must be from 0 to 1, not {p}")
        self.p = p

    def forward(self, input):
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace=False"


class Identity(Module):
    """x itself."""

    def __init__(self, *_, **__):
        super().__init__()

    def forward(self, input):
        return input


class Flatten(Module):
    """Dimensions start_dim … end_dim as one."""

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input):
        return input.flatten(self.start_dim, self.end_dim)


class Softmax(Module):
    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return F.softmax(input, self.dim)


class LogSoftmax(Softmax):
    def forward(self, input):
        return F.log_softmax(input, self.dim)


class GELU(Module):
    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input):
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self):
        return f"approximate={self.approximate!r}"


def _activation(name, function):
    def __init__(self, **options):
        Module.__init__(self)
        unknown = set(options) - set(known)
        if unknown:
            raise TypeError(f"{name}() got an unexpected keyword argument '{unknown.pop()}'")
        self.options = options

    def forward(self, input):
        return function(input, **self.options)

    known = {"ReLU": ("inplace",), "SiLU": ("inplace",), "Softplus": ("beta", "threshold")}.get(name, ())
    globals()[name] = type(name, (Module,), {"__init__": __init__, "forward": forward, "__doc__": function.__doc__,
                                             "__module__": __name__})
    __all__.append(name)


for _name, _function in {"ReLU": "relu", "SiLU": "silu", "Tanh": "tanh", "Sigmoid": "sigmoid", "Softplus": "softplus",
                         "Mish": "mish", "ELU": "elu", "Hardswish": "hardswish", "Softsign": "softsign"}.items():
    if hasattr(F, _function):
        _activation(_name, getattr(F, _function))


class _Loss(Module):
    def __init__(self, tensors, reduction, options):
        super().__init__()
        self.reduction, self.options, self.tensors = reduction, options, tuple(tensors)
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def forward(self, input, target):
        tensors = {name: getattr(self, name) for name in self.tensors}
        return self.function(input, target, reduction=self.reduction, **tensors, **self.options)


def _loss(name, function, *tensors, **defaults):
    """A module of a loss, whose tensors are buffers; the first of them may be given by position."""

    def __init__(self, *first, size_average=None, reduce=None, reduction="mean", **options):
        if size_average is not None or reduce is not None:
            raise NotImplementedError(f"{name}(): use 'reduction' in place of 'size_average' and 'reduce'")
        if len(first) > min(1, len(tensors)):
            raise TypeError(f"{name}() takes at most {min(1, len(tensors))} positional arguments, {len(first)} were given")
        options = {**dict(zip(tensors, first)), **options}
        unknown = set(options) - set(defaults) - set(tensors)
        if unknown:
            raise TypeError(f"{name}() got an unexpected keyword argument '{unknown.pop()}'")
        held = {key: options.pop(key, None) for key in tensors}
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
