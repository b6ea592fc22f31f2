"""Names of torch.utils.data beside weft.data."""

import multiprocessing
import os
import warnings

from weft import data
from weft.data import _datasets

__all__ = ["DataLoader", "IterDataPipe", "MapDataPipe", "default_collate", "default_convert", "get_worker_info"]

default_collate, default_convert, get_worker_info = data.default_collate, data.default_convert, data.get_worker_info
IterDataPipe, MapDataPipe = _datasets.IterableDataset, _datasets.Dataset


class DataLoader(data.DataLoader):
    """weft.data.DataLoader; workers are threads whatever the start method of processes, except for "fork". Workers of an
    IterableDataset are forked processes, each with its own iterator."""

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None,
                 pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None,
                 generator=None, *, in_order=True, **options):
        _check_context(multiprocessing_context, num_workers)
        forks = multiprocessing_context == "fork" or num_workers and isinstance(dataset, data.IterableDataset)
        super().__init__(dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory, drop_last,
                         timeout, worker_init_fn, "fork" if forks else None, generator, **options)
        self.check_worker_number_rationality()
        self.multiprocessing_context = multiprocessing_context
        # For programs that read them; the order of batches is C++'s.
        if self.sampler is None and self.batch_sampler is None and not self._iterable:
            kind = data.RandomSampler if shuffle else data.SequentialSampler
            object.__setattr__(self, "sampler", kind(dataset))
        if self.batch_sampler is None and batch_size is not None and self.sampler is not None:
            object.__setattr__(self, "batch_sampler", data.BatchSampler(self.sampler, batch_size, drop_last))

    _auto_collation = property(lambda self: self.batch_sampler is not None, doc="Whether samples are collated to batches.")

    def check_worker_number_rationality(self):
        """Warns where there are more workers than processors."""
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if self.num_workers > processors:
            warnings.warn(f"DataLoader: {self.num_workers} workers for {processors} processors", stacklevel=3)


def _check_context(context, num_workers):
    if context is None:
        return
    if not num_workers:
        raise ValueError(f"multiprocessing_context needs num_workers > 0, got {num_workers}")
    methods = multiprocessing.get_all_start_methods()
    if isinstance(context, str) and context not in methods:
        raise ValueError(f"multiprocessing_context: expected one of {methods}, got {context!r}")
    if not isinstance(context, (str, multiprocessing.context.BaseContext)):
        raise TypeError(f"multiprocessing_context: expected a name or a context, got {type(context).__name__}")
