"""Batches in parts.

    loader = ShardDataLoader(DataLoader(dataset, batch_size=8, seed=1), mesh, shard_dims=["dp"])
    for x, y in loader:                       # DTensors, of which each rank of "dp" has its rows
        ...

docs/distributed.md says more.
"""

from weft import Tensor as _Tensor
from weft._core import _distributed as _core

__all__ = ["ShardDataLoader"]


class ShardDataLoader:
    """A weft.data.DataLoader, the same on every rank, whose batches come as DTensors; what is no tensor stays.

    meshes: one for all inputs, or one for each; the members of a batch that is a tuple or a list, and of a dictionary
    those of `input_keys`, in this order, are its inputs. shard_dims: the name of the mesh's dimension whose ranks cut
    an input, or (name, axis) where not along axis 0, or a list of such that cut it at once, or None where all have the
    whole; one for all inputs, or one for each. already_split: the loader gives each rank a part of its own, as one with
    rank and world does along the first axis that is cut. last_batch, of a batch that the ranks do not divide: "ragged",
    parts of several sizes; "pad", what stands at its start comes again behind its end, and masks() tells which; "drop",
    it is left out.

    Every loop is an epoch. Called by all ranks, which compare their positions where a loop begins: ValueError on all of
    them where seeds, datasets, options or positions differ. KeyError for a key that a batch lacks."""

    def __init__(self, loader, meshes, *, input_keys=(), shard_dims=(), already_split=False, last_batch="ragged"):
        if last_batch not in ("ragged", "pad", "drop"):
            raise ValueError(f"ShardDataLoader(): argument 'last_batch': expected one of ragged, pad, drop, got {last_batch!r}")
        if isinstance(shard_dims, (str, type(None))):
            shard_dims = [shard_dims]
        dims = [_cuts(d) for d in shard_dims]
        meshes = [meshes] if isinstance(meshes, _core.DeviceMesh) else list(meshes)
        self.loader, self._keys, self._split = loader, list(input_keys), already_split
        self._parts = _core.BatchParts(meshes, self._keys, dims, already_split, last_batch)
        self._parts.check_loader(*loader._share)

    def __iter__(self):
        batches = iter(self.loader)
        self._parts.check_alike(self._position())
        return self._cut_batches(batches)

    def _position(self):
        if not self._split:
            return self.loader.state()
        position = f"epoch {self.loader.epoch}, batch {self.loader._core.batch()}"
        return position if self.loader._iterable else f"{position} of {len(self.loader)}"

    def _cut_batches(self, batches):
        for batch in batches:
            self._parts.begin()
            batch = self._cut_batch(batch)
            if not self._parts.drops():
                yield batch
                continue
            for _ in batches:
                self._parts.raise_not_last()

    def _cut_batch(self, batch):
        self._parts.check_keys(isinstance(batch, dict))
        if isinstance(batch, dict) and self._keys:
            for key in self._keys:
                if key not in batch:
                    self._parts.raise_missing(key)
            return {key: self._cut(batch[key], i) for i, key in enumerate(self._keys)}
        if isinstance(batch, (tuple, list)):
            self._parts.check_count(len(batch))
            return _rebuilt(batch, [self._cut(x, i) for i, x in enumerate(batch)])
        if isinstance(batch, _Tensor):
            self._parts.check_count(1)
        return self._cut(batch, 0)

    def _cut(self, x, number):
        """An input; its tensors are split alike."""
        if isinstance(x, _Tensor):
            return self._parts.cut(x, number)
        if isinstance(x, dict):
            return {key: self._cut(value, number) for key, value in x.items()}
        if isinstance(x, (tuple, list)):
            return _rebuilt(x, [self._cut(value, number) for value in x])
        return x

    def __len__(self):
        """Batches of an epoch. Whether "drop" takes one follows from the number of samples, a row each."""
        all, loader = len(self.loader), self.loader
        if not self._parts.drops_uneven() or loader._iterable or loader.drop_last:
            return all
        if loader.batch_size is None or loader.batch_sampler is not None:
            raise ValueError("ShardDataLoader: how many rows a batch sampler's last batch will have is not known")
        rows = (len(loader.dataset) if loader.sampler is None else len(loader.sampler)) % loader.batch_size
        return all if self._parts.divides(rows) else all - 1

    def masks(self):
        """Of the batch that was given out last: for each of its tensors in their order a DTensor of bool, with its cut
        axes and in parts as that, False where it is padding."""
        return self._parts.masks()

    @property
    def seed(self):
        return self.loader.seed

    @property
    def epoch(self):
        return self.loader.epoch

    def set_epoch(self, epoch):
        self.loader.set_epoch(epoch)

    def state(self):
        """The loader's position, the same text on every rank. Without already_split, any number of ranks can resume
        from it."""
        return self.loader.state()

    def restore(self, state):
        self.loader.restore(state)

    def state_dict(self):
        return self.loader.state_dict()

    def load_state_dict(self, state_dict):
        self.loader.load_state_dict(state_dict)


def _cuts(described):
    """Of one input, as (name, axis)."""
    if described is None:
        return []
    if isinstance(described, str):
        return [(described, 0)]
    if len(described) == 2 and isinstance(described[0], str) and isinstance(described[1], int):
        return [tuple(described)]
    return [cut for one in described for cut in _cuts(one)]


def _rebuilt(x, items):
    if hasattr(x, "_fields"):  # a named tuple
        return type(x)(*items)
    return type(x)(items)
