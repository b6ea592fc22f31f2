"""Datasets: map-style ones with a length and sample i, and iterable ones."""

import bisect
import itertools
import types
from numbers import Integral

from weft import _core, int64
from weft._core import Tensor


class DatasetError(TypeError, AssertionError):
    """A dataset of the wrong kind; PyTorch raises AssertionError."""


class Dataset:
    """A map-style dataset: `dataset[i]` is sample i; a loader also needs `len(dataset)`."""

    __class_getitem__: classmethod = classmethod(types.GenericAlias)

    def __getitem__(self, index):
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __add__(self, other):
        return ConcatDataset([self, other])

    def map(self, function):
        """The dataset of function(sample), computed on each access."""
        return MapDataset(self, function)

    def filter(self, predicate):
        """The samples for which the predicate is true; it is called once for each sample, here."""
        return Subset(self, [i for i in range(len(self)) if predicate(self[i])])


class IterableDataset(Dataset):
    """Samples are read from `iter(dataset)`. A loader has one iterator per epoch, read by one worker at a time, so that
    every sample occurs once for any number of workers; get_worker_info() is None there. If the workers are processes,
    each has its own iterator, and get_worker_info() identifies it."""

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")

    def __add__(self, other):
        return ChainDataset([self, other])


class ChainDataset(IterableDataset):
    """Iterable datasets one after the other."""

    def __init__(self, datasets):
        self.datasets = list(datasets)

    def __iter__(self):
        return itertools.chain.from_iterable(map(self._checked, self.datasets))

    def __len__(self):
        return sum(len(self._checked(d)) for d in self.datasets)

    @staticmethod
    def _checked(dataset):
        if not isinstance(dataset, IterableDataset):
            raise DatasetError(f"ChainDataset takes each IterableDataset, got {type(dataset).__name__}")
        return dataset


class TensorDataset(Dataset):
    """Sample i is row i of each tensor. Loaders gather whole batches of it without the interpreter."""

    def __init__(self, *tensors):
        for t in tensors:
            if not isinstance(t, Tensor):
                raise TypeError(f"TensorDataset(): expected tensors, got {type(t).__name__}")
        if not tensors:
            raise ValueError("TensorDataset takes at least one tensor")
        lengths = {len(t) for t in tensors}
        if len(lengths) > 1:
            raise ValueError("the tensors have " + " and ".join(str(n) for n in sorted(lengths)) + " rows")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(t[index] for t in self.tensors)

    def __len__(self):
        return len(self.tensors[0])


class StackDataset(Dataset):
    """Samples of several datasets side by side: a tuple, or a dict if the datasets were passed by name."""

    def __init__(self, *args, **kwargs):
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset takes datasets either by place or by name")
        self.datasets = args or kwargs
        parts = args or tuple(kwargs.values())
        self._length = len(parts[0])
        if any(len(p) != self._length for p in parts):
            raise ValueError("the datasets have " + " and ".join(str(len(p)) for p in parts) + " samples")

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {name: part[index] for name, part in self.datasets.items()}
        return tuple(part[index] for part in self.datasets)

    def __len__(self):
        return self._length


class ConcatDataset(Dataset):
    """The samples of several datasets, one after the other."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset takes at least one dataset")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise DatasetError("ConcatDataset takes no IterableDataset; ChainDataset does")
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __getitem__(self, index):
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"there is no sample {index} among {len(self)}")
        part = bisect.bisect_right(self.cumulative_sizes, place)
        return self.datasets[part][place - (self.cumulative_sizes[part - 1] if part else 0)]

    def __len__(self):
        return self.cumulative_sizes[-1]


class Subset(Dataset):
    """The samples of a dataset at the given indices."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index):
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)


class MapDataset(Dataset):
    """function(sample) for every sample of a dataset."""

    def __init__(self, dataset, function):
        self.dataset, self.function = dataset, function

    def __getitem__(self, index):
        return self.function(self.dataset[index])

    def __len__(self):
        return len(self.dataset)


class TokenWindows(Dataset):
    """Windows of `context` tokens that begin at 0, stride, 2 * stride, …. A sample is (inputs, targets); targets are
    shifted by one token. stride=None means `context`: an epoch reads each token once."""

    def __init__(self, tokens, context, stride=None):
        self.tokens, self.context, self.stride = tokens, int(context), int(stride or context)
        if self.context < 1 or self.stride < 1 or len(tokens) <= self.context:
            raise ValueError(f"{len(tokens)} tokens have no window of {context} and one more")

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(f"there is no sample {index} among {len(self)}")
        window = self.tokens[index * self.stride:index * self.stride + self.context + 1].to(int64)
        return window[:-1], window[1:]

    def __getitems__(self, indices):
        return [self[i] for i in indices]

    def __len__(self):
        return (len(self.tokens) - 1 - self.context) // self.stride + 1


def random_split(dataset, lengths, generator=None, *, seed=None):
    """Splits a dataset into disjoint subsets: by counts, or by fractions that sum to 1. The split depends only on the
    seed; without one, it is drawn from the generator, or else from the default one."""
    lengths = [int(n) if isinstance(n, Integral) else n for n in lengths]
    fractions = any(not isinstance(n, int) for n in lengths)
    if fractions and not abs(sum(lengths) - 1) < 1e-9:
        raise ValueError(f"random_split(): fractions: expected a sum of 1, got {sum(lengths)}")
    if seed is None:
        seed = _core._draw_seed(generator)
    parts = _core._split_order(len(dataset), lengths, fractions, seed)
    return [Subset(dataset, part) for part in parts]
