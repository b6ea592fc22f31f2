"""weft.distributed.ShardDataLoader: batches of a DataLoader in parts."""

import numpy as np
import pytest

import weft
from weft.data import DataLoader, TensorDataset
from weft.distributed import LocalWorld, ShardDataLoader
from weft.distributed.tensor import DTensor, Shard, init_device_mesh

X = weft.arange(20, dtype=weft.float32).reshape(10, 2)
Y = weft.arange(10)


def on_mesh(body, shape=(2, 2)):
    names = ("dp", "tp")[:len(shape)]
    return LocalWorld(int(np.prod(shape)), timeout=60).run(
        lambda group: body(init_device_mesh("cpu", shape, mesh_dim_names=names, group=group)))


def loader_of(**options):
    return DataLoader(TensorDataset(X, Y), batch_size=4, seed=3, **options)


def rows(mesh, n):
    """Those of this rank."""
    size = -(-n // mesh.size(0))
    return slice(size * mesh.get_coordinate()[0], min(size * (mesh.get_coordinate()[0] + 1), n))


def test_ranks_have_their_rows_of_each_batch_and_epochs_follow():
    whole = [[(x.tolist(), y.tolist()) for x, y in loader] for loader in [loader_of(shuffle=True)] for _ in range(2)]

    def body(mesh):
        loader = ShardDataLoader(loader_of(shuffle=True), mesh, shard_dims=["dp"])
        assert len(loader) == 3
        for epoch in range(2):
            seen = 0
            for (x, y), (wx, wy) in zip(loader, whole[epoch]):
                assert isinstance(x, DTensor) and x.placements[0] == Shard(0) and x.placements[1].is_replicate()
                assert x.to_local().tolist() == wx[rows(mesh, len(wx))] and y.full_tensor().tolist() == wy
                seen += 1
            assert seen == 3 and loader.epoch == epoch

    on_mesh(body)


def test_dictionaries_nested_and_other_values():
    samples = [{"x": X[i], "more": [Y[i], (X[i], "a word")], "name": f"n{i}"} for i in range(4)]

    def body(mesh):
        loader = ShardDataLoader(DataLoader(samples, batch_size=4), mesh, input_keys=["x", "more", "name"],
                                 shard_dims=[("dp", 0), None, "tp"])
        (batch,) = loader
        assert batch["x"].to_local().shape == (2, 2) and batch["more"][0].placements[0].is_replicate()
        assert batch["more"][1][1][0] == "a word" and list(batch["name"]) == ["n0", "n1", "n2", "n3"]
        with pytest.raises(KeyError, match="the batch has no 'z'"):
            next(iter(ShardDataLoader(DataLoader(samples, batch_size=4), mesh, input_keys=["z"])))

    on_mesh(body)


def test_last_batches_are_ragged_padded_or_dropped():
    def body(mesh):
        for how, count, last in [("ragged", 3, 1 if mesh.get_coordinate()[0] < 2 else 0), ("pad", 3, 1), ("drop", 2, None)]:
            loader = ShardDataLoader(loader_of(), mesh, shard_dims="dp", last_batch=how)
            batches = list(loader)
            assert len(batches) == len(loader) == count
            if last is not None:
                assert batches[-1][1].to_local().shape == (last,)
            if how == "pad":
                assert batches[-1][1].full_tensor().tolist() == [8, 9, 8, 9]
                assert loader.masks()[1].full_tensor().tolist() == [True, True, False, False]
        with pytest.raises(ValueError, match="last_batch"):
            ShardDataLoader(loader_of(), mesh, last_batch="wrap")
        with pytest.raises(ValueError, match="not the last one"):
            list(ShardDataLoader(DataLoader(TensorDataset(X), batch_size=3), mesh, shard_dims="dp", last_batch="drop"))

    on_mesh(body, (4,))


def test_a_position_is_restored_on_another_number_of_ranks():
    def first(mesh):
        loader = ShardDataLoader(loader_of(shuffle=True), mesh, shard_dims="dp")
        next(iter(loader))
        return loader.state()

    states = on_mesh(first)
    assert len(set(states)) == 1
    reference = loader_of(shuffle=True)
    expected = [y.tolist() for _, y in reference][1:]

    def second(mesh):
        loader = ShardDataLoader(loader_of(shuffle=True), mesh, shard_dims="dp")
        loader.restore(states[0])
        assert [y.full_tensor().tolist() for _, y in loader] == expected
        assert len(list(loader)) == 3

    on_mesh(second, (3,))


def test_ranks_that_differ_raise():
    def body(mesh):
        seed = mesh.get_coordinate()[0]
        with pytest.raises(ValueError, match="differ"):
            iter(ShardDataLoader(DataLoader(TensorDataset(X, Y), batch_size=4, shuffle=True, seed=seed), mesh))
        with pytest.raises(ValueError, match="samples of rank 0 of 2 alone"):
            ShardDataLoader(loader_of(world=2), mesh)
        own = ShardDataLoader(loader_of(rank=mesh.get_coordinate()[0], world=2), mesh, shard_dims="dp", already_split=True)
        x, y = next(iter(own))
        assert y.shape == (8,) and y.to_local().tolist() == [2 * i + mesh.get_coordinate()[0] for i in range(4)]

    on_mesh(body, (2,))


def test_rows_and_columns_are_cut_at_once_and_a_position_is_restored():
    words = weft.arange(70).reshape(10, 7)
    make = lambda: DataLoader(TensorDataset(words, Y), batch_size=4, shuffle=True, seed=5)
    expected = [np.array(w.tolist()) for w, _ in make()]

    def body(mesh):
        loader = ShardDataLoader(make(), mesh, shard_dims=[["dp", ("tp", 1)], "dp"], last_batch="pad")
        dp, tp = mesh.get_coordinate()
        for i, (w, y) in enumerate(loader):
            whole = np.array(w.full_tensor().tolist())
            n = len(expected[i])
            assert whole.shape == (n + n % 2, 8) and (whole[:n, :7] == expected[i]).all()
            assert (whole[:n, 7] == expected[i][:, 0]).all()
            rows = whole.shape[0] // 2
            assert (np.array(w.to_local().tolist()) == whole[dp * rows:dp * rows + rows, tp * 4:tp * 4 + 4]).all()
            assert y.to_local().shape == (rows,)
            mask = np.array(loader.masks()[0].full_tensor().tolist())
            assert mask.shape == whole.shape and mask[:n, :7].all() and mask.sum() == n * 7
            if i == 0:
                state = loader.state()
        loader.restore(state)
        assert [np.array(w.full_tensor().tolist())[:len(e), :7].tolist() for (w, _), e in zip(loader, expected[1:])] == [
            e.tolist() for e in expected[1:]]
        with pytest.raises(ValueError, match="cut two axes"):
            ShardDataLoader(make(), mesh, shard_dims=[[("dp", 0), ("dp", 1)], None])

    on_mesh(body)
