"""Collation of samples into batches, and functions applied to every tensor of a batch."""

from collections.abc import Mapping, Sequence

from weft import _core, as_tensor, float64, int64
from weft._core import Tensor
from weft.errors import ValueError


class Padded:
    """Sequences of unequal length in one tensor: values [batch, length, …] and lengths [batch]."""

    def __init__(self, values, lengths):
        self.values, self.lengths = values, lengths

    def mask(self):
        """bool [batch, length]: true where `values` has an element of the sample, false at padding."""
        from weft import arange

        return arange(self.values.shape[1], device=self.lengths.device) < self.lengths.unsqueeze(1)

    def __iter__(self):
        return iter((self.values, self.lengths))

    def __repr__(self):
        return f"Padded(values={self.values}, lengths={self.lengths})"


def _is_array(x):
    return type(x).__module__ == "numpy"


def _like(kind, fields):
    """Rebuilds a tuple, a named tuple, or a list."""
    if hasattr(kind, "_fields"):
        return kind(*fields)
    return list(fields)


def _check_numeric(array):
    if array.dtype.kind in "SUO":
        raise TypeError(f"default_collate(): an array of {array.dtype} is no tensor")


def _collate(samples, join):
    first = samples[0]
    if isinstance(first, Tensor):
        return join(samples)
    if _is_array(first):
        _check_numeric(first)
        return join([as_tensor(x if x.ndim else x.reshape(())) for x in samples])  # a scalar keeps its dtype
    if isinstance(first, (bool, int)):
        return as_tensor(samples)
    if isinstance(first, float):
        return as_tensor(samples, dtype=float64)
    if isinstance(first, (str, bytes)):
        return samples
    if isinstance(first, Mapping):
        return {key: _collate([s[key] for s in samples], join) for key in first}
    if isinstance(first, Sequence):
        if any(len(s) != len(first) for s in samples):
            raise ValueError(f"samples have {len(first)} and "
                             f"{next(len(s) for s in samples if len(s) != len(first))} members")
        return _like(type(first), [_collate(list(part), join) for part in zip(*samples)])
    raise TypeError(f"default_collate(): expected tensors, arrays, numbers, strings, mappings, tuples or lists, "
                    f"got {type(first).__name__}")


def default_collate(batch):
    """Stacks tensors and arrays; numbers become a tensor, strings a list; mappings, tuples and lists are collated
    member by member. An array of strings stays as it is."""
    if _is_array(batch) and getattr(batch, "ndim", 0) == 1 and batch.dtype.kind in "SU":
        return batch
    return _collate(list(batch), _core._stack_samples)


def pad(value=0, multiple_of=1, length=None, lengths=False):
    """A collate_fn like default_collate that pads sequences along dimension 0 at their end: to the longest one of the
    batch, rounded up to multiple_of, or to `length`. Sequences are tensors of at least one dimension and lists of
    integers. With `lengths`, each becomes a Padded."""

    def join(samples):
        values, known = _core._pad([as_tensor(s) for s in samples], value, multiple_of, length or 0)
        return Padded(values, known) if lengths and known is not None else values

    def sequences(sample):
        if isinstance(sample, list) and sample and all(type(n) is int for n in sample):
            return as_tensor(sample, dtype=int64)
        if isinstance(sample, Mapping):
            return {key: sequences(part) for key, part in sample.items()}
        if isinstance(sample, tuple):
            return type(sample)(*map(sequences, sample)) if hasattr(sample, "_fields") else tuple(map(sequences, sample))
        return sample

    return lambda batch: _collate([sequences(sample) for sample in batch], join)


def default_convert(sample):
    """Converts arrays of numbers to tensors; other values are unchanged."""
    return _each(sample, lambda t: t, lambda a: a if a.dtype.kind in "SUO" else as_tensor(a))


def _each(x, function, of_array=lambda a: a, of_other=lambda other: other):
    """x with function(t) for every tensor t in it."""
    def each(part):
        return _each(part, function, of_array, of_other)

    if isinstance(x, Tensor):
        return function(x)
    if _is_array(x):
        return of_array(x)
    if isinstance(x, Padded):
        return Padded(each(x.values), each(x.lengths))
    if isinstance(x, Mapping):
        return {key: each(part) for key, part in x.items()}
    if isinstance(x, tuple):
        return type(x)(*map(each, x)) if hasattr(x, "_fields") else tuple(map(each, x))
    if isinstance(x, list):
        return [each(part) for part in x]
    return of_other(x)
