"""Datasets, samplers and loaders with PyTorch's interface; files of tables, lines and images, image transforms, and
tokenizers.

A loader's workers are threads: they share the dataset, start at once and live as long as the loader. Batches depend
only on the dataset, the options and the seed, never on the number of workers: they come in order, and each sample has
its own random stream. `loader.state_dict()` returns the position of a loop, and `loader.load_state_dict` resumes from
it bit for bit.
"""

from weft.data._collate import Padded, default_collate, default_convert, pad
from weft.data._datasets import (ChainDataset, ConcatDataset, Dataset, IterableDataset, MapDataset, StackDataset, Subset,
                                 TensorDataset, TokenWindows, random_split)
from weft.data._loader import DataLoader
from weft.data._samplers import (BatchSampler, DistributedSampler, LengthBatchSampler, RandomSampler, Sampler,
                                 SequentialSampler, SubsetRandomSampler, WeightedRandomSampler)
from weft.data._workers import WorkerInfo, get_worker_info
from weft.data.files import (
    CsvChunks, Table, decode_image, encode_jpeg, encode_png, image_folder, load_cifar10, load_cifar100, load_image, load_mnist,
    read_cifar10, read_cifar100, read_csv, read_json_lines, read_json_table, read_lines, save_jpeg, save_png, write_csv)
from weft.data import transforms
from weft.data.tokenizer import Tokenizer

__all__ = ["BatchSampler", "ChainDataset", "ConcatDataset", "CsvChunks", "DataLoader", "Dataset", "DistributedSampler",
           "IterableDataset", "LengthBatchSampler", "MapDataset", "Padded", "RandomSampler", "Sampler",
           "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "Table", "TensorDataset",
           "TokenWindows", "Tokenizer", "WeightedRandomSampler", "WorkerInfo", "decode_image",
           "default_collate", "default_convert", "encode_jpeg", "encode_png", "get_worker_info",
           "image_folder", "load_cifar10", "load_cifar100", "load_image", "load_mnist", "pad",
           "random_split", "read_cifar10", "read_cifar100", "read_csv", "read_json_lines",
           "read_json_table", "read_lines", "save_jpeg", "save_png", "transforms", "write_csv"]
