"""weft.distributed.tensor: on threads here, and the same file run by mpirun for processes."""

import os

import numpy as np
import pytest

import weft
import weft.distributed as dist
from weft.distributed import LocalWorld
from weft.distributed.tensor import (
    DeviceMesh, DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh)


def on_mesh(body, shape=(2, 2)):
    def on_rank(group):
        names = ("dp", "tp")[: len(shape)]
        body(init_device_mesh("cpu", shape, mesh_dim_names=names, group=group))

    if "OMPI_COMM_WORLD_SIZE" in os.environ:
        if dist.get_world_size() == int(np.prod(shape)):
            on_rank(None)
        return
    LocalWorld(int(np.prod(shape)), timeout=60).run(on_rank)


def numbers(*shape, seed=1):
    return weft.tensor(np.random.default_rng(seed).standard_normal(shape))


def test_ops_take_tensors_in_parts():
    def body(mesh):
        x, w, b = numbers(6, 5), numbers(5, 3, seed=2), numbers(3, seed=3)
        dx = distribute_tensor(x, mesh, [Shard(0), Shard(1)])
        dw = distribute_tensor(w, mesh, [Replicate(), Shard(0)])
        y = dx @ dw
        assert isinstance(y, DTensor) and y.placements == (Shard(0), Partial()) and y.shape == (6, 3)
        db = distribute_tensor(b, mesh)
        z = weft.softmax(weft.add(y, db, alpha=2), dim=-1)
        expected = weft.softmax(x @ w + 2 * b, -1)
        np.testing.assert_allclose(z.full_tensor().numpy(), expected.numpy(), rtol=1e-12)
        np.testing.assert_allclose((1 - z * 2).sum(0, keepdim=True).full_tensor().numpy(),
                                   (1 - expected * 2).sum(0, keepdim=True).numpy(), rtol=1e-10)
        assert weft.cat([y, y], 1).shape == (6, 6) and y.reshape(3, 6).shape == (3, 6)
        values, indices = weft.topk(z, 2)
        assert values.shape == indices.shape == (6, 2)
        assert (z > 0.5).dtype is weft.bool and len(z.split(1, 1)) == 3

    on_mesh(body)


def test_gradients_are_whole_on_every_rank():
    def body(mesh):
        x, w = numbers(4, 6), numbers(6, 5, seed=2).requires_grad_()
        y = weft.tanh(distribute_tensor(x, mesh, [Shard(0), Replicate()]) @ distribute_tensor(w, mesh, [Replicate(), Shard(1)]))
        (y * y).sum().full_tensor().backward()
        got, w.grad = w.grad, None
        (weft.tanh(x @ w) ** 2).sum().backward()
        np.testing.assert_allclose(got.numpy(), w.grad.numpy(), rtol=1e-12)

    on_mesh(body)


def test_parts_move_and_tell_their_place():
    def body(mesh):
        x = numbers(5, 4)
        rows = distribute_tensor(x, mesh, [Shard(0), Replicate()])
        columns = rows.redistribute(placements=[Replicate(), Shard(1)])
        assert columns.placements == (Replicate(), Shard(1)) and columns.to_local().shape == (5, 2)
        assert np.array_equal(columns.full_tensor().numpy(), x.numpy())
        again = DTensor.from_local(rows.to_local(), mesh, [Shard(0), Replicate()])
        assert again.shape == (5, 4) and again.dtype is x.dtype and again.ndim == 2
        assert np.array_equal(again.full_tensor().numpy(), x.numpy())
        assert mesh.shape == (2, 2) and mesh.ndim == 2 and mesh.size() == 4 and mesh.mesh_dim_names == ["dp", "tp"]
        assert mesh.get_group("tp").size() == 2 and len(mesh.get_coordinate()) == 2
        assert Shard(1).is_shard() and Shard(1).is_shard(1) and not Shard(1).is_shard(0) and repr(Shard(1)) == "Shard(1)"
        assert Partial("max") != Partial() and hash(Shard(0)) == hash(Shard(0)) and Replicate().is_replicate()

    on_mesh(body)


def test_invalid_arguments_raise():
    def body(mesh):
        x = distribute_tensor(weft.ones(4, 2), mesh, [Shard(0)])
        for wrong, error in ((lambda: x @ x, ValueError), (lambda: weft.add(x), TypeError),
                             (lambda: weft.add(x, "a"), TypeError), (lambda: weft.add(x, x, gamma=1), TypeError),
                             (lambda: x.no_such_op, AttributeError), (lambda: x.softmax(5), IndexError),
                             (lambda: weft.relu(object()), TypeError),
                             (lambda: distribute_tensor(weft.ones(2), mesh, [Shard(1)]), IndexError),
                             (lambda: weft.equal(x, x), ValueError)):
            with pytest.raises(error):
                wrong()

    on_mesh(body, (2,))
    assert isinstance(DeviceMesh, type)
