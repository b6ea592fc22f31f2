"""Sequences of different lengths for recurrent layers: weft.nn.utils.rnn."""

from typing import NamedTuple, Optional

import weft
from weft import _core
from weft._core import Tensor

_ops = _core._ops


class PackedSequence(NamedTuple):
    """The rows of sequences in falling order of length, step after step, and how many each step has. sorted_indices says
    which sequence stands where, unsorted_indices where each stands; None where they were in order."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Optional[Tensor] = None
    unsorted_indices: Optional[Tensor] = None

    def to(self, *args, **kwargs):
        """The data on another device or of another dtype, and the indices beside it."""
        data = self.data.to(*args, **kwargs)
        moved = [None if i is None else i.to(data.device) for i in self[2:]]
        return PackedSequence(data, self.batch_sizes, *moved)

    @property
    def is_cuda(self):
        return str(self.data.device).startswith("cuda")


def invert_permutation(permutation):
    """Where each number stands; None of None."""
    return None if permutation is None else _ops["argsort"](permutation)


def _lengths(lengths):
    return lengths if isinstance(lengths, Tensor) else weft.tensor(list(lengths), dtype=weft.int64)


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs padded sequences, input [steps, batch, ...]; without enforce_sorted their lengths may come in any order."""
    lengths = _lengths(lengths)
    if enforce_sorted:
        return PackedSequence(*_ops["pack_padded_sequence"](input, lengths, batch_first))
    order = _ops["argsort"](lengths, descending=True)
    there = order.to(input.device)
    packed = _ops["pack_padded_sequence"](input.index_select(0 if batch_first else 1, there),
                                          lengths.index_select(0, order), batch_first)
    return PackedSequence(*packed, there, invert_permutation(there))


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """The padded sequences and their lengths, in the order that they had before they were packed."""
    padded, lengths = _ops["pad_packed_sequence"](sequence.data, sequence.batch_sizes, batch_first, padding_value,
                                                  total_length)
    if sequence.unsorted_indices is None:
        return padded, lengths
    back = sequence.unsorted_indices
    return padded.index_select(0 if batch_first else 1, back), lengths.index_select(0, back.cpu())


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Tensors [length, ...] side by side as [longest, count, ...]."""
    return _ops["pad_sequence"](list(sequences), batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The tensors [length, ...] that were padded."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:int(length)] for row, length in zip(rows.unbind(0), lengths)]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs tensors [length, ...]."""
    lengths = _lengths([len(sequence) for sequence in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The tensors that were packed."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)
