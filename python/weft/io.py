"""Tensors in files: safetensors as a whole or in parts, models in several files with an index or with their trees,
mappings of names and shapes, and states of runs."""

import dataclasses
import operator
import os

from weft import _core
from weft._mapping import Mapping
from weft._mapping import core_of as _core_of
from weft._model import ModuleRegistry, from_json, load_model, save_model, to_json
from weft._training_state import (
    BackgroundSaver,
    RunState,
    load_training_state,
    read_run_state,
    save_training_state,
    training_states,
)

__all__ = ["BackgroundSaver", "Mapping", "ModuleRegistry", "RunState", "SafeFile", "ShardedTensor", "from_json",
           "load_file", "load_model", "load_sharded", "load_state_dict", "load_training_state", "merge_sharded",
           "read_run_state", "safe_open", "save_file", "save_model", "save_sharded", "save_state_dict", "save_stream",
           "save_training_state", "state_ids", "to_json", "training_states"]


def _choice(function, argument, value, choices):
    if value not in choices:
        raise ValueError(f"{function}(): argument '{argument}': expected one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def save_file(tensors, filename, metadata=None, *, tie="error"):
    """Writes named tensors as safetensors. The file is replaced as a whole or stays as it was.

    Tensors that share memory are refused with ValueError; with tie="alias" a tensor under several names is written
    once, and loaded as one tensor.
    """
    alias = _choice("save_file", "tie", tie, ("error", "alias")) == "alias"
    _core._save_file(dict(tensors), os.fspath(filename), metadata or {}, alias)


def save_stream(out, tensors, metadata=None, *, tie="error"):
    """The bytes of save_file into a file, a socket's file or a pipe that is open for binary writing, which is never read
    or sought. What it raises passes through, and what it got is then too short to be loaded."""
    alias = _choice("save_stream", "tie", tie, ("error", "alias")) == "alias"
    _core._save_stream(out, dict(tensors), metadata or {}, alias)


def load_file(filename, device="cpu", names=None, *, mapping=None, mmap=True):
    """Every tensor of a safetensors file by name, or those named. KeyError for a name that the file has not.

    mapping: a Mapping, or its text, that is applied to what the file holds; names are then those that it makes.
    mmap: the tensors are views of the mapped file, and a file that another program truncates before they are used ends
    the process. With mmap=False the whole file is read at once: for files that may change.
    """
    if mapping is None:
        return _core._load_file(os.fspath(filename), device, None if names is None else list(names), mmap)
    store = _core._SafeFile(os.fspath(filename), mmap).mapped(_core_of(mapping))
    return {name: store.copy(name, device) for name in (store.keys() if names is None else names)}


class TensorSlice:
    """A tensor of a file that is read where it is indexed, by integers, slices with step 1 and an Ellipsis."""

    def __init__(self, file, name, device):
        self._file, self._name, self._device = file, name, device
        self._shape = tuple(file.shape(name))

    @property
    def shape(self):
        return self._shape

    def get_shape(self):
        """The sizes as a list."""
        return list(self._shape)

    def __getitem__(self, index):
        starts, ends, dropped = self._bounds(index if isinstance(index, tuple) else (index,))
        part = self._file.get_slice(self._name, starts, ends, self._device)
        return part.reshape([n for d, n in enumerate(part.shape) if d not in dropped]) if dropped else part

    def _bounds(self, index):
        rank = len(self._shape)
        given = sum(i is not Ellipsis for i in index)
        if given > rank or len(index) - given > 1:
            raise IndexError(f"get_slice(): {given} indices and {len(index) - given} ellipses for {rank} dimensions")
        at = next((n for n, i in enumerate(index) if i is Ellipsis), len(index))
        index = (*index[:at], *[slice(None)] * (rank - given), *index[at + 1:])
        starts, ends, dropped = [], [], set()
        for d, (i, size) in enumerate(zip(index, self._shape)):
            if isinstance(i, slice):
                start, end, step = i.indices(size)
                if step != 1:
                    raise ValueError(f"get_slice(): a step of {step}; only whole ranges are read")
            else:
                start = operator.index(i)
                if not -size <= start < size:
                    raise IndexError(f"get_slice(): index {start} of dimension {d}, whose size is {size}")
                start += size if start < 0 else 0
                end = start + 1
                dropped.add(d)
            starts.append(start)
            ends.append(max(start, end))
        return starts, ends, dropped


class SafeFile:
    """A safetensors file, checked when it is opened; tensors are read where they are asked for.

    with weft.io.SafeFile("model.safetensors") as file:
        rows = file.get_slice("embedding.weight")[:10]

    mapping: a Mapping, or its text; names and shapes are then those that it makes, and what is asked for is read of the
    file's tensors, no more. mmap: as load_file.
    """

    def __init__(self, filename, device="cpu", mapping=None, *, mmap=True):
        self._device = device
        file = _core._SafeFile(os.fspath(filename), mmap)
        self._metadata = file.metadata()
        self._open = file if mapping is None else file.mapped(_core_of(mapping))

    @property
    def _file(self):
        if self._open is None:
            raise ValueError("SafeFile(): the file is closed")
        return self._open

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Tensors that were read stay as they are."""
        self._open = None

    def keys(self):
        return self._file.keys()

    def __contains__(self, name):
        return name in self._file.keys()

    def metadata(self):
        self._file  # which refuses where it is closed
        return dict(self._metadata)

    def get_tensor(self, name):
        """KeyError for a name that the file has not."""
        return self._file.get(name, self._device)

    def get_slice(self, name):
        """The tensor to be indexed: get_slice(name)[2:4, 0] reads those elements alone."""
        return TensorSlice(self._file, name, self._device)


def safe_open(filename, framework="weft", device="cpu", *, mmap=True):
    """As the function of this name in the package safetensors. mmap: as load_file."""
    _choice("safe_open", "framework", framework, ("weft",))
    return SafeFile(filename, device, mmap=mmap)


def save_sharded(tensors, folder, max_shard_size="5GB", prefix="model", metadata=None, *, tie="error"):
    """Writes named tensors to a folder in files of at most max_shard_size bytes, with an index; returns their names.

    tensors: a dictionary or pairs, whose order is kept. max_shard_size: an integer, or "500MB", "2GiB" and the like.
    metadata: {"format": "pt"} where it is left out, which programs that load models expect.
    """
    pairs = list(tensors.items() if hasattr(tensors, "items") else tensors)
    alias = _choice("save_sharded", "tie", tie, ("error", "alias")) == "alias"
    return _core._save_sharded(pairs, os.fspath(folder), str(max_shard_size), prefix,
                               {"format": "pt"} if metadata is None else metadata, alias)


def load_sharded(folder, device="cpu", *, device_map=None, dtype=None, offload="cpu", prefix="model",
                 prefer_index=False, mapping=None):
    """The tensors of a folder that save_sharded or another library wrote, one file at a time.

    device_map: devices of parts of the model, {"encoder": "cpu", "decoder.layers.0": "cuda:0"}; the longest key wins.
    dtype: what floating tensors are converted to. offload: "cpu" holds those of the CPU in memory, "disk" leaves them
    in the mapped files until they are looked at. mapping: a Mapping, or its text; device_map speaks of the names that it
    makes.
    """
    on_disk = _choice("load_sharded", "offload", offload, ("cpu", "disk")) == "disk"
    return _core._load_sharded(os.fspath(folder), device, dict(device_map or {}), dtype, on_disk, prefix, prefer_index,
                               _core_of(mapping))


@dataclasses.dataclass
class ShardedTensor:
    """What a rank has of a tensor: the box of local's shape at global_offset. Where a box of local_shape was flattened
    and cut, local has the elements of flattened_range, (begin, end)."""

    local: object
    global_shape: tuple
    global_offset: tuple
    flattened_range: tuple | None = None
    local_shape: tuple = ()


def _shards(state):
    """A plain tensor is whole."""
    whole = {name: t if isinstance(t, ShardedTensor) else ShardedTensor(t, tuple(t.shape), (0,) * t.dim())
             for name, t in state.items()}
    return {name: (t.local, list(t.global_shape), list(t.global_offset), t.flattened_range, list(t.local_shape))
            for name, t in whole.items()}


def save_state_dict(ranks, folder, *, id=None, replicas=False, nested_names=None):
    """Writes what ranks have, and returns the state's id: 1 more than the largest in the folder where none is given.

    ranks: for each a dictionary of ShardedTensor, or of tensors that it has whole; one dictionary stands for one rank.
    Together they make every tensor exactly, or ValueError names the ranks; of those that have the same part one writes
    it, unless replicas is true. nested_names: {"w": ["model", "w"]} says where a tensor stood in a nested state.
    """
    states = [ranks] if hasattr(ranks, "items") else ranks
    return _core._save_state_dict([_shards(s) for s in states], os.fspath(folder), id, replicas, nested_names or {})


def load_state_dict(state, folder, *, id=None, strict=True, mapping=None):
    """Fills the tensors of one rank, however the state was shared out when it was saved.

    state: a dictionary of ShardedTensor, or of whole tensors, such as a module's state_dict. id: the largest where it is
    left out. KeyError for a name that is not there, unless strict is false.
    """
    _core._load_state_dict(_shards(state), os.fspath(folder), id, strict, _core_of(mapping))


def state_ids(folder):
    """Ids of the complete states in a folder."""
    return _core._state_ids(os.fspath(folder))


def merge_sharded(load_folder, save_folder, *, id=None, prefix="", skip_suffixes=(), mapping=None, offload=False,
                  max_shard_size="5GB"):
    """Writes a state that several ranks saved in shards as a model for one process; returns the names of the files.

    id: of the state, the largest where it is left out. prefix: only tensors of this name or below it. skip_suffixes:
    what names end with that are left out. offload: one tensor at a time is in memory.
    """
    return _core._merge_sharded(os.fspath(load_folder), os.fspath(save_folder), id, prefix, list(skip_suffixes),
                                _core_of(mapping), offload, str(max_shard_size))
