"""The loader; C++ computes the order, tracks the position and runs the workers."""

import atexit
import json
import types
import weakref

from weft import _core
from weft.data._collate import _each, default_collate, default_convert
from weft.data._datasets import IterableDataset, Subset, TensorDataset
from weft.data._processes import Processes, StreamBatches, StreamProcesses
from weft.data._samplers import BatchSampler, DistributedSampler, _batches_of, _order_of, whole_numbers
from weft.data._workers import WorkerInfo, here

_SETTLED = {"dataset", "batch_size", "sampler", "batch_sampler", "drop_last", "num_workers"}
_open: weakref.WeakSet = weakref.WeakSet()


@atexit.register
def _close_all():
    """Before the interpreter exits: workers that wait for it then would wait forever."""
    for loader in list(_open):
        loader._core.close()


def _rows_of(dataset):
    """The TensorDataset under nested subsets, and its row indices in order; None if there is none."""
    rows = None
    while type(dataset) is Subset:
        inner = dataset.indices
        rows = list(inner) if rows is None else [inner[i] for i in rows]
        dataset = dataset.dataset
    return (dataset, rows) if type(dataset) is TensorDataset else None


class DataLoader:
    """Batches of a dataset.

    Each `for` loop over a loader is an epoch, the next one each time. `num_workers` threads make batches ahead of the
    loop; results do not depend on their number. Threads share the interpreter: if samples need much Python code, use
    multiprocessing_context="fork", which forks worker processes from this one at the first loop.

    An IterableDataset is read by one thread at a time, each sample once. Worker processes each read a copy of it, as in
    PyTorch; get_worker_info distinguishes them, and their batches alternate.

    `seed` determines the order and the random numbers of samples; by default it is drawn from `generator` or the
    default generator when the first loop begins. An error of a dataset is raised in the loop, with a note that names
    the sample and the worker. A dataset without samples yields no batch, and raises ValueError with shuffle.

    Beyond PyTorch: `seed`; `device` of the batches; `rank` and `world`, for every world-th sample; `state_dict` and
    `load_state_dict`.
    """

    __class_getitem__: classmethod = classmethod(types.GenericAlias)

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0,
                 collate_fn=None, pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None,
                 multiprocessing_context=None, generator=None, *, prefetch_factor=None, persistent_workers=False,
                 pin_memory_device="", in_order=True, seed=None, device=None, rank=0, world=1):
        if multiprocessing_context not in (None, "fork") or not in_order:
            raise NotImplementedError("workers are threads, or with multiprocessing_context=\"fork\" processes, and "
                                      "batches come in order")
        if num_workers == 0 and (prefetch_factor is not None or persistent_workers):
            raise ValueError("prefetch_factor or persistent_workers is given, and there are no workers")
        whole_numbers(num_workers=num_workers, rank=rank, world=world)
        if batch_size is not None:
            whole_numbers(batch_size=batch_size)
        if prefetch_factor is not None:
            whole_numbers(prefetch_factor=prefetch_factor)
        self.dataset, self.batch_size, self.num_workers = dataset, batch_size, num_workers
        self.sampler, self.batch_sampler, self.drop_last = sampler, batch_sampler, drop_last
        self.pin_memory, self.device, self._worker_init_fn = pin_memory, device, worker_init_fn
        self._iterable = isinstance(dataset, IterableDataset)
        self._share, self._prefetch = (rank, world), 2 if prefetch_factor is None else prefetch_factor
        self._forks, self._processes = multiprocessing_context == "fork" and num_workers > 0, None
        self._generator = generator
        options = {"workers": num_workers, "prefetch": self._prefetch, "timeout": float(timeout), "rank": rank,
                   "world": world, "drop_last": bool(drop_last), "shuffle": bool(shuffle)}
        if batch_size is not None:
            options["batch_size"] = batch_size
        elif drop_last:
            raise ValueError("drop_last is given, and there are no batches (batch_size=None)")
        if seed is not None:
            options["seed"] = seed
        if generator is not None:
            options["generator"] = generator
        if sampler is not None and not hasattr(sampler, "__len__") and batch_sampler is None:
            # The number of samples is known only at their end.
            batch_sampler = BatchSampler(sampler, batch_size or 1, drop_last)
            options |= {"batch_size": 1, "drop_last": False}
        elif sampler is not None:
            options["sampler"] = _core._sampler(type(sampler).__name__, len(sampler),
                                                lambda seed, epoch: _order_of(sampler, seed, epoch))
        if batch_sampler is not None:
            options["batch_sampler"] = _core._batch_sampler(type(batch_sampler).__name__,
                                                            lambda seed, epoch: _batches_of(batch_sampler, seed, epoch))
        place = pin_memory_device or device
        self._pin_device = None if not place or str(place).startswith("cpu") else place  # None: any device
        self._pins = bool(pin_memory) and _core._can_pin(self._pin_device)
        self._core = self._make(collate_fn, options)
        _open.add(self)
        self._settled = True

    def __setattr__(self, name, value):
        if name in _SETTLED and getattr(self, "_settled", False):
            raise ValueError(f"{name} cannot be set any more: make another DataLoader")
        super().__setattr__(name, value)

    def _make(self, collate_fn, options):
        batched = self.batch_size is not None
        tensors = _rows_of(self.dataset)
        by_rows = batched and collate_fn in (None, default_collate) and self._worker_init_fn is None
        if tensors is not None and by_rows and not self._forks:
            dataset, rows = tensors
            return _core._Loader.of_tensors(dataset.tensors, rows, self._pins, self._pin_device, options)
        collate = collate_fn or (default_collate if batched else default_convert)
        place = self._pin_device
        pin = (lambda batch: _each(batch, lambda t: t.pin_memory(place))) if self._pins else (lambda batch: batch)
        collated = collate if batched else (lambda samples: collate(samples[0]))
        reference, dataset = weakref.ref(self), self.dataset
        functions = [None, None, collated, lambda worker: _start(reference, worker), None]
        if self._iterable:
            functions[4] = lambda epoch: iter(dataset)
        else:
            functions[:2] = dataset.__getitem__, getattr(dataset, "__getitems__", None)
        self._functions = functions[:4]
        if self._forks and self._iterable:
            options["workers"] = 1  # one thread receives the processes' batches
            functions[2] = pin
            functions[3] = lambda worker: None
            functions[4] = lambda epoch: _batches(reference(), epoch)
            remote = None
        elif self._forks:
            functions[3] = lambda worker: None
            remote = lambda *job: pin(reference()._processes.make(*job))  # noqa: E731
        else:
            functions[2] = lambda samples: pin(collated(samples))
            remote = None
        processes = self.num_workers if self._forks and self._iterable else 0
        return _core._Loader.of_functions(None if self._iterable else lambda: len(dataset), *functions, remote,
                                          processes, options)

    def __iter__(self):
        if self._forks and self._processes is None:
            _ = self.seed  # drawn here, not in each of the processes
            get, get_all, collate, start = self._functions
            if self._iterable:
                batches = StreamBatches(self.dataset, self.batch_size, self.drop_last, collate, self._share)
                self._processes = StreamProcesses(self.num_workers, batches, start, self._prefetch)
            else:
                self._processes = Processes(self.num_workers,
                                            lambda *job: _core._make_batch(get, get_all, collate, *job), start)
            weakref.finalize(self, _end, self._core, self._processes)
        return _Loop(self, self._core.begin())

    def __len__(self):
        if not self._iterable:
            return self._core.size()
        samples, size = len(self.dataset), self.batch_size or 1
        return samples // size if self.drop_last else -(-samples // size)

    @property
    def seed(self):
        return self._core.seed()

    @property
    def epoch(self):
        """The epoch of the running loop, or of the last one."""
        return self._core.epoch()

    def set_epoch(self, epoch):
        """Sets the epoch of the next loop, also for a DistributedSampler. A loader restored within this epoch continues
        in it."""
        self._core.set_epoch(epoch)
        sampler = getattr(self.batch_sampler, "sampler", None) if self.sampler is None else self.sampler
        if isinstance(sampler, DistributedSampler):
            sampler.set_epoch(epoch)

    def state(self):
        """The position of the loop, as JSON text that C++ loaders can also read."""
        return self._core.state()

    def restore(self, state):
        """Continues the next loop after the last batch that had been returned when `state` was called; if the loop had
        ended, with the next epoch."""
        self._core.restore(state)

    def state_dict(self):
        """The position of the loop, for example for documents={"sampler": loader.state_dict()} of a weft.io.RunState.
        """
        return json.loads(self.state())

    def load_state_dict(self, state_dict):
        self.restore(json.dumps(state_dict))


def _batches(loader, epoch):
    return loader._processes.batches(epoch, loader.seed)


def _end(core, processes):
    """Threads first, since they communicate with the processes."""
    core.close()
    processes.close()


def _start(reference, worker):
    """Runs once in the thread of each worker."""
    loader = reference()
    if loader is None:
        return
    if not loader._iterable or loader._forks:
        here.info = WorkerInfo(worker, loader.num_workers, loader.seed + worker, loader.dataset)
    if loader._worker_init_fn is not None:
        loader._worker_init_fn(worker)


class _Loop:
    """The iterator of a loop."""

    def __init__(self, loader, number):
        self._loader, self._number = loader, number

    def __iter__(self):
        return self

    def __next__(self):
        batch = self._loader._core.next(self._number)
        device = self._loader.device
        return batch if device is None else _each(batch, lambda t: t.to(device, non_blocking=True))

    def __len__(self):
        return len(self._loader)
