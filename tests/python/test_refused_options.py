"""Options that no input suits are refused when a layer is constructed, not when it is called."""

import inspect

import pytest

import weft
from weft import nn


def _x(*shape):
    return weft.zeros(shape) + 0.5


def _images(dims, channels=4, size=8):
    return lambda layer: [(_x(2, channels, *(size,) * dims),), (_x(2, channels, *(64,) * dims),)]


def _features(name):
    return lambda layer: [(_x(2, 3, getattr(layer, name)),)]


def _channels(dims, name="in_channels"):
    return lambda layer: [(_x(2, getattr(layer, name), *(size,) * dims),) for size in (16, 64)]


def _any(layer):
    """Inputs of all ranks, of sizes with many divisors."""
    return [(_x(*shape),) for shape in ((), (4,), (24,), (6, 4), (2, 6, 4), (2, 4, 4, 6), (2, 4, 4, 4, 4), (1, 1, 1, 2, 2, 2),
                                        (1, 1, 1, 1, 2, 2, 2), (1, 1, 1, 1, 1, 2, 2, 2), (2,) * 8)]


def _splits(layer):
    sizes = layer.unflattened_size
    product = 1
    for size in sizes if isinstance(sizes, (tuple, list)) else ():
        product *= size if isinstance(size, int) and size >= 0 else 1
    return [(_x(*(product,) * rank),) for rank in range(1, 5)] if product < 100 else []


def _sequences(layer):
    return [(_x(5, 2, layer.input_size),)]


def _pairs(layer):
    return [(x, x) for (x,) in _any(layer)]


def _loss_inputs(layer):
    p, n = weft.rand(4, 3) * 0.8 + 0.1, weft.tensor([0, 1, 2, 1])
    classes = weft.zeros(5, 2, 14).log_softmax(2)
    signs, one = weft.tensor([1.0, -1.0, 1.0, 1.0]), weft.ones(4, 3)
    log = p.log()
    return [(p, n), (p, p), (p, one), (log, n), (p, p, signs), (p[:, 0], p[:, 1], signs), (p, p, one), (p, p, p),
            (classes, weft.tensor([[1, 2], [1, 1]]), weft.tensor([5, 5]), weft.tensor([2, 2])),
            (p, weft.ones(4, 3).long()), (p, signs.reshape(4, 1).expand(4, 3))]


LAYERS = {
    "Linear": ({"in_features": 4, "out_features": 3}, _features("in_features")),
    "Bilinear": ({"in1_features": 4, "in2_features": 3, "out_features": 2},
                 lambda m: [(_x(2, m.in1_features), _x(2, m.in2_features))]),
    "Embedding": ({"num_embeddings": 5, "embedding_dim": 3},
                  lambda m: [(weft.zeros(size, dtype=weft.int64),) for size in (2, 0)]),
    "EmbeddingBag": ({"num_embeddings": 5, "embedding_dim": 3},
                     lambda m: [(weft.zeros(*size, dtype=weft.int64),) for size in ((2, 3), (2, 0))]),
    "LayerNorm": ({"normalized_shape": 4}, lambda m: [(_x(2, *m.normalized_shape),)]),
    "RMSNorm": ({"normalized_shape": 4}, lambda m: [(_x(2, *m.normalized_shape),)]),
    "Dropout": ({}, _any), "AlphaDropout": ({}, _any), "FeatureAlphaDropout": ({}, _any), "Identity": ({}, _any),
    "Flatten": ({}, _any), "Unflatten": ({"dim": 1, "unflattened_size": (2, 3)}, _splits),
    "Softmax": ({}, _any), "LogSoftmax": ({}, _any), "Softmin": ({}, _any), "Softmax2d": ({}, _any),
    "PReLU": ({}, lambda m: [(_x(2, m.num_parameters, 3),)]),
    "CosineSimilarity": ({}, _pairs), "PairwiseDistance": ({}, _pairs),
    "PixelShuffle": ({"upscale_factor": 2}, lambda m: [(_x(1, m.upscale_factor ** 2, 4, 4),)]),
    "PixelUnshuffle": ({"downscale_factor": 2}, lambda m: [(_x(1, 1, 4 * m.downscale_factor, m.downscale_factor),)]),
    "ChannelShuffle": ({"groups": 2}, lambda m: [(_x(1, 2 * m.groups, 4, 4),)]),
    "Unfold": ({"kernel_size": 2}, _images(2)),
    "Fold": ({"output_size": 4, "kernel_size": 2},
             lambda m: [(_x(1, channels, count),) for channels in (1, 2, 4, 9, 12, 144)
                         for count in [*range(1, 40), 49, 81, 121, 729]]),
    "LocalResponseNorm": ({"size": 2}, _images(2)),
    "Upsample": ({"scale_factor": 2.0}, lambda m: [(_x(1, 2, *(8,) * dims),) for dims in (1, 2, 3)]),
    "UpsamplingNearest2d": ({"size": 3}, _images(2)), "UpsamplingBilinear2d": ({"size": 3}, _images(2)),
    "GroupNorm": ({"num_groups": 2, "num_channels": 4}, _channels(1, "num_channels")),
    "RNN": ({"input_size": 3, "hidden_size": 4}, _sequences), "LSTM": ({"input_size": 3, "hidden_size": 4}, _sequences),
    "GRU": ({"input_size": 3, "hidden_size": 4}, _sequences),
    "RNNCell": ({"input_size": 3, "hidden_size": 4}, lambda m: [(_x(2, m.input_size),)]),
    "LSTMCell": ({"input_size": 3, "hidden_size": 4}, lambda m: [(_x(2, m.input_size),)]),
    "GRUCell": ({"input_size": 3, "hidden_size": 4}, lambda m: [(_x(2, m.input_size),)]),
    "MultiheadAttention": ({"embed_dim": 4, "num_heads": 2},
                           lambda m: [(_x(3, 2, m.embed_dim), _x(3, 2, m.kdim), _x(3, 2, m.vdim))]),
    "TransformerBlock": ({"width": 4, "heads": 2}, lambda m: [(_x(2, 3, width),) for width in (1, 2, 3, 4, 12)]),
    "TransformerEncoderLayer": ({"d_model": 4, "nhead": 2}, lambda m: [(_x(3, 2, m.self_attn.embed_dim),)]),
    "TransformerDecoderLayer": ({"d_model": 4, "nhead": 2}, lambda m: [(_x(3, 2, m.self_attn.embed_dim),) * 2]),
    "TransformerEncoder": ({"encoder_layer": nn.TransformerEncoderLayer(4, 2), "num_layers": 1}, lambda m: [(_x(3, 2, 4),)]),
    "TransformerDecoder": ({"decoder_layer": nn.TransformerDecoderLayer(4, 2), "num_layers": 1},
                           lambda m: [(_x(3, 2, 4), _x(3, 2, 4))]),
    "Transformer": ({"d_model": 4, "nhead": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "dim_feedforward": 5},
                    lambda m: [(_x(3, 2, m.d_model), _x(3, 2, m.d_model))]),
    "CausalLM": ({"vocabulary": 7, "width": 4, "layers": 1, "heads": 2, "context": 8},
                 lambda m: [(weft.zeros(1, 3, dtype=weft.int64),), (weft.zeros(1, 1, dtype=weft.int64),)]),
    "DraftHeads": ({"width": 4, "heads": 2}, lambda m: [(_x(2, width),) for width in (1, 2, 3, 4, 12)]),
    "MoE": ({"width": 4, "hidden": 3, "experts": 3}, lambda m: [(_x(2, width),) for width in (0, 1, 2, 3, 4, 12)]),
    "QuantizedLinear": ({"in_features": 16, "out_features": 4}, lambda m: [(_x(2, size),) for size in (0, 3, 12, 16)]),
    "Fp8Linear": ({"in_features": 16, "out_features": 4}, lambda m: [(_x(2, size),) for size in (0, 3, 12, 16)]),
    "LinearCrossEntropyLoss": ({"in_features": 4, "num_classes": 3},
                               lambda m: [(_x(2, m.linear.in_features), weft.zeros(2, *m.out_features, dtype=weft.int64))]),
    "AdaptiveLogSoftmaxWithLoss": ({"in_features": 8, "n_classes": 10, "cutoffs": [3, 6]},
                                   lambda m: [(_x(2, m.in_features), weft.zeros(2, dtype=weft.int64))]),
    "SyncBatchNorm": ({"num_features": 4}, _channels(2, "num_features")),
}
for _n in (1, 2, 3):
    LAYERS |= {
        f"Conv{_n}d": ({"in_channels": 4, "out_channels": 6, "kernel_size": 3}, _channels(_n)),
        f"ConvTranspose{_n}d": ({"in_channels": 4, "out_channels": 6, "kernel_size": 3}, _channels(_n)),
        f"BatchNorm{_n}d": ({"num_features": 4}, _channels(_n, "num_features")),
        f"InstanceNorm{_n}d": ({"num_features": 4}, _channels(_n, "num_features")),
        f"LazyConv{_n}d": ({"out_channels": 6, "kernel_size": 3}, _images(_n, 12)),
        f"LazyConvTranspose{_n}d": ({"out_channels": 6, "kernel_size": 3}, _images(_n, 12)),
        f"LazyBatchNorm{_n}d": ({}, _images(_n)), f"LazyInstanceNorm{_n}d": ({}, _images(_n)),
        f"MaxPool{_n}d": ({"kernel_size": 2}, _images(_n)), f"AvgPool{_n}d": ({"kernel_size": 2}, _images(_n)),
        f"LPPool{_n}d": ({"norm_type": 2, "kernel_size": 2}, _images(_n)),
        f"AdaptiveAvgPool{_n}d": ({"output_size": 2}, _images(_n)),
        f"AdaptiveMaxPool{_n}d": ({"output_size": 2}, _images(_n)),
        f"MaxUnpool{_n}d": ({"kernel_size": 2}, lambda m, n=_n: [
            (_x(1, 1, *(2,) * n), weft.zeros(1, 1, *(2,) * n, dtype=weft.int64))]),
        f"Dropout{_n}d": ({}, _images(_n)),
        f"ZeroPad{_n}d": ({"padding": 1}, _images(_n)), f"ConstantPad{_n}d": ({"padding": 1, "value": 2}, _images(_n)),
        f"ReflectionPad{_n}d": ({"padding": 1}, _images(_n)), f"ReplicationPad{_n}d": ({"padding": 1}, _images(_n)),
        f"CircularPad{_n}d": ({"padding": 1}, _images(_n))}
    if _n > 1:
        LAYERS[f"FractionalMaxPool{_n}d"] = ({"kernel_size": 2, "output_size": 2}, _images(_n))
LAYERS |= {"LazyLinear": ({"out_features": 3}, _any)}
for _name in ("ReLU", "ReLU6", "SiLU", "Mish", "SELU", "Hardswish", "Hardsigmoid", "ELU", "CELU", "LeakyReLU", "Hardtanh",
              "Softshrink", "Hardshrink", "Softplus", "GELU", "GLU", "Tanh", "Sigmoid", "LogSigmoid", "Softsign", "Tanhshrink",
              "RReLU"):
    LAYERS[_name] = ({}, _any)
LAYERS["Threshold"] = ({"threshold": 1.0, "value": 2.0}, _any)
_LOSSES = [name for name in dir(nn) if name.endswith("Loss") and name not in LAYERS]
for _name in _LOSSES:
    LAYERS[_name] = ({}, _loss_inputs)

# Other containers and bases, and modules without options.
_OTHERS = {"Module", "NativeModule", "ModuleList", "ModuleDict", "Sequential", "ParameterList", "ParameterDict", "Container",
           "RNNBase", "RNNCellBase", "LoRALinear", "BufferDict"}

# For plain numbers, sizes of one dimension and of several.
_VALUES = [-1, 0, -3, 3, 12, -12, 1.5, -0.5, float("nan"), "x", [1], (1, 2), (1, 1, 1, 1), (-1, -1), (2, "x"), [], None,
           object()]


def _options(cls):
    if hasattr(cls, "options") and isinstance(cls.options, dict):
        return list(cls.options)
    target = getattr(cls, "cls_to_become", None) or cls
    names = [name for name, parameter in inspect.signature(target.__init__).parameters.items()
             if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)]
    return [name for name in names[2 if target is not cls else 1:] if not name.startswith("_")]


def _is_callable(layer, inputs):
    problem = None
    for arguments in inputs(layer):
        try:
            layer(*arguments)
            return None
        except Exception as error:  # noqa: BLE001: any error is what is looked for
            problem = error
    return problem


_IGNORED = {"device", "dtype", "inplace", "custom_encoder", "custom_decoder", "enable_nested_tensor", "mask_check"}


def test_every_layer_is_here():
    classes = {name for name in dir(nn) if isinstance(getattr(nn, name), type) and issubclass(getattr(nn, name), nn.Module)}
    assert not classes - set(LAYERS) - _OTHERS


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_an_option_that_no_call_takes_is_refused_at_construction(name):
    arguments, inputs = LAYERS[name]
    cls = getattr(nn, name)
    assert _is_callable(cls(**arguments), inputs) is None
    wrong = []
    for option in _options(cls):
        for value in _VALUES if option not in _IGNORED else ():
            try:
                layer = cls(**{**arguments, option: value})
            except (TypeError, ValueError, IndexError, NotImplementedError):
                continue
            problem = _is_callable(layer, inputs)
            if problem is not None:
                wrong.append(f"{option}={value!r}: {type(problem).__name__}: {str(problem)[:100]}")
    assert not wrong, "\n".join(wrong)
