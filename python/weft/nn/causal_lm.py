"""Language models that read from left to right."""

from weft import _core
from weft.nn.module import NativeModule

__all__ = ["CausalLM", "DraftHeads", "draft_loss"]


class CausalLM(NativeModule):
    """GPT-2, Llama, Mistral, Qwen 2 and Qwen 3 in one module, computed by C++'s layers: tokens [batch, length] to logits
    [batch, length, vocabulary]. The defaults are Llama's. Of sizes 0 is what follows from others: as many kv_heads as heads,
    width / heads, 4 * width; a window of 0 hides nothing. positions are 'rotary' or 'learned', norm 'rms' or 'layer', mlp
    'swiglu' or 'gelu'; rope_scaling and what belongs to it are as in rope_table."""

    def __init__(self, vocabulary, width, layers, heads, kv_heads=0, head_dim=0, hidden=0, context=2048, *,
                 positions="rotary", rope_theta=10000.0, rope_scaling="none", rope_factor=1.0, rope_original_length=8192,
                 rope_low_frequency=1.0, rope_high_frequency=4.0, rope_beta_fast=32.0, rope_beta_slow=1.0,
                 rope_attention_factor=None, norm="rms", norm_eps=1e-5, mlp="swiglu", qkv_bias=False, out_bias=False,
                 mlp_bias=False, qk_norm=False, tied=False, window=0, device=None, dtype=None):
        options = {name: value for name, value in locals().items()
                   if name not in ("self", "device", "dtype", "__class__")}
        super().__init__(_core._causal_lm(options))
        if device is not None or dtype is not None:
            self.to(device, dtype)

    @classmethod
    def _of(cls, layer):
        self = cls.__new__(cls)
        NativeModule.__init__(self, layer)
        return self

    def hidden(self, tokens):
        """The hidden states before the output layer, [batch, length, width]. Hooks on forward do not see them."""
        return _core._causal_lm_hidden(self, tokens)


class DraftHeads(NativeModule):
    """Further heads over a CausalLM's hidden states [..., width], which propose the tokens behind the next one (Cai et al.
    2024): [..., heads, width], of which the model's output layer makes logits."""

    def __init__(self, width, heads, *, device=None, dtype=None):
        super().__init__(_core._draft_heads(width, heads))
        if device is not None or dtype is not None:
            self.to(device, dtype)


def draft_loss(model, heads, tokens):
    """The mean over heads of the cross-entropy of what each says behind every token of tokens [batch, length]."""
    return _core._draft_loss(model, heads, tokens)
