"""States that lie in parts on ranks: names and arguments as torch.distributed.checkpoint has them, where the meaning is
the same.

    state = {"model": {"w": w}, "step": weft.tensor(3)}     # w: a DTensor, of which each rank saves its part
    save(state, checkpoint_id="run/checkpoint")
    load(state, checkpoint_id="run/checkpoint")             # into the tensors, on any number of ranks, in any parts

Every rank of the group calls them. A state is a dictionary, which may hold dictionaries and lists, of DTensors, of
weft.io.ShardedTensor, and of tensors that every rank has whole; nothing else. A folder keeps several saves; the newest
is loaded. weft.io.merge_sharded makes files of it that one process loads. docs/distributed.md says more.
"""

import os as _os
import threading as _threading

import weft as _weft
from weft import io as _io
from weft._core import _distributed as _core
from weft.distributed import _group

__all__ = ["async_save", "load", "save"]


def _flattened(value, path=()):
    """Names, joined by dots, with the tensors and the ways to them."""
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        yield ".".join(path), path, value
        return
    for key, item in items:
        yield from _flattened(item, (*path, str(key)))


def _part(name, value):
    if isinstance(value, _core.DTensor):
        return _core.shard_of(value)
    if isinstance(value, _weft.Tensor):
        value = _io.ShardedTensor(value.detach(), tuple(value.shape), (0,) * value.dim())
    if isinstance(value, _io.ShardedTensor):
        return _io._shards({name: value})[name]
    raise TypeError(f"'{name}' is a {type(value).__name__}: states of ranks hold DTensor, Tensor and ShardedTensor")


def _parts(state_dict):
    """The parts by name, and of those in nested dictionaries the ways to them."""
    parts, nested = {}, {}
    for name, path, value in _flattened(state_dict):
        if name in parts:
            raise ValueError(f"two tensors of the state have the name '{name}'")
        parts[name] = _part(name, value)
        if len(path) > 1:
            nested[name] = list(path)
    return parts, nested


def save(state_dict, *, checkpoint_id, id=None, process_group=None):
    """Saves what the ranks have, each its own file, in the folder `checkpoint_id`, and returns the number of the save,
    which `id` gives; where it is left out, 1 more than the largest. It appears when it is complete. Where one rank
    cannot write, it raises its error, and the others an OSError that names it."""
    parts, nested = _parts(state_dict)
    return _core.save_state_dict(parts, _os.fspath(checkpoint_id), _group(process_group), id, nested)


def load(state_dict, *, checkpoint_id, id=None, strict=True, mapping=None):
    """Fills the tensors of this rank, however the state was shared out when it was saved. id: the largest where it is
    left out. mapping: a weft.io.Mapping to other names and shapes."""
    parts, _ = _parts(state_dict)
    _weft._core._load_state_dict(parts, _os.fspath(checkpoint_id), id, strict, _io._core_of(mapping))


class _Future:
    """A save under way."""

    def __init__(self, saver, id):
        self._saver, self._error, self.id = saver, None, id

    def result(self):
        """Waits; returns the number of the save or raises its error, on every rank."""
        saver, self._saver = self._saver, None
        if saver is not None:
            try:
                saver.wait()
            except Exception as error:
                self._error = error
        if self._error is not None:
            raise self._error
        return self.id


# By group, of the thread that is its rank.
_savers = _threading.local()


def async_save(state_dict, *, checkpoint_id, id=None, process_group=None):
    """The same in the background: it returns a future once this rank's parts are copied, and the tensors may change at
    once. One save of a group is under way at a time; the next waits for it, and raises what it failed with unless its
    `result()` did."""
    group = _group(process_group)
    by_group = _savers.__dict__
    if group not in by_group:
        by_group[group] = [_core.BackgroundSaver(group), None]
    saver, before = by_group[group]
    by_group[group][1] = None
    if before is not None and before._saver is not None:
        before.result()
    parts, nested = _parts(state_dict)
    future = _Future(saver, saver.save(parts, _os.fspath(checkpoint_id), id, nested))
    by_group[group][1] = future
    return future
