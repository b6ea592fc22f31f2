"""Attention of several heads, and the transformer's encoder and decoder."""

import copy

from weft import _core
from weft.errors import ValueError
from weft.nn import functional as F, init
from weft.nn.containers import ModuleList
from weft.nn.described import _WithTensors, described
from weft.nn.functions import Dropout
from weft.nn.layers import LayerNorm, Linear
from weft.nn.module import Module

__all__ = ["MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer", "TransformerEncoder",
           "TransformerDecoder", "Transformer"]


@described
class MultiheadAttention(_WithTensors):
    """Attention of num_heads heads: (output, weights) of query [length, batch, embed_dim], key and value [keys, batch,
    ...], or all without the batch. True in a mask is not attended to; a query that sees no key gets zeros."""

    def _set_options(self, device=None, dtype=None, **options):
        super()._set_options(**options)
        self.out_proj = Linear(self.embed_dim, self.embed_dim, options["bias"])
        if options["bias"]:
            init.zeros_(self.out_proj.bias)
        if device is not None or dtype is not None:
            self.to(device, dtype)
        self.head_dim = self.embed_dim // self.num_heads
        self.kdim, self.vdim = self.kdim or self.embed_dim, self.vdim or self.embed_dim
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "bias_k",
                     "bias_v"):
            if self._state.kind_of(name) is None:
                setattr(self, name, None)

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        swaps = self.batch_first and query.ndim == 3
        if swaps:
            same = query is key and key is value
            query = query.transpose(0, 1)
            key, value = (query, query) if same else (key.transpose(0, 1), value.transpose(0, 1))
        output, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, self.training,
            key_padding_mask, need_weights, attn_mask, self.in_proj_weight is None, self.q_proj_weight,
            self.k_proj_weight, self.v_proj_weight, average_attn_weights=average_attn_weights, is_causal=is_causal,
            _layers=(self._state, self.out_proj._state))
        return output.transpose(0, 1) if swaps else output, weights


def _activation(activation):
    if not isinstance(activation, str):
        if not callable(activation):
            raise TypeError(f"argument 'activation': expected 'relu', 'gelu' or a function, got {type(activation).__name__}")
        return activation
    if activation not in ("relu", "gelu"):
        raise ValueError(f"argument 'activation': expected 'relu', 'gelu' or a function, got {activation!r}")
    return getattr(F, activation)


def _added(x, norm, norm_first, part):
    """x + part(x), with the norm before the part or behind the sum."""
    return x + part(norm(x)) if norm_first else norm(x + part(x))


class TransformerEncoderLayer(Module):
    """Self-attention and two linear layers, each added to its input and normalised."""

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        place = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **place)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **place)
        self.norm_first, self.activation = norm_first, _activation(activation)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)

    def _attend(self, x, attn_mask, key_padding_mask, is_causal):
        return self.dropout1(self.self_attn(x, x, x, key_padding_mask, False, attn_mask, is_causal=is_causal)[0])

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        x = _added(src, self.norm1, self.norm_first,
                   lambda t: self._attend(t, src_mask, src_key_padding_mask, is_causal))
        return _added(x, self.norm2, self.norm_first, lambda t: self.dropout2(
            self.linear2(self.dropout(self.activation(self.linear1(t))))))


class TransformerDecoderLayer(Module):
    """Self-attention, attention to the encoder's result, and two linear layers, each added to its input and
    normalised."""

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        place = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **place)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **place)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **place)
        self.norm_first, self.activation = norm_first, _activation(activation)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.dropout1, self.dropout2, self.dropout3 = Dropout(dropout), Dropout(dropout), Dropout(dropout)

    _attend = TransformerEncoderLayer._attend

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False):
        x = _added(tgt, self.norm1, self.norm_first,
                   lambda t: self._attend(t, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = _added(x, self.norm2, self.norm_first, lambda t: self.dropout2(self.multihead_attn(
            t, memory, memory, memory_key_padding_mask, False, memory_mask, is_causal=memory_is_causal)[0]))
        return _added(x, self.norm3, self.norm_first, lambda t: self.dropout3(
            self.linear2(self.dropout(self.activation(self.linear1(t))))))


class _Stack(Module):
    """Copies of a layer, one after the other, and a norm behind them."""

    def __init__(self, layer, num_layers, norm=None):
        super().__init__()
        if num_layers < 0:
            raise ValueError(f"{type(self).__name__}(): argument 'num_layers': expected at least 0, got {num_layers}")
        for name, module in ((type(self)._argument, layer), ("norm", norm)):
            if not isinstance(module, Module) and (module is not None or name != "norm"):
                raise TypeError(f"{type(self).__name__}(): argument '{name}': expected a Module, got {type(module).__name__}")
        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def get_config(self):
        return {**self.layers[0].get_config(), "num_layers": self.num_layers, "norm": self.norm is not None}

    @classmethod
    def from_config(cls, config):
        options = dict(config)
        num_layers, has_norm = options.pop("num_layers"), options.pop("norm", False)
        norm = LayerNorm(options["d_model"], options.get("layer_norm_eps", 1e-5), bias=options.get("bias", True))
        return cls(cls._layer(**options), num_layers, norm if has_norm else None)

    def _finished(self, x):
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """num_layers copies of encoder_layer, and `norm`, a module or None, behind them."""

    _layer, _argument = TransformerEncoderLayer, "encoder_layer"

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__(encoder_layer, num_layers, norm)

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return self._finished(src)


class TransformerDecoder(_Stack):
    """num_layers copies of decoder_layer, and `norm`, a module or None, behind them."""

    _layer, _argument = TransformerDecoderLayer, "decoder_layer"

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__(decoder_layer, num_layers, norm)

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=None, memory_is_causal=False):
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                        bool(tgt_is_causal), memory_is_causal)
        return self._finished(tgt)


class Transformer(Module):
    """An encoder of src and a decoder of tgt, each with a last norm."""

    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048,
                 dropout=0.1, activation="relu", custom_encoder=None, custom_decoder=None, layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias,
                   device, dtype)
        place = {"device": device, "dtype": dtype}
        for name, custom in (("custom_encoder", custom_encoder), ("custom_decoder", custom_decoder)):
            if custom is not None and not callable(custom):
                raise TypeError(f"Transformer(): argument '{name}': expected a Module, got {type(custom).__name__}")
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*options), num_encoder_layers, LayerNorm(d_model, layer_norm_eps, bias=bias, **place))
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*options), num_decoder_layers, LayerNorm(d_model, layer_norm_eps, bias=bias, **place))
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None,
                tgt_key_padding_mask=None, memory_key_padding_mask=None, src_is_causal=None, tgt_is_causal=None,
                memory_is_causal=False):
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                            tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """[sz, sz], -inf above the diagonal and 0 elsewhere: position i sees those up to i."""
        full = _core._ops["full"]((sz, sz), float("-inf"), dtype=dtype or _core.float32, device=device)
        return full.triu(1)
