"""Samplers: the order of an epoch's samples, a function of seed and epoch only. A missing seed is drawn from the
generator, so that each new sampler has another order."""

from weft import _core, as_tensor


def whole_numbers(**arguments):
    """Raises ValueError, as PyTorch does, unless all arguments are integers of 64 bits; callers check their ranges."""
    for name, value in arguments.items():
        number = None if isinstance(value, bool) else getattr(type(value), "__index__", lambda _: None)(value)
        if number is None or not -2**63 <= number < 2**63:
            raise ValueError(f"{name} is {value!r}, no whole number")


class Sampler:
    """Base class of custom samplers: `__iter__` yields indices, and `__len__` is their number. A loader iterates it
    anew in every epoch."""

    def __init__(self, data_source=None):
        pass

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")


class _Ordered(Sampler):
    """A sampler implemented in C++. Outside of a loader, each `iter` is the next epoch."""

    def __init__(self, core, generator=None, seed=None):
        self._core, self._seed, self._next = core, seed, 0
        self.generator, self._drawn = generator, None

    def _own_seed(self):
        """Drawn on first use."""
        if self._drawn is None:
            self._drawn = _core._draw_seed(self.generator)
        return self._drawn

    def _order(self, seed, epoch):
        if self._seed is None and self.generator is not None:
            seed = self._own_seed()
        return self._core.order(seed if self._seed is None else self._seed, epoch)

    def __iter__(self):
        epoch, self._next = self._next, self._next + 1
        return iter(self._order(self._own_seed() if self._seed is None else 0, epoch))

    def __len__(self):
        return self._core.size()


class SequentialSampler(_Ordered):
    """0 … len(data_source) - 1."""

    def __init__(self, data_source):
        super().__init__(_core._sequential_sampler(len(data_source)))
        self.data_source = data_source


class RandomSampler(_Ordered):
    """A random order, different in every epoch."""

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None, *, seed=None):
        super().__init__(_core._random_sampler(len(data_source), replacement, num_samples), generator, seed)
        self.data_source, self.replacement = data_source, replacement


class SubsetRandomSampler(_Ordered):
    """The given indices in a random order."""

    def __init__(self, indices, generator=None, *, seed=None):
        self.indices = [int(i) for i in indices]
        super().__init__(_core._subset_sampler(self.indices, True), generator, seed)


class WeightedRandomSampler(_Ordered):
    """num_samples indices, each with a probability proportional to its weight."""

    def __init__(self, weights, num_samples, replacement=True, generator=None, *, seed=None):
        self.weights = as_tensor(weights)
        self.num_samples, self.replacement = num_samples, replacement
        super().__init__(_core._weighted_sampler(self.weights, num_samples, replacement), generator, seed)


class DistributedSampler(_Ordered):
    """Every num_replicas-th sample, from number `rank` on, of one order that all ranks share. All ranks get the same
    number: some samples repeat at the end, or with drop_last the last ones are left out. The number of ranks and the own
    one are those of weft.distributed unless they are given."""

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        if num_replicas is None or rank is None:
            from weft import distributed

            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        whole = _core._random_sampler(len(dataset), False, None) if shuffle else _core._sequential_sampler(len(dataset))
        super().__init__(_core._distributed_sampler(whole, rank, num_replicas, drop_last), seed=seed)
        self.num_replicas, self.rank, self.epoch = num_replicas, rank, 0

    def set_epoch(self, epoch):
        """Sets the epoch of the next loops. Without it, each loop is epoch 0, so that ranks agree whatever number of
        loops each of them ran."""
        whole_numbers(epoch=epoch)
        if epoch < 0:
            raise ValueError(f"there is no epoch {epoch}")
        self.epoch = epoch

    def _order(self, seed, epoch):
        return super()._order(seed, self.epoch)


class BatchSampler(Sampler):
    """Batches of another sampler's indices."""

    def __init__(self, sampler, batch_size, drop_last):
        whole_numbers(batch_size=batch_size)
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, below 1")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def _cut(self, indices):
        batches = [indices[i:i + self.batch_size] for i in range(0, len(indices), self.batch_size)]
        return batches[:-1] if self.drop_last and batches and len(batches[-1]) < self.batch_size else batches

    def _batches(self, seed, epoch):
        return self._cut(_order_of(self.sampler, seed, epoch))

    def __iter__(self):
        return iter(self._cut(list(self.sampler)))

    def __len__(self):
        more = 0 if self.drop_last else self.batch_size - 1
        return (len(self.sampler) + more) // self.batch_size


class LengthBatchSampler(Sampler):
    """Batches of samples of similar length, which reduces padding. A random order is cut into buckets of `bucket`
    batches; each bucket is sorted by length and cut into batches, which are shuffled."""

    def __init__(self, lengths, batch_size, bucket=100, shuffle=True, drop_last=False, *, seed=None):
        self._core = _core._length_batch_sampler([int(n) for n in lengths], batch_size, bucket, shuffle, drop_last)
        self._seed, self._next, self._drawn = seed, 0, None
        self._length = len(self._core.batches(0, 0))

    def _batches(self, seed, epoch):
        return self._core.batches(seed if self._seed is None else self._seed, epoch)

    def __iter__(self):
        epoch, self._next = self._next, self._next + 1
        if self._drawn is None and self._seed is None:
            self._drawn = _core._draw_seed(None)
        return iter(self._batches(self._drawn, epoch))

    def __len__(self):
        return self._length


def _order_of(sampler, seed, epoch):
    """The indices of an epoch as a list."""
    return sampler._order(seed, epoch) if isinstance(sampler, _Ordered) else list(sampler)


def _batches_of(sampler, seed, epoch):
    if isinstance(sampler, (BatchSampler, LengthBatchSampler)):
        return sampler._batches(seed, epoch)
    return list(sampler)
