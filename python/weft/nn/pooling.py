"""Bags of embeddings."""

import numbers

from weft import _core
from weft.errors import ValueError
from weft.nn import functional as F
from weft.nn.module import Module, Parameter

__all__ = ["EmbeddingBag"]


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
