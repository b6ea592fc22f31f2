"""Names of torch.utils.data beside weft.data."""

from weft import data
from weft.data import _datasets

__all__ = ["DataLoader", "IterDataPipe", "MapDataPipe", "default_collate", "default_convert", "get_worker_info"]

default_collate, default_convert, get_worker_info = data.default_collate, data.default_convert, data.get_worker_info
IterDataPipe, MapDataPipe = _datasets.IterableDataset, _datasets.Dataset


class DataLoader(data.DataLoader):
    """weft.data.DataLoader; workers are threads whatever the start method of processes, except for "fork"."""

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None,
                 pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None,
                 generator=None, *, in_order=True, **options):
        forks = multiprocessing_context == "fork"
        super().__init__(dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory, drop_last,
                         timeout, worker_init_fn, "fork" if forks else None, generator, **options)
        # For programs that read them; the order of batches is C++'s.
        if self.sampler is None and self.batch_sampler is None and not self._iterable:
            kind = data.RandomSampler if shuffle else data.SequentialSampler
            object.__setattr__(self, "sampler", kind(dataset))
        if self.batch_sampler is None and batch_size is not None and self.sampler is not None:
            object.__setattr__(self, "batch_sampler", data.BatchSampler(self.sampler, batch_size, drop_last))
