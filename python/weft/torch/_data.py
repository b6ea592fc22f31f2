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
