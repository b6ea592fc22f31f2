"""Layers whose weights lie in parts on the ranks of a group, and what they need besides.

    up, down = ColumnParallelLinear(512, 2048, group=tp), RowParallelLinear(2048, 512, group=tp)
    y = down(F.gelu(up(x)))                       # one all_reduce, and one in backward

Every rank of the group calls the same functions in the same order, and computes the same loss. First values are those
of the whole layer, of which each rank keeps its part. docs/distributed.md says more.
"""

import contextlib as _contextlib

from weft import io as _io
from weft._core import _distributed as _core
from weft.distributed import _group
from weft.nn.module import NativeModule as _NativeModule

__all__ = ["ColumnParallelLinear", "RngTracker", "RowParallelLinear", "VocabParallelEmbedding", "model_parallel_seed",
           "parallel_cross_entropy"]

RngTracker = _core.RngTracker


class _InParts(_NativeModule):
    def __init__(self, made):
        layer, parts = made
        super().__init__(layer)
        object.__setattr__(self, "_places", {name: part[1:3] for name, part in parts.items()})

    def sharded_state(self, prefix=""):
        """This rank's parts by name, behind `prefix`, for weft.distributed.checkpoint. They share the memory."""
        return {prefix + name: _io.ShardedTensor(getattr(self, name).detach(), tuple(shape), tuple(offset))
                for name, (shape, offset) in self._places.items()}


class ColumnParallelLinear(_InParts):
    """weft.nn.Linear of which each rank has some of the outputs: weight [out / ranks, in], bias [out / ranks]. The result
    is this rank's part, or the whole with gather_output. With sequence_parallel x is this rank's part of the sequence,
    [..., S / ranks, in]. ValueError unless the number of ranks divides out_features."""

    def __init__(self, in_features, out_features, bias=True, gather_output=False, sequence_parallel=False, group=None):
        super().__init__(_core.column_parallel_linear(in_features, out_features, bias, gather_output, sequence_parallel,
                                                      _group(group)))


class RowParallelLinear(_InParts):
    """weft.nn.Linear of which each rank has some of the inputs: weight [out, in / ranks], and bias [out], which is added
    once. x is this rank's part, or the whole without input_is_parallel. With sequence_parallel the result is this
    rank's part of the sequence. ValueError unless the number of ranks divides in_features."""

    def __init__(self, in_features, out_features, bias=True, input_is_parallel=True, sequence_parallel=False,
                 group=None):
        super().__init__(_core.row_parallel_linear(in_features, out_features, bias, input_is_parallel,
                                                   sequence_parallel, _group(group)))


class VocabParallelEmbedding(_InParts):
    """weft.nn.Embedding of which each rank has some of the rows, weight [count / ranks, width]. Every rank calls it with
    the same indices, and gets all of their rows. ValueError unless the number of ranks divides num_embeddings."""

    def __init__(self, num_embeddings, embedding_dim, sequence_parallel=False, group=None):
        super().__init__(_core.vocab_parallel_embedding(num_embeddings, embedding_dim, sequence_parallel,
                                                        _group(group)))


def parallel_cross_entropy(logits, targets, ignore_index=-100, reduction="mean", group=None):
    """cross_entropy of logits of which each rank has as many classes, [..., C / ranks], in the order of ranks; targets
    [...] are the same on all. The logits are never gathered, and every rank gets the loss."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"parallel_cross_entropy(): argument 'reduction': expected one of none, mean, sum, got {reduction!r}")
    return _core.parallel_cross_entropy(logits, targets, reduction, ignore_index, _group(group))


def model_parallel_seed(seed, group=None, pipeline=None):
    """Seeds the default generators with `seed`, alike on every rank, and gives a tracker with the stream "local", which
    each rank of the tensor-parallel group and each stage of the pipeline has for itself."""
    return _core.model_parallel_seed(seed, _group(group), pipeline)


@_contextlib.contextmanager
def _use(self, name):
    """In the block, draws of this thread on the CPU come from the stream `name`."""
    guard = self._use(name)
    try:
        yield
    finally:
        del guard


RngTracker.use = _use
