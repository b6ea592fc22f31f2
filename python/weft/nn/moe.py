"""Mixtures of experts: of many feed-forward networks each token goes through a few, which a router chooses."""

import contextlib
from typing import NamedTuple

from weft import _core
from weft.nn.module import NativeModule

__all__ = ["MoE", "MoEOutput", "add_auxiliary_loss", "auxiliary_loss_scale"]


def add_auxiliary_loss(input, loss, weight=1.0):
    """input, whose backward gives loss, of one element, the gradient weight times the scale then: as if weight * loss
    were added to what backward starts from."""
    return _core._add_auxiliary_loss(input, loss, weight)


@contextlib.contextmanager
def auxiliary_loss_scale(scale):
    """Within it, backward multiplies auxiliary losses by scale, the factor of the main loss: 1 / k if (loss / k).backward()
    is one of k, own / mean_weight(own) between replicas, and a GradScaler's scale. Nested scales multiply. The Trainer and
    ParallelTraining set it for each batch and micro-batch."""
    held = _core._AuxiliaryLossScale(scale)
    try:
        yield
    finally:
        held.end()


class MoEOutput(NamedTuple):
    """What a call gives: a tensor like x, losses that balance the router, and how many tokens chose each expert."""

    output: "weft.Tensor"  # noqa: F821
    balance_loss: "weft.Tensor"  # noqa: F821
    z_loss: "weft.Tensor"  # noqa: F821
    counts: "weft.Tensor"  # noqa: F821


def _is_second(name, given, choices):
    if given not in choices:
        raise ValueError(f"MoE(): argument {name!r}: expected {choices[0]!r} or {choices[1]!r}, got {given!r}")
    return given == choices[1]


class MoE(NativeModule):
    """For each token of x [..., width] the sum of top_k experts' results, times their scores, computed by C++'s layer.
    An expert is a feed-forward network of `hidden` units: kind 'swiglu' or 'gelu'. scores are 'softmax' over all experts or
    'sigmoid' of each. With a capacity_factor an expert takes ceil(capacity_factor * tokens * top_k / experts) tokens at
    most; without it none is dropped. So many shared_experts get every token. expert_bias is for update_expert_bias. In training what a call gives carries the
    losses of forward_with_losses with balance_weight and z_weight: gradients are those of a loss with them."""

    def __init__(self, width, hidden, experts, top_k=2, scores="softmax", normalize=True, kind="swiglu", shared_experts=0,
                 capacity_factor=None, expert_bias=False, balance_weight=0.0, z_weight=0.0, *, device=None, dtype=None):
        super().__init__(_core._moe(width, hidden, experts, top_k, _is_second("scores", scores, ("softmax", "sigmoid")),
                                    normalize, _is_second("kind", kind, ("swiglu", "gelu")), shared_experts,
                                    capacity_factor, expert_bias, balance_weight, z_weight))
        if device is not None or dtype is not None:
            self.to(device, dtype)

    def forward_with_losses(self, input):
        """(output, balance_loss, z_loss, counts): experts * sum(f * p), 1 where experts are chosen alike (Fedus et al.
        2021), and the mean of logsumexp(logits)² (Zoph et al. 2022). Hooks on forward do not see it."""
        return MoEOutput(*_core._moe_with_losses(self, input))

    def update_expert_bias(self, counts, rate=1e-3):
        """Balances without a loss (Wang et al. 2024): adds rate to the bias of each expert that fewer tokens chose than the
        mean, and takes it from those that more chose. Called behind an optimizer's step."""
        _core._update_expert_bias(self, counts, rate)
