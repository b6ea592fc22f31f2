"""Datasets, samplers and loaders: values, order, workers, positions, errors."""

import collections
import gc
import itertools
import json
import os
import pathlib
import subprocess
import sys
import textwrap
import threading
import time

import numpy
import pytest

import weft
from weft import data
from weft.data import DataLoader

LOADER_CASES = pathlib.Path(__file__).parent / "loader_cases"
workers = pytest.mark.parametrize("num_workers", [0, 1, 2, 7])


class Numbers(data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return i


class Noisy(Numbers):
    """Each sample has its own draws."""

    def __getitem__(self, i):
        return weft.rand(2) + i, {"label": i, "name": str(i)}


def lists(loader):
    return [batch.tolist() for batch in loader]


def drawn(loader):
    return [batch[0].tolist() for batch in loader]


@workers
def test_batches_come_in_order(num_workers):
    loader = DataLoader(Numbers(10), batch_size=4, num_workers=num_workers)
    assert len(loader) == 3
    for epoch in range(3):
        assert lists(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert loader.epoch == epoch
    assert lists(DataLoader(Numbers(10), 4, drop_last=True, num_workers=num_workers)) == [[0, 1, 2, 3], [4, 5, 6, 7]]


@workers
def test_the_number_of_workers_changes_nothing(num_workers):
    def values(workers):
        loader = DataLoader(Noisy(23), 4, shuffle=True, seed=5, num_workers=workers)
        return [(x.tolist(), y["label"].tolist(), y["name"]) for _ in range(2) for x, y in loader]

    right = values(0)
    assert values(num_workers) == right
    assert sorted(n for _, labels, _ in right[:6] for n in labels) == list(range(23))
    assert right[0][1] != right[6][1]


@workers
def test_tensor_datasets(num_workers):
    x, y = weft.arange(20).reshape(10, 2), weft.arange(10)
    for a, b in DataLoader(data.TensorDataset(x, y), 4, num_workers=num_workers):
        assert a.tolist() == [[2 * n, 2 * n + 1] for n in b.tolist()]
    part = data.Subset(data.Subset(data.TensorDataset(x, y), [9, 8, 1, 0]), [3, 1])
    [[a, b]] = DataLoader(part, 4, num_workers=num_workers)
    assert b.tolist() == [0, 8] and a.tolist() == [[0, 1], [16, 17]]
    # With a collate_fn it is a dataset as any other.
    [sizes] = DataLoader(data.TensorDataset(x, y), 10, num_workers=num_workers, collate_fn=len)
    assert sizes == 10


def test_tensor_datasets_refuse_unequal_lengths():
    with pytest.raises(ValueError, match="3 and 4 rows"):
        data.TensorDataset(weft.zeros(4), weft.zeros(3))
    with pytest.raises(TypeError, match="expected tensors, got list"):
        data.TensorDataset([1, 2])
    assert data.TensorDataset(weft.arange(4))[2][0].item() == 2


@workers
def test_iterable_datasets_give_each_sample_once(num_workers):
    class Lines(data.IterableDataset):
        def __iter__(self):
            assert data.get_worker_info() is None
            return iter(range(7))

    loader = DataLoader(Lines(), 3, num_workers=num_workers)
    assert lists(loader) == [[0, 1, 2], [3, 4, 5], [6]]
    assert lists(loader) == [[0, 1, 2], [3, 4, 5], [6]]
    ranks = [lists(DataLoader(Lines(), 2, num_workers=num_workers, rank=r, world=2)) for r in range(2)]
    assert ranks == [[[0, 2], [4]], [[1, 3], [5]]]
    chained = data.ChainDataset([Lines(), Lines()])
    assert sum(lists(DataLoader(chained, 3, num_workers=num_workers, drop_last=True)), []) == [*range(7), *range(5)]
    with pytest.raises(TypeError):
        len(loader)
    with pytest.raises(ValueError, match="stream"):
        DataLoader(Lines(), shuffle=True)


@workers
def test_errors_are_the_datasets_own_with_the_place_as_a_note(num_workers):
    class Broken(Numbers):
        bad = 13

        def __getitem__(self, i):
            if i == self.bad:
                raise KeyError("no such picture")
            return i

    dataset = Broken(40)
    loader = DataLoader(dataset, 4, num_workers=num_workers)
    seen = []
    with pytest.raises(KeyError, match="no such picture") as caught:
        for batch in loader:
            seen.append(batch)
    assert len(seen) == 3
    [note] = caught.value.__notes__
    assert "sample 13 of batch 3 of epoch 0" in note and ("worker" in note) == (num_workers > 0)
    assert "__getitem__" in [frame.name for frame in caught.traceback]
    dataset.bad = -1
    assert len(lists(loader)) == 10

    class Reader(data.IterableDataset):
        def __iter__(self):
            yield 1
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        lists(DataLoader(Reader(), 1, num_workers=num_workers))


@workers
def test_shapes_that_do_not_fit_name_two_samples(num_workers):
    class Growing(Numbers):
        def __getitem__(self, i):
            return weft.zeros(2 if i < 7 else 3)

    with pytest.raises(ValueError, match="sample 4 and sample 7 have different shapes"):
        list(DataLoader(Growing(9), 4, num_workers=num_workers))
    [_, (values, lengths), _] = DataLoader(Growing(9), 4, num_workers=num_workers, collate_fn=data.pad(lengths=True))
    assert values.shape == (4, 3) and lengths.tolist() == [2, 2, 2, 3]


@workers
def test_a_loop_may_be_left(num_workers):
    loader = DataLoader(Numbers(50), 1, shuffle=True, seed=1, num_workers=num_workers)
    whole = [sum(lists(DataLoader(Numbers(50), 50, shuffle=True, seed=1)), []) for _ in range(1)][0]
    for batch in loader:
        assert batch.item() == whole[0]
        break
    first = iter(loader)
    second = iter(loader)
    next(second)
    with pytest.raises(ValueError, match="another loop"):
        next(first)


@workers
def test_positions_are_exact(num_workers):
    def loader(workers):
        return DataLoader(Noisy(23), 4, shuffle=True, seed=5, num_workers=workers)

    def values(loader):
        return [x.tolist() for x, _ in loader]

    straight = loader(0)
    right = values(straight) + values(straight)
    for stop in range(1, 7):
        first, seen = loader(num_workers), []
        for x, _ in first:
            seen.append(x.tolist())
            if len(seen) == stop:
                break
        second = loader((num_workers + 1) % 3)
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert seen + values(second) + values(second) == right
    with pytest.raises(ValueError, match="batch_size was 4"):
        DataLoader(Noisy(23), 5, shuffle=True, seed=5).restore(straight.state())
    with pytest.raises(ValueError, match="no saved position"):
        straight.restore("{}")


def test_a_position_goes_with_a_training_state(tmp_path):
    net = weft.nn.Linear(2, 2)
    loader = DataLoader(Noisy(23), 4, shuffle=True, seed=5, num_workers=2)
    at = iter(loader)
    next(at), next(at)
    state = weft.io.RunState(step=2, documents={"sampler": loader.state_dict()})
    weft.io.save_training_state(tmp_path, net, state=state)
    script = tmp_path / "goes_on.py"
    script.write_text(textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
        from test_data import *
        loader = DataLoader(Noisy(23), 4, shuffle=True, seed=5, num_workers=1)
        state = weft.io.load_training_state({str(tmp_path)!r}, weft.nn.Linear(2, 2))
        loader.load_state_dict(state.documents["sampler"])
        print(json.dumps([x.tolist() for x, _ in loader]))
    """), encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [x.tolist() for x, _ in at]


def test_samplers():
    assert list(data.SequentialSampler(range(3))) == [0, 1, 2]
    weft.manual_seed(1)
    sampler = data.RandomSampler(range(20))
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(20)) and first != second
    assert list(data.RandomSampler(range(20))) != first
    weft.manual_seed(1)
    assert list(data.RandomSampler(range(20))) == first
    assert len(data.RandomSampler(range(5), replacement=True, num_samples=9)) == 9
    assert set(data.WeightedRandomSampler([0, 1, 0, 3.0], 40)) == {1, 3}
    assert sorted(data.SubsetRandomSampler([4, 2, 7])) == [2, 4, 7]
    assert list(data.BatchSampler(data.SequentialSampler(range(5)), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(data.BatchSampler([3, 1, 2], 2, True)) == [[3, 1]]
    parts = [list(data.DistributedSampler(range(10), 4, r, shuffle=False)) for r in range(4)]
    assert parts == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]
    shuffled = [list(data.DistributedSampler(range(8), 2, r, seed=3)) for r in range(2)]
    assert sorted(sum(shuffled, [])) == list(range(8))
    with pytest.raises(ValueError):
        data.WeightedRandomSampler([-1.0, 1.0], 2)


@workers
def test_samplers_in_loaders(num_workers):
    class Backwards(data.Sampler):
        def __iter__(self):
            return iter(numpy.arange(5)[::-1])

        def __len__(self):
            return 5

    assert lists(DataLoader(Numbers(5), 2, sampler=Backwards(), num_workers=num_workers)) == [[4, 3], [2, 1], [0]]
    assert lists(DataLoader(Numbers(5), sampler=[2, 2], num_workers=num_workers)) == [[2], [2]]
    batches = DataLoader(Numbers(5), batch_sampler=[[0], [4, 1]], num_workers=num_workers)
    assert lists(batches) == [[0], [4, 1]] and len(batches) == 2
    lengths = [n % 7 for n in range(40)]
    by_length = DataLoader(Numbers(40), batch_sampler=data.LengthBatchSampler(lengths, 4, seed=1), num_workers=num_workers)
    assert all(max(n % 7 for n in b) - min(n % 7 for n in b) <= 1 for b in lists(by_length))
    sampler = data.DistributedSampler(range(10), 2, 1)
    loader = DataLoader(Numbers(10), 5, sampler=sampler, num_workers=num_workers)
    first = lists(loader)
    assert lists(loader) == first and list(sampler) == sum(first, []) == list(sampler)
    sampler.set_epoch(1)
    assert lists(loader) != first
    loader.set_epoch(0)
    assert sampler.epoch == 0 and lists(loader) == first
    with pytest.raises(ValueError):
        sampler.set_epoch(-1)
    ranks = [sum(lists(DataLoader(Numbers(9), 2, shuffle=True, seed=1, rank=r, world=3)), []) for r in range(3)]
    assert sorted(sum(ranks, [])) == list(range(9))


def test_collate():
    Point = collections.namedtuple("Point", "x y")
    point = data.default_collate([Point(1, 2.5), Point(3, 4.5)])
    assert type(point) is Point and point.x.tolist() == [1, 3] and point.y.dtype == weft.float64
    x, flags, nested = data.default_collate([(numpy.ones(2, dtype="f4"), True, {"a": ["p", 1]})] * 3)
    assert x.shape == (3, 2) and x.dtype == weft.float32 and flags.dtype == weft.bool
    assert nested["a"][0] == ["p"] * 3 and nested["a"][1].tolist() == [1, 1, 1]
    assert data.default_collate([numpy.float32(1), numpy.float32(2)]).dtype == weft.float32
    with pytest.raises(TypeError, match="got object"):
        data.default_collate([object()])
    with pytest.raises(ValueError, match="2 and 1 members"):
        data.default_collate([(1, 2), (1,)])
    padded = data.pad(value=-1, multiple_of=4, lengths=True)([([1, 2, 3], 7), ([4], 8)])
    assert padded[0].values.tolist() == [[1, 2, 3, -1], [4, -1, -1, -1]] and padded[1].tolist() == [7, 8]
    assert padded[0].mask().tolist() == [[True, True, True, False], [True, False, False, False]]
    assert data.pad(length=5)([weft.ones(3)]).shape == (1, 5)


def test_datasets():
    a, b = Numbers(2), data.Subset(Numbers(9), [7, 8])
    both = a + b
    assert [both[i] for i in range(4)] == [0, 1, 7, 8] and both[-1] == 8 and len(both) == 4
    with pytest.raises(IndexError):
        both[4]
    assert data.StackDataset(a, b)[1] == (1, 8) and data.StackDataset(x=a, y=b)[0] == {"x": 0, "y": 7}
    with pytest.raises(ValueError, match="2 and 9"):
        data.StackDataset(a, Numbers(9))
    assert [Numbers(5).map(lambda n: n * n)[i] for i in range(3)] == [0, 1, 4]
    assert Numbers(9).filter(lambda n: n % 3 == 0).indices == [0, 3, 6]
    parts = data.random_split(Numbers(10), [0.55, 0.45], seed=1)
    assert [len(p) for p in parts] == [6, 4]
    assert sorted(p[i] for p in parts for i in range(len(p))) == list(range(10))
    with pytest.raises(ValueError):
        data.random_split(Numbers(10), [5, 6])
    windows = data.TokenWindows(weft.arange(10).to(weft.uint8), 3)
    [[inputs, targets]] = DataLoader(windows, 8)
    assert inputs.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]] and targets.tolist()[2] == [7, 8, 9]


def test_workers_have_their_worker_info():
    class Asking(Numbers):
        def __getitem__(self, i):
            time.sleep(0.005)
            info = data.get_worker_info()
            return info.id, info.num_workers, self is info.dataset, threading.current_thread() is threading.main_thread()

    started = []
    loader = DataLoader(Asking(20), 1, num_workers=2, worker_init_fn=started.append)
    ids = set()
    for _ in range(2):
        for id, count, same, main in loader:
            ids.add(id.item())
            assert count.item() == 2 and same.item() and not main.item()
    assert ids == {0, 1} and sorted(started) == [0, 1]
    assert data.get_worker_info() is None


def test_samples_leave_the_trainings_random_numbers_alone():
    before = weft.get_rng_state().tolist()
    for _ in DataLoader(Noisy(20), 4, shuffle=True, num_workers=2, seed=1):
        pass
    assert weft.get_rng_state().tolist() == before
    states = []
    for samples in (1, 20):  # one draw a loop, however many its samples make
        weft.manual_seed(3)
        for _ in DataLoader(Noisy(samples), 4, shuffle=True, num_workers=2):
            pass
        states.append(weft.get_rng_state().tolist())
    assert states[0] == states[1] != before


@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"num_workers": 2, "multiprocessing_context": "fork"}])
def test_a_new_loader_has_another_order_and_other_augmentations(options):
    def run(generator=None):
        return [drawn(DataLoader(Noisy(20), 4, shuffle=True, generator=generator, **options)) for _ in range(3)]

    weft.manual_seed(7)
    epochs = run()
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    weft.manual_seed(7)
    assert run() == epochs
    generator = weft.Generator().manual_seed(8)
    state = weft.get_rng_state().tolist()
    own = run(generator)
    assert own[0] != own[1] and own != epochs
    assert run(generator.manual_seed(8)) == own and weft.get_rng_state().tolist() == state


def test_new_samplers_and_splits_differ():
    makers = {
        "random": lambda g: list(data.RandomSampler(range(30), generator=g)),
        "in a loader": lambda g: sum(lists(DataLoader(Numbers(30), sampler=data.RandomSampler(range(30), generator=g))), []),
        "with replacement": lambda g: list(data.RandomSampler(range(30), replacement=True, generator=g)),
        "subset": lambda g: list(data.SubsetRandomSampler(range(30), generator=g)),
        "weighted": lambda g: list(data.WeightedRandomSampler([1.0] * 30, 30, generator=g)),
        "split": lambda g: data.random_split(range(30), [20, 10], generator=g)[0].indices,
    }
    for name, make in makers.items():
        weft.manual_seed(1)
        first, second = make(None), make(None)
        assert first != second, name
        weft.manual_seed(1)
        assert [make(None), make(None)] == [first, second], name
        g = weft.Generator().manual_seed(2)
        own = [make(g), make(g)]
        assert own[0] != own[1], name
        g.manual_seed(2)
        assert [make(g), make(g)] == own, name
    with pytest.raises(TypeError):
        DataLoader(Numbers(3), generator=3)


@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"num_workers": 2, "multiprocessing_context": "fork"}])
def test_a_state_between_two_epochs_is_the_next_epoch(options):
    def make():
        return DataLoader(Noisy(12), 4, shuffle=True, **options)

    loader = make()
    for _ in range(2):
        list(loader)
    other = make()
    other.load_state_dict(loader.state_dict())
    for _ in range(3):
        epoch = drawn(other)
        assert len(epoch) == 3 and epoch == drawn(loader)
    stream = DataLoader(Seven(), 2)
    list(stream)
    again = DataLoader(Seven(), 2)
    again.restore(stream.state())
    assert len(list(again)) == len(list(stream)) > 0


class Seven(data.IterableDataset):
    def __iter__(self):
        return iter(range(7))


@pytest.mark.parametrize("make", [
    lambda x: data.TensorDataset(x), lambda x: data.Subset(data.TensorDataset(x, x), [3, 1, 4]),
    lambda x: data.random_split(data.TensorDataset(x), [4, 2], seed=1)[0], lambda x: data.Subset(Numbers(6), [5, 0]),
    lambda x: data.StackDataset(data.TensorDataset(x), Numbers(6)), lambda x: Numbers(2) + Numbers(3)])
def test_every_dataset_in_processes(make):
    dataset = make(weft.arange(6.0))
    started = []
    threads = DataLoader(dataset, 2, num_workers=2, worker_init_fn=started.append)
    forks = DataLoader(dataset, 2, num_workers=2, multiprocessing_context="fork")
    alone = DataLoader(dataset, 2)
    for _ in range(2):
        batches = [plain(b) for b in alone]
        assert [plain(b) for b in forks] == [plain(b) for b in threads] == batches
    assert started


def plain(batch):
    return [plain(b) for b in batch] if isinstance(batch, (list, tuple)) else batch.tolist()


def test_a_stop_iteration_is_an_error():
    class Stopping(Numbers):
        def __getitem__(self, i):
            if i == 3:
                raise StopIteration("early")
            return i

    class Several(Stopping):
        def __getitems__(self, indices):
            return [self[i] for i in indices]

    class Refusing(data.IterableDataset):
        def __iter__(self):
            raise StopIteration

    def collate(samples):
        raise StopIteration

    def start(worker):
        raise StopIteration

    kinds = [{}, {"num_workers": 2}, {"num_workers": 2, "multiprocessing_context": "fork"}]
    for options in kinds:
        for dataset, more in [(Stopping(6), {}), (Several(6), {}), (Numbers(6).map(lambda n: next(iter([]))), {}),
                              (Numbers(6), {"collate_fn": collate}), (Seven(), {"collate_fn": collate}),
                              (Refusing(), {})]:
            loader = DataLoader(dataset, 2, **options, **more)
            with pytest.raises(RuntimeError, match="StopIteration"):
                for _ in loader:
                    pass
        if options:
            with pytest.raises(RuntimeError):
                list(DataLoader(data.TensorDataset(weft.ones(4)), 2, worker_init_fn=start, **options))
    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        list(DataLoader(Stopping(6), 2))
    assert isinstance(caught.value.__cause__, StopIteration) and "sample 3 of" in caught.value.__notes__[0]


class Shared(data.IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        info = data.get_worker_info()
        return iter(range(self.count) if info is None else range(info.id, self.count, info.num_workers))

    def __len__(self):
        return self.count


@pytest.mark.parametrize("size", [3, 30, 64])
def test_processes_drop_no_more_of_a_stream_than_threads(size):
    for world in (1, 3):
        seen = []
        for rank in range(world):
            threads = DataLoader(Shared(100), size, num_workers=2, drop_last=True, rank=rank, world=world)
            forks = DataLoader(Shared(100), size, num_workers=4, multiprocessing_context="fork", drop_last=True,
                               rank=rank, world=world)
            for _ in range(2):
                batches = lists(forks)
                assert len(batches) == len(lists(threads)) and all(len(b) == size for b in batches)
            seen += sum(batches, [])
        assert len(set(seen)) == len(seen)
        whole = DataLoader(Shared(100), size, num_workers=4, multiprocessing_context="fork", world=world)
        assert len(sum(lists(whole), [])) == 100 // world


def test_seeds():
    weft.manual_seed(7)
    assert DataLoader(Numbers(3)).seed != DataLoader(Numbers(3)).seed
    assert DataLoader(Numbers(3), world=2).seed == 7
    assert DataLoader(Numbers(3), seed=2 ** 64 - 1).seed == 2 ** 64 - 1


def test_without_batches():
    samples = list(DataLoader(Noisy(3), batch_size=None))
    assert samples[2][0].shape == (2,) and samples[2][1]["name"] == "2"
    [array] = DataLoader([numpy.ones(2)], batch_size=None)
    assert isinstance(array, weft.Tensor)


def test_getitems_gets_whole_batches():
    class Whole(Numbers):
        def __getitems__(self, indices):
            return [10 * i for i in indices]

    assert lists(DataLoader(Whole(5), 2)) == [[0, 10], [20, 30], [40]]


def test_bad_arguments():
    for kwargs, text in [({"batch_size": 0}, "batch_size: expected"), ({"num_workers": -1}, "workers: expected"),
                         ({"shuffle": True, "sampler": [0]}, "shuffle and a sampler"),
                         ({"batch_size": 2, "batch_sampler": [[0]]}, "batch_sampler excludes"),
                         ({"timeout": -1}, "timeout"), ({"prefetch_factor": 2}, "no workers"),
                         ({"batch_size": None, "drop_last": True}, "drop_last")]:
        with pytest.raises(ValueError, match=text):
            DataLoader(Numbers(5), **kwargs)
    for kwargs in ({"batch_size": 2.5}, {"batch_size": "3"}, {"batch_size": True}, {"batch_size": 10**30}, {"num_workers": 1.0},
                   {"num_workers": 10**6}, {"world": "2"}, {"persistent_workers": True},
                   {"num_workers": 1, "prefetch_factor": 0}):
        with pytest.raises(ValueError):
            DataLoader(Numbers(5), **kwargs)
    with pytest.raises(TypeError, match="len"):
        DataLoader(type("Endless", (), {"__getitem__": lambda self, i: i})())
    loader = DataLoader(Numbers(5), 2)
    with pytest.raises(ValueError, match="another DataLoader"):
        loader.batch_size = 3
    with pytest.raises(NotImplementedError):
        DataLoader(Numbers(5), multiprocessing_context="spawn")
    with pytest.raises(IndexError):
        list(DataLoader(Numbers(5), sampler=[5]))
    with pytest.raises(TypeError):
        list(DataLoader(Numbers(5), sampler=["a"]))


def test_a_batch_that_does_not_come_in_time():
    wait = threading.Event()

    class Slow(Numbers):
        def __getitem__(self, i):
            if i == 1:
                wait.wait()
            return i

    loader = iter(DataLoader(Slow(3), num_workers=1, timeout=0.05))
    next(loader)
    with pytest.raises(RuntimeError, match="batch 1 did not come"):
        next(loader)
    wait.set()


def test_a_process_ends_while_workers_are_busy():
    program = textwrap.dedent("""
        import time, weft
        from weft.data import DataLoader
        class Slow:
            def __len__(self): return 10000
            def __getitem__(self, i):
                time.sleep(0.01)
                return i
        loader = DataLoader(Slow(), 4, num_workers=3)
        at = iter(loader)
        print(next(at).tolist())
    """)
    for ending in ("", "loader.cycle = loader", "raise SystemExit(0)"):
        done = subprocess.run([sys.executable, "-c", program + ending], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, "[0, 1, 2, 3]\n"), done.stderr


@workers
def test_a_forked_process_continues(num_workers):
    loader = DataLoader(Noisy(23), 4, shuffle=True, seed=5, num_workers=num_workers)
    right = [x.tolist() for x, _ in DataLoader(Noisy(23), 4, shuffle=True, seed=5)]
    at = iter(loader)
    seen = [next(at)[0].tolist()]
    child = os.fork()
    if child == 0:
        same = False
        try:
            same = seen + [x.tolist() for x, _ in at] == right
        finally:
            os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert seen + [x.tolist() for x, _ in at] == right


def test_loaders_are_dropped_with_their_datasets():
    import gc
    import weakref

    dataset = Noisy(50)
    gone = weakref.ref(dataset)
    loader = DataLoader(dataset, 4, num_workers=2, sampler=data.RandomSampler(dataset))
    next(iter(loader))
    del loader, dataset
    gc.collect()
    for _ in range(100):
        if gone() is None:
            break
        time.sleep(0.01)
        weft.live_tensors()  # drops what other threads noted
    assert gone() is None


@workers
def test_an_empty_dataset_gives_no_batch(num_workers):
    loader = DataLoader(Numbers(0), 2, num_workers=num_workers)
    assert len(loader) == 0 and [list(loader) for _ in range(2)] == [[], []]
    loader.load_state_dict(loader.state_dict())
    assert list(loader) == [] and list(DataLoader(Numbers(3), 5, drop_last=True, num_workers=num_workers)) == []
    with pytest.raises(ValueError, match="0 samples"):
        DataLoader(Numbers(0), shuffle=True)
    assert list(DataLoader(weft.data.TensorDataset(weft.zeros(0, 3)), 4, num_workers=num_workers)) == []
    for options in ({"sampler": data.SequentialSampler(Numbers(0))}, {"sampler": data.SubsetRandomSampler([])},
                    {"sampler": iter(())}, {"batch_sampler": []}, {"batch_size": None}, {"rank": 1, "world": 2},
                    {"multiprocessing_context": "fork"}):
        loader = DataLoader(Numbers(0), num_workers=num_workers, **options)
        assert [list(loader) for _ in range(2)] == [[], []]

    class Nothing(data.IterableDataset):
        def __iter__(self):
            return iter(())

    for context in (None, "fork"):
        assert list(DataLoader(Nothing(), 4, num_workers=num_workers, multiprocessing_context=context)) == []


@workers
def test_a_dataset_may_change_its_size_between_epochs(num_workers):
    class Changing(Numbers):
        def __getitem__(self, i):
            if i >= self.count:
                raise IndexError(i)
            return i

    dataset = Changing(5)
    for shuffle in (False, True):
        loader = DataLoader(dataset, 2, shuffle, num_workers=num_workers)
        for count in (5, 9, 1, 0 if not shuffle else 3, 4):
            dataset.count = count
            assert len(loader) == (count + 1) // 2
            assert sorted(n for batch in loader for n in batch.tolist()) == list(range(count))
        state = loader.state_dict()
        dataset.count = 6
        with pytest.raises(ValueError, match="samples was 4"):
            loader.load_state_dict(state)
        dataset.count = 5
        loop = iter(loader)
        next(loop)
        if num_workers == 0:  # else they have made the batches already
            dataset.count = 1  # in the middle of an epoch, its order is settled
            with pytest.raises(IndexError):
                list(loop)
        dataset.count = 5
        assert len(list(loader)) == 3


@workers
def test_a_loop_can_restart_after_an_error(num_workers):
    class Sometimes(Numbers):
        bad = True

        def __getitem__(self, i):
            if i == 13 and self.bad:
                raise ValueError("bad")
            return i

    dataset = Sometimes(40)
    loader, seen = DataLoader(dataset, 4, num_workers=num_workers), []
    for _ in range(3):
        with pytest.raises(ValueError, match="bad"):
            for batch in loader:
                seen += batch.tolist()
    assert seen == 3 * list(range(12))
    dataset.bad = False
    assert [n for batch in loader for n in batch.tolist()] == list(range(40))


def test_samplers_without_a_length():
    class Own(data.Sampler):
        def __iter__(self):
            return iter([4, 0, 2])

    for batch_size, drop_last, expected in ((2, False, [[4, 0], [2]]), (2, True, [[4, 0]]), (None, False, [4, 0, 2])):
        loader = DataLoader(Numbers(5), batch_size, sampler=Own(), drop_last=drop_last)
        for _ in range(2):
            assert [b.tolist() if batch_size else b for b in loader] == expected
    assert [b.tolist() for b in DataLoader(Numbers(5), 2, sampler=(i for i in (3, 1)))] == [[3, 1]]
    with pytest.raises(ValueError):
        DataLoader(Numbers(5), 2, shuffle=True, sampler=Own())


def test_pinning_without_a_device_warns():
    if weft.device_count("hpu") or weft.device_count("cuda"):
        pytest.skip("there is a device")
    with pytest.warns(UserWarning, match="no device to pin memory for"):
        loader = DataLoader(Numbers(4), 2, pin_memory=True)
    assert [b.tolist() for b in loader] == [[0, 1], [2, 3]]


def test_loaders_inside_of_datasets():
    class Outer(Numbers):
        def __getitem__(self, i):
            return sum(int(b.sum().item()) for b in DataLoader(Numbers(4), 2, num_workers=i % 2))

    for num_workers in (0, 2):
        assert [b.tolist() for b in DataLoader(Outer(4), 2, num_workers=num_workers)] == [[6, 6], [6, 6]]


def test_samples_of_different_kinds_are_refused():
    for samples in ([weft.tensor([1]), weft.tensor([1.5])], [weft.zeros(1), weft.zeros(2)], [(1,), (1, 2)], [{"a": 1}, {"b": 1}],
                    [None, None], [1, "x"], [2**70, 1]):
        for num_workers in (0, 2):
            with pytest.raises((TypeError, ValueError, KeyError, OverflowError)):
                list(DataLoader(samples, 2, num_workers=num_workers))


def test_weft_utils_data_is_the_same():
    from weft.utils.data import DataLoader as same

    assert same is DataLoader


def forked(dataset, *args, **kwargs):
    return DataLoader(dataset, *args, num_workers=2, multiprocessing_context="fork", **kwargs)


def test_processes_equal_threads():
    def values(loader):
        return [(x.tolist(), y["label"].tolist(), y["name"]) for _ in range(2) for x, y in loader]

    loader = forked(Noisy(23), 4, shuffle=True, seed=5)
    assert values(loader) == values(DataLoader(Noisy(23), 4, shuffle=True, seed=5))
    kept = [x for x, _ in loader]
    assert len({x.data_ptr() for x in kept}) == len(kept)
    del loader
    assert all(x.sum().item() > 0 for x in kept)


def test_a_position_goes_from_processes_to_threads_and_back():
    def made(**options):
        return DataLoader(Noisy(23), 4, shuffle=True, seed=5, **options)

    def values(loader, count=None):
        return [(x.tolist(), y["label"].tolist()) for x, y in itertools.islice(loader, count)]

    kinds = ({}, {"num_workers": 2}, {"num_workers": 3, "multiprocessing_context": "fork"})
    loader = made()
    whole = [values(loader) for _ in range(2)]
    for before, after in itertools.product(kinds, kinds):
        first = made(**before)
        assert values(first) == whole[0] and values(first, 2) == whole[1][:2]
        state = first.state_dict()
        del first  # no thread is at work when a process is forked
        again = made(**after)
        again.load_state_dict(state)
        assert values(again) == whole[1][2:], (before, after)
        del again


def test_workers_are_other_processes_with_their_worker_info():
    class Asking(Numbers):
        def __getitem__(self, i):
            time.sleep(0.005)
            info = data.get_worker_info()
            return os.getpid(), info.id, info.num_workers

    loader = forked(Asking(20), 1)
    pids, ids, counts = zip(*[[n.item() for n in batch] for _ in range(2) for batch in loader])
    assert len(set(pids)) == 2 and os.getpid() not in pids and set(ids) == {0, 1} and set(counts) == {2}
    del loader
    for pid in set(pids):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_errors_come_from_processes():
    class Odd(Exception):
        def __init__(self, a, b):
            super().__init__("odd")

    class Broken(Numbers):
        def __getitem__(self, i):
            if i == 13:
                raise KeyError("no such picture")
            if i == 30:
                raise Odd(1, 2)
            if i == 35:
                os.kill(os.getpid(), 9)
            return i

    loader = forked(Broken(40), 4)
    with pytest.raises(KeyError, match="no such picture") as caught:
        list(loader)
    notes = " ".join(caught.value.__notes__)
    assert "batch 3 of epoch 0, worker" in notes and "sample 13" in notes and "in __getitem__" in notes
    with pytest.raises(RuntimeError, match="Odd: odd"):
        list(forked(data.Subset(Broken(40), [30])))
    with pytest.raises(RuntimeError, match="has died"):
        list(forked(data.Subset(Broken(40), [1, 35])))


def test_process_workers_leave_with_their_parent():
    program = textwrap.dedent("""
        import os, time, weft
        from weft.data import DataLoader
        class Slow:
            def __len__(self): return 10000
            def __getitem__(self, i):
                time.sleep(0.01)
                return os.getpid()
        loader = DataLoader(Slow(), 4, num_workers=2, multiprocessing_context="fork")
        at = iter(loader)
        print(next(at)[0].item(), next(at)[0].item())
    """)
    several = """if True:
        loaders = [DataLoader(Slow(), num_workers=2, multiprocessing_context="fork") for _ in range(3)]
        loops = [iter(l) for l in loaders]
        for l in loops: next(l)
        if os.fork() == 0:
            time.sleep(3)
            os._exit(0)
    """
    for ending in ("", "os._exit(0)", "os.kill(os.getpid(), 9)", textwrap.dedent(several)):
        done = subprocess.run([sys.executable, "-uc", program + ending], stdout=subprocess.PIPE, text=True, timeout=60)
        for pid in map(int, done.stdout.split()):
            for _ in range(200):
                if not os.path.exists(f"/proc/{pid}") or "\nState:\tZ" in open(f"/proc/{pid}/status").read():
                    break
                time.sleep(0.01)
            else:
                raise AssertionError(f"process {pid} is still there")


def test_processes_read_iterables_as_pytorchs_do():
    """loader_cases/iterables.py recorded PyTorch's batches."""
    sys.path.insert(0, str(LOADER_CASES))
    import iterables

    recorded = json.loads((LOADER_CASES / "iterables.json").read_text())
    # PyTorch's processes drop their own incomplete batches.
    assert recorded["7 samples, 3 workers, batches of 3, whole ones"] == [[0, 3, 6]]
    recorded["7 samples, 3 workers, batches of 3, whole ones"] = [[0, 3, 6], [1, 4, 2]]
    assert iterables.batches(data) == recorded and len(recorded) == 50


class Shards(data.IterableDataset):
    """Draws and large tensors, a share for each worker."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = data.get_worker_info()
        for i in range(info.id, self.n, info.num_workers):
            yield weft.full((5000,), i) + weft.rand(()), {"at": i, "seed": info.seed % 1000}


class Collecting(data.IterableDataset):
    """Collects garbage behind each sample."""

    def __iter__(self):
        for i in range(8):
            yield weft.full((3,), i)
            gc.collect()


def test_loaders_that_a_worker_drops_close_no_files_of_its_batches():
    dropped = forked(Shards(9), 1)
    next(iter(dropped))
    gc.disable()
    try:
        dropped.itself = dropped
        del dropped  # garbage, which the workers inherit
        batches = iter(forked(Collecting(), 1, prefetch_factor=6))
        first = next(batches)
        time.sleep(0.3)  # the workers go ahead
        assert len([first, *batches]) == 16
    finally:
        gc.enable()
    gc.collect()


def test_iterables_in_processes_are_the_same_in_every_run_and_go_on():
    def values(loader, stop=None):
        out = []
        for x, more in itertools.islice(loader, stop):
            out.append((x.sum().item(), more["at"].tolist(), more["seed"].tolist()))
        return out

    first, again = forked(Shards(23), 3, seed=5), forked(Shards(23), 3, seed=5)
    epochs = [values(first), values(first)]
    assert [values(again), values(again)] == epochs and epochs[0] != epochs[1]
    assert len(epochs[0]) == 8 and [b[1] for b in epochs[0]] == [b[1] for b in epochs[1]]
    begun = values(first, 3)
    assert values(forked(Shards(23), 3, seed=6)) != epochs[0]
    going_on = forked(Shards(23), 3, seed=5)
    going_on.load_state_dict(first.state_dict())
    rest = values(going_on)
    assert begun + rest == [*values(_third(again))] and len(rest) == 5
    with pytest.raises(ValueError, match="stream in 2 processes"):
        DataLoader(Shards(23), 3, seed=5, num_workers=3, multiprocessing_context="fork").load_state_dict(first.state_dict())


def _third(loader):
    loader.set_epoch(2)
    return loader


def test_iterables_in_processes_can_be_left_early_and_begun_anew():
    loader = forked(Shards(400), 2, seed=5, prefetch_factor=4)
    for _ in range(5):
        for x, more in loader:
            break
        assert more["at"].tolist() == [0, 2]
    assert sum(len(more["at"]) for _, more in loader) == 400
    loop = iter(loader)
    next(loop)
    del loop, loader


def test_ranks_share_iterables_in_processes():
    class Range(data.IterableDataset):
        def __iter__(self):
            at = data.get_worker_info().id
            return iter(range(10 * at, 10 * at + 5))

    ranks = [[b.tolist() for b in forked(Range(), 1, rank=rank, world=2)] for rank in range(2)]
    assert ranks == [[[0], [10], [2], [12], [4]], [[1], [11], [3], [13], [14]]]


def test_errors_of_iterables_come_from_processes():
    class Broken(data.IterableDataset):
        def __init__(self, how):
            self.how = how

        def __iter__(self):
            yield 1
            if data.get_worker_info().id == 1:
                if self.how == "dies":
                    os.kill(os.getpid(), 9)
                raise KeyError("no such line")
            yield 2

    loader = forked(Broken("raises"))
    for _ in range(2):
        with pytest.raises(KeyError, match="no such line") as caught:
            list(loader)
        notes = " ".join(caught.value.__notes__)
        assert "worker 1 of epoch" in notes and "in __iter__" in notes
    with pytest.raises(RuntimeError, match="has died"):
        list(forked(Broken("dies")))
    with pytest.raises(TypeError):
        list(forked(type("Odd", (data.IterableDataset,), {"__iter__": lambda self: 3})()))


def test_parts_of_a_table_are_shared_by_processes(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("i,kind\n" + "".join(f"{i},k{i % 3}\n" for i in range(20)))
    parts = data.CsvChunks(path, 3, dtype={"kind": "category"})
    assert [t["i"].tolist() for t in parts] == [list(range(i, min(i + 3, 20))) for i in range(0, 20, 3)]
    seen = [t["i"].tolist() for t in DataLoader(parts, None, num_workers=2, multiprocessing_context="fork",
                                                collate_fn=lambda t: t)]
    assert seen == [list(range(i, min(i + 3, 20))) for i in range(0, 20, 3)]
    assert [len(t) for t in DataLoader(parts, None, num_workers=2, collate_fn=lambda t: t)] == [3] * 6 + [2]


def test_parts_of_a_table_go_on(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("i,late\n" + "".join(f"{i},{'7' if i < 19 else '7.5'}\n" for i in range(20)))
    parts = data.CsvChunks(path, 3)
    loop = iter(parts)
    assert next(loop)["late"].dtype == weft.float32 and next(loop)["i"].tolist() == [3, 4, 5]
    state = json.loads(json.dumps(parts.state_dict()))
    again = data.CsvChunks(path, 7)
    again.load_state_dict(state)
    assert [t["i"].tolist() for t in again] == [list(range(6, 13)), list(range(13, 20))]
    assert sum(len(t) for t in again) == 20  # the next pass is from the start
    with pytest.raises(ValueError, match="line 21"):
        list(data.CsvChunks(path, 7, dtype={"late": weft.int64}))
    with pytest.raises(ValueError):
        again.load_state_dict({"version": 1})


def test_collation_of_arrays_of_text_ranges_and_numpy_scalars():
    text = numpy.array(["a", "b"])
    assert data.default_collate(text) is text
    with pytest.raises(TypeError, match="no tensor"):
        data.default_collate([text, text])
    assert [t.tolist() for t in data.default_collate([range(2), range(2)])] == [[0, 0], [1, 1]]
    assert data.default_collate([numpy.float64(1), numpy.float64(2)]).dtype is weft.float64
    with pytest.raises(RuntimeError, match="members"):
        data.default_collate([[1], [1, 2]])


def test_datasets_of_the_wrong_kind_and_subsets_of_subsets():
    class Stream(data.IterableDataset):
        def __iter__(self):
            return iter(range(3))

    with pytest.raises(AssertionError, match="ChainDataset"):
        data.ConcatDataset([Stream()])
    with pytest.raises(AssertionError, match="IterableDataset"):
        list(data.ChainDataset([Stream(), [1]]))

    class Many(data.Dataset[int]):
        def __getitem__(self, index):
            return [self[i] for i in index] if isinstance(index, list) else index * 10

    assert data.Subset(data.Subset(Many(), [3, 4, 5]), [2, 0])[[0, 1]] == [50, 30]
    with pytest.raises(ValueError, match="sum of 1"):
        data.random_split([1, 2, 3, 4], [0.1])
