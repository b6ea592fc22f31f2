"""Iterable datasets in worker processes, for PyTorch's loader and for Weft's. `python iterables.py > iterables.json`
records PyTorch 2.15."""
import json


def batches(data):
    """The batches of a library's loaders, by name."""
    out = {}

    class Sharded(data.IterableDataset):
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            info = data.get_worker_info()
            return iter(range(info.id, self.n, info.num_workers))

    class Whole(data.IterableDataset):
        def __iter__(self):
            return iter(range(5))

    class Uneven(data.IterableDataset):
        def __iter__(self):
            at = data.get_worker_info().id
            return iter(range(100 * at, 100 * at + [2, 9, 5][at]))

    def lists(dataset, *arguments, **keywords):
        loader = data.DataLoader(dataset, *arguments, multiprocessing_context="fork", **keywords)
        return [x.tolist() if hasattr(x, "tolist") else x for x in loader]

    for n in (0, 1, 7, 20):
        for workers in (1, 2, 3):
            for size, drop_last in ((1, False), (3, False), (3, True), (None, False)):
                name = f"{n} samples, {workers} workers, batches of {size}" + (", whole ones" if drop_last else "")
                out[name] = lists(Sharded(n), size, num_workers=workers, drop_last=drop_last)
    out["read by each"] = lists(Whole(), 2, num_workers=2)
    out["of unequal lengths"] = lists(Uneven(), 2, num_workers=3)
    return out


if __name__ == "__main__":
    from torch.utils import data

    print("{" + ",\n".join(f"{json.dumps(name)}: {json.dumps(values)}" for name, values in batches(data).items()) + "}")
