"""Bags of embeddings."""

from weft.nn import functional as F
from weft.nn.described import _WithTensors, described
from weft.nn.layers import _refuse_scaled_gradients, _set_rows

__all__ = ["EmbeddingBag"]


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
