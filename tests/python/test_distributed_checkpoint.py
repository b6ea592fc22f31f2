"""weft.distributed.checkpoint and weft.distributed.nn: on threads here, and the same file run by mpirun for processes."""

import os

import numpy as np
import pytest

import weft
import weft.distributed as dist
from processes import passes_with_processes, starts_processes, under_mpirun
from weft.distributed import LocalWorld, checkpoint
from weft.distributed.nn import (
    ColumnParallelLinear, RngTracker, RowParallelLinear, VocabParallelEmbedding, model_parallel_seed,
    parallel_cross_entropy)
from weft.distributed.tensor import Shard, distribute_tensor, init_device_mesh
from weft.nn import functional as F


def on_ranks(body, ranks=2):
    if not under_mpirun:
        return LocalWorld(ranks, timeout=60).run(body)
    if dist.get_world_size() == ranks:
        body(None)


def folder_of(group, tmp_path):
    """One that all ranks see."""
    path = str(tmp_path) if dist.get_rank(group) == 0 else ""
    name = np.zeros(4096, np.uint8)
    name[:len(path)] = np.frombuffer(path.encode(), np.uint8)
    told = weft.tensor(name)
    dist.broadcast(told, 0, group)
    return bytes(told.numpy()).rstrip(b"\0").decode()


def numbers(*shape, seed=1):
    return weft.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def test_a_state_of_parts_is_loaded_in_other_parts(tmp_path):
    w, b = numbers(6, 5), numbers(3, seed=2)

    def body(group):
        folder = folder_of(group, tmp_path)
        mesh = init_device_mesh("cpu", (2,), group=group)
        saved = {"model": {"w": distribute_tensor(w, mesh, [Shard(0)]), "layers": [b]}, "step": weft.tensor(3)}
        assert checkpoint.save(saved, checkpoint_id=folder, process_group=group) == 1
        columns = distribute_tensor(weft.zeros(6, 5), mesh, [Shard(1)])
        state = {"model": {"w": columns, "layers": [weft.zeros(3)]}, "step": weft.tensor(0)}
        checkpoint.load(state, checkpoint_id=folder)
        np.testing.assert_array_equal(columns.full_tensor().numpy(), w.numpy())
        assert state["step"].item() == 3 and state["model"]["layers"][0].tolist() == b.tolist()
        dist.barrier(group)
        if dist.get_rank(group) == 0:
            weft.io.merge_sharded(folder, os.path.join(folder, "merged"), prefix="model")
            merged = weft.io.load_sharded(os.path.join(folder, "merged"))
            assert sorted(merged) == ["model.layers.0", "model.w"] and merged["model.w"].tolist() == w.tolist()
        dist.barrier(group)

    on_ranks(body)


def test_values_that_are_no_tensors_raise_with_their_name(tmp_path):
    def body(group):
        with pytest.raises(TypeError, match="'run.lr' is a float"):
            checkpoint.save({"run": {"lr": 0.1}}, checkpoint_id=str(tmp_path), process_group=group)
        with pytest.raises(ValueError, match="two tensors of the state have the name 'a.b'"):
            checkpoint.save({"a": {"b": numbers(1)}, "a.b": numbers(1)}, checkpoint_id=str(tmp_path), process_group=group)

    on_ranks(body)


def test_a_background_save_has_the_values_at_its_call(tmp_path):
    def body(group):
        folder = folder_of(group, tmp_path)
        mesh = init_device_mesh("cpu", (2,), group=group)
        w = distribute_tensor(weft.ones(4, 3), mesh, [Shard(0)])
        futures = []
        for save in (1, 2, 3):
            w.to_local().fill_(save)
            futures.append(checkpoint.async_save({"w": w}, checkpoint_id=folder, process_group=group))
            w.to_local().fill_(-1)
            t = weft.ones(2)
            dist.all_reduce(t, group=group)
            assert t.tolist() == [2, 2]
        assert [f.result() for f in futures] == [1, 2, 3]
        for save in (1, 2, 3):
            whole = weft.zeros(4, 3)
            checkpoint.load({"w": whole}, checkpoint_id=folder, id=save)
            assert whole.tolist() == [[save] * 3] * 4
        dist.barrier(group)

    on_ranks(body)


def test_a_write_error_raises_in_the_future_or_the_next_save(tmp_path):
    def body(group):
        folder, own = folder_of(group, tmp_path), dist.get_rank(group)
        if own == 1:
            os.makedirs(os.path.join(folder, "1_7.safetensors", "in the way"))
        dist.barrier(group)
        words = "1_7.safetensors" if own == 1 else "rank 1 could not save"
        w = distribute_tensor(weft.ones(4, 3), init_device_mesh("cpu", (2,), group=group), [Shard(0)])
        save = lambda id: checkpoint.async_save({"w": w}, checkpoint_id=folder, id=id, process_group=group)
        future = save(7)
        with pytest.raises(OSError, match=words):
            future.result()
        with pytest.raises(OSError, match=words):
            future.result()
        save(7)
        with pytest.raises(OSError, match=words):
            save(8)
        assert save(9).result() == 9 and weft.io.state_ids(folder) == [9]
        dist.barrier(group)

    on_ranks(body)


def test_layers_in_parts_are_the_whole_layers(tmp_path):
    x, y = numbers(5, 6), numbers(5, 4, seed=2)
    weft.manual_seed(3)
    up, down = weft.nn.Linear(6, 8), weft.nn.Linear(8, 4)
    whole = down(F.gelu(up(x)))
    F.mse_loss(whole, y).backward()

    def body(group):
        folder = folder_of(group, tmp_path)
        weft.manual_seed(3)
        net = weft.nn.Sequential(ColumnParallelLinear(6, 8, group=group), weft.nn.GELU(),
                                 RowParallelLinear(8, 4, group=group))
        assert net[0].weight.shape == (4, 6) and sorted(net.state_dict()) == ["0.bias", "0.weight", "2.bias", "2.weight"]
        out = net(x)
        np.testing.assert_allclose(out.detach().numpy(), whole.detach().numpy(), rtol=1e-5, atol=1e-6)
        F.mse_loss(out, y).backward()
        rows = slice(4 * dist.get_rank(group), 4 * dist.get_rank(group) + 4)
        np.testing.assert_allclose(net[0].weight.grad.numpy(), up.weight.grad.numpy()[rows], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(net[2].weight.grad.numpy(), down.weight.grad.numpy()[:, rows], rtol=1e-5, atol=1e-6)
        state = {**net[0].sharded_state("up."), **net[2].sharded_state("down.")}
        checkpoint.save(state, checkpoint_id=folder, process_group=group)
        loaded = {"up.weight": weft.zeros(8, 6), "down.weight": weft.zeros(4, 8), "down.bias": weft.zeros(4)}
        checkpoint.load(loaded, checkpoint_id=folder)
        assert loaded["up.weight"].tolist() == up.weight.tolist() and loaded["down.bias"].tolist() == down.bias.tolist()
        assert loaded["down.weight"].tolist() == down.weight.tolist()
        with pytest.raises(ValueError):
            ColumnParallelLinear(6, 7, group=group)
        dist.barrier(group)

    on_ranks(body)


def test_words_and_losses_in_parts():
    tokens, targets = weft.tensor([[0, 5, 3]]), weft.tensor([[2, -100, 1]])
    logits = numbers(1, 3, 4)
    expected = F.cross_entropy(logits.reshape(3, 4), targets.reshape(3))

    def body(group):
        weft.manual_seed(3)
        words = VocabParallelEmbedding(6, 2, group=group)
        assert words.weight.shape == (3, 2)
        weft.manual_seed(3)
        assert words(tokens).tolist() == weft.nn.Embedding(6, 2)(tokens).tolist()
        own = 2 * dist.get_rank(group)
        loss = parallel_cross_entropy(logits[..., own:own + 2], targets, group=group)
        np.testing.assert_allclose(loss.item(), expected.item(), rtol=1e-6)
        assert parallel_cross_entropy(logits[..., own:own + 2], targets, reduction="none", group=group).shape == (1, 3)
        with pytest.raises(ValueError):
            parallel_cross_entropy(logits[..., own:own + 2], targets, reduction="max", group=group)

    on_ranks(body)


def test_streams_of_ranks():
    def body(group):
        tracker = model_parallel_seed(0, group)
        common = weft.rand(3)
        with tracker.use("local"):
            own = weft.rand(3)
        kept = tracker.state()
        with pytest.raises(RuntimeError), tracker.use("local"):
            raise RuntimeError
        again = weft.rand(3)
        with pytest.raises(KeyError), tracker.use("another"):
            pass
        with pytest.raises(ValueError):
            tracker.add("local", 7)
        tracker.set_state(kept)
        weft.manual_seed(0)
        assert weft.rand(3).tolist() == common.tolist() and weft.rand(3).tolist() == again.tolist()
        everyone = [weft.zeros(3), weft.zeros(3)]
        dist.all_gather(everyone, common, group=group)
        assert everyone[0].tolist() == everyone[1].tolist()
        dist.all_gather(everyone, own, group=group)
        assert everyone[0].tolist() != everyone[1].tolist()

    on_ranks(body)
    assert RngTracker().state() == {}


@starts_processes
def test_the_same_with_processes():
    passes_with_processes(__file__, 7)
