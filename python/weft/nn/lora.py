"""LoRA: fine-tuning a model by small adapters beside its frozen weights (Hu et al. 2021).

    lora.apply_lora(model, ["attention\\.qkv$"], r=8, alpha=16)
    lora.mark_only_lora_trainable(model)
    optimizer = optim.AdamW(lora.lora_parameters(model), lr=1e-3)
    ...
    lora.save_adapter("adapters/sql", model)

Adapters are stored in the layers themselves, so no class changes: Linear and Embedding compute with theirs, in C++ and
in Python. Folders are laid out as PEFT's.
"""

import os

from weft import _core
from weft.nn.layers import Embedding, Linear

__all__ = ["LoRALinear", "apply_lora", "is_lora_merged", "load_adapter", "load_lora_state_dict", "lora_layers",
           "lora_parameter_groups", "lora_parameters", "lora_state_dict", "mark_only_lora_trainable", "merge_and_unload",
           "merge_lora", "save_adapter", "unmerge_lora"]


class _Forward:
    """The forward of a layer with an adapter, sharded or in low precision, which C++ computes. It is an attribute of that
    layer, so other layers pay nothing."""

    def __init__(self, layer):
        self._layer = layer

    def __call__(self, input):
        layer, state = self._layer, self._layer._state
        if isinstance(layer, Linear):
            return state.linear_with_forms(input)
        return state.embedding_with_forms(input, -1 if layer.padding_idx is None else layer.padding_idx)


def _adopt(model):
    """Sets the forward of the layers whose C++ state has weight forms, and drops it from others."""
    for module in model.modules():
        if not isinstance(module, (Linear, Embedding)):
            continue
        if module._state.has_weight_forms:
            object.__setattr__(module, "forward", _Forward(module))
        elif isinstance(module.__dict__.get("forward"), _Forward):
            object.__delattr__(module, "forward")


def apply_lora(model, targets, r=8, alpha=None, dropout=0.0, rslora=False, lora_plus_scale=1.0, *, enable=(), dtype=None,
               merge_on_eval=False, base="cpu", share=True):
    """Gives every Linear and Embedding whose name one of the regular expressions finds an adapter and freezes its weight
    and bias; returns their names. A weight that several layers hold gets one adapter, with which all of them compute;
    with share=False each named layer has its own, as in PEFT. `enable` says which equal parts
    of a layer's outputs are adapted; `base` where a merged weight's bits are: 'cpu', 'disk' or 'recompute'. ValueError
    where nothing is found."""
    targets = [targets] if isinstance(targets, str) else list(targets)
    names = _core._apply_lora(model._state, targets, r, alpha, dropout, rslora, lora_plus_scale, list(enable), dtype,
                              merge_on_eval, base, share)
    _adopt(model)
    return names


class LoRALinear(Linear):
    """A Linear with an adapter: y = x · Wᵀ + b + s · drop(x) · Aᵀ · Bᵀ, where s = alpha / r. W and b are frozen."""

    def __init__(self, in_features, out_features, r=8, alpha=None, dropout=0.0, rslora=False, bias=True,
                 lora_plus_scale=1.0, device=None, dtype=None):
        super().__init__(in_features, out_features, bias, device, dtype)
        apply_lora(self, "^$", r, alpha, dropout, rslora, lora_plus_scale)

    def merge(self):
        merge_lora(self)

    def unmerge(self):
        unmerge_lora(self)

    merged = property(lambda self: is_lora_merged(self))


def mark_only_lora_trainable(model, bias="none"):
    """Switches gradients of all parameters off but for adapters and, with bias 'all' or 'lora_only', biases."""
    _core._mark_only_lora_trainable(model._state, bias)


def merge_lora(model):
    """Puts W + s · B · A in the place of each W. Saving and state_dict still have W."""
    _core._merge_lora(model._state)


def unmerge_lora(model):
    """Brings back the bits of each W."""
    _core._unmerge_lora(model._state)


def merge_and_unload(model):
    """Merges and drops the adapters, and returns the model: plain layers with W + s · B · A, under the names they had.
    Weights stay frozen."""
    _core._merge_and_unload_lora(model._state)
    from weft.nn.quantize import QuantizedLinear

    for module in model.modules():
        module._state.forget_replaced()
        if type(module) is QuantizedLinear and "weight" in module._parameters:
            module.__class__ = Linear
            object.__setattr__(module, "_made_with", ((module.in_features, module.out_features),
                                                      {"bias": module.bias is not None}))
    _adopt(model)
    return model


def is_lora_merged(model):
    return _core._is_lora_merged(model._state)


def lora_layers(model):
    """Of each adapter a dict: name of its layer, r, scale, merged."""
    return _core._lora_layers(model._state)


def lora_parameters(model):
    """The parameters that require gradients."""
    return [p for p in model.parameters() if p.requires_grad]


def lora_parameter_groups(model, lr):
    """Groups for an optimizer: every B has lora_plus_scale times the rate (LoRA+)."""
    by_impl = {p._impl(): p for p in model.parameters()}
    groups = _core._lora_parameter_groups(model._state, lr)
    return [{"params": [by_impl.get(p._impl(), p) for p in params], "lr": rate} for params, rate in groups]


def lora_state_dict(model, bias="none"):
    """The adapters alone, under PEFT's names."""
    return _core._lora_state_dict(model._state, bias)


def load_lora_state_dict(model, state_dict):
    """Copies the values in. ValueError that lists names where shapes or names differ; nothing was changed then."""
    _core._load_lora_state_dict(model._state, dict(state_dict))


def save_adapter(folder, model, base="", bias="none"):
    """Writes adapter_model.safetensors and adapter_config.json; `base` names the model that they belong to."""
    _core._save_adapter(os.fspath(folder), model._state, base, bias)


def load_adapter(folder, model):
    """Loads an adapter that save_adapter or PEFT wrote; layers without an adapter get one. Returns (base, names of
    layers)."""
    loaded = _core._load_adapter(os.fspath(folder), model._state)
    _adopt(model)
    return loaded
