"""Datasets, samplers and loaders, in PyTorch's shape.

A loader's workers are threads: they share the dataset, start at once and live as long as the loader. What a loop sees
depends on the dataset, the options and the seed alone, never on the number of workers: batches come in order, and what
weft draws inside a dataset belongs to the sample. `loader.state_dict()` says where a loop stands, and
`loader.load_state_dict` goes on there, bit for bit.
"""

from weft.data._collate import Padded, default_collate, default_convert, pad
from weft.data._datasets import (ChainDataset, ConcatDataset, Dataset, IterableDataset, MapDataset, StackDataset, Subset,
                                 TensorDataset, TokenWindows, random_split)
from weft.data._loader import DataLoader, WorkerInfo, get_worker_info
from weft.data._samplers import (BatchSampler, DistributedSampler, LengthBatchSampler, RandomSampler, Sampler,
                                 SequentialSampler, SubsetRandomSampler, WeightedRandomSampler)

__all__ = ["BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler",
           "IterableDataset", "LengthBatchSampler", "MapDataset", "Padded", "RandomSampler", "Sampler",
           "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset", "TokenWindows",
           "WeightedRandomSampler", "WorkerInfo", "default_collate", "default_convert", "get_worker_info", "pad",
           "random_split"]
