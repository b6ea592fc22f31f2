"""Linear layers in low precision: weights of 8 or 4 bits for inference, 8-bit floats for training.

    nn.quantize(model, ["attention", "mlp"], bits=4)    # then only for inference
    nn.convert_to_fp8(model, ["attention", "mlp"])      # then train as before

Layers are changed in their state: whoever holds one holds what it became.
"""

from weft import _core
from weft.nn.layers import Linear
from weft.nn.lora import _adopt

__all__ = ["Fp8Linear", "QuantizedLinear", "convert_to_fp8", "quantize"]


def _list(targets):
    return [targets] if isinstance(targets, str) else list(targets)


def _become(model, names, cls, **options):
    """Linears that became another layer say so, and how it is made, for files of the model."""
    for name in names:
        layer = model.get_submodule(name)
        if type(layer) is not Linear:
            continue
        layer.__class__ = cls
        made_with = ((layer.in_features, layer.out_features), {"bias": layer.bias is not None, **options})
        object.__setattr__(layer, "_made_with", made_with)
    _adopt(model)


def quantize(model, targets=(), bits=8, group_size=128, symmetric=True):
    """Gives every Linear whose name one of the regular expressions finds, or every Linear, a weight of 8 or 4 bits:
    the buffers `codes`, `scale` and, unless symmetric, `zero` in the place of the parameter `weight`. Returns their
    names. A layer may have a LoRA adapter or be sharded. ValueError where nothing is found, and for parametrized weights and
    merged adapters."""
    names = _core._quantize(model._state, _list(targets), bits, group_size, symmetric)
    _become(model, names, QuantizedLinear, bits=bits, group_size=group_size, symmetric=symmetric)
    return names


def convert_to_fp8(model, targets=()):
    """Lets every Linear whose name one of the regular expressions finds, or every Linear, compute in 8-bit floats,
    forward and backward; weights stay as they are. Returns their names. ValueError as quantize."""
    names = _core._convert_to_fp8(model._state, _list(targets))
    _become(model, names, Fp8Linear)
    return names


class QuantizedLinear(Linear):
    """A Linear whose weight has 8 or 4 bits, for inference; `quantize` makes them of a model's layers."""

    def __init__(self, in_features, out_features, bias=True, bits=8, group_size=128, symmetric=True):
        super().__init__(in_features, out_features, bias)
        quantize(self, (), bits, group_size, symmetric)


class Fp8Linear(Linear):
    """A Linear that is computed in 8-bit floats with a scale for each block, forward and backward."""

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__(in_features, out_features, bias, device, dtype)
        convert_to_fp8(self)
