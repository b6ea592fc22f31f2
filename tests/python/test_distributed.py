"""weft.distributed: on threads here, and the same file run by mpirun for processes."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import weft
import weft.distributed as dist
from processes import passes_with_processes, starts_processes, under_mpirun
from weft.distributed import LocalWorld, ReduceOp, functional
from weft.distributed.parallel import ParallelTraining, parallelize
from weft.distributed.tensor import init_device_mesh


def on_ranks(function, ranks=(1, 2, 3)):
    if under_mpirun:
        return function(dist._group(None))
    for n in ranks:
        LocalWorld(n, timeout=60).run(function)


def test_all_reduce_writes_into_the_tensor():
    def body(group):
        n = group.size()
        for op, expected in [(ReduceOp.SUM, n * (n + 1) / 2), (ReduceOp.AVG, (n + 1) / 2), (ReduceOp.MAX, n),
                             (ReduceOp.MIN, 1), (ReduceOp.PRODUCT, float(np.prod(range(1, n + 1))))]:
            x = weft.full([2, 3], float(dist.get_rank() + 1))
            assert dist.all_reduce(x, op) is None
            assert x.tolist() == [[expected] * 3] * 2
        work = dist.all_reduce(x := weft.ones(4), async_op=True)
        work.wait()
        assert work.is_completed() and x.tolist() == [n] * 4

    on_ranks(body)


def test_lists_and_tensors_of_all_ranks():
    def body(group):
        n, me = group.size(), group.rank()
        rows = [weft.empty(2) for _ in range(n)]
        dist.all_gather(rows, weft.tensor([me, me + 0.5]))
        assert [r.tolist() for r in rows] == [[r, r + 0.5] for r in range(n)]
        flat = weft.empty(n * 2, dtype=weft.int64)
        dist.all_gather_into_tensor(flat, weft.tensor([me, -me]))
        assert flat.tolist() == [v for r in range(n) for v in (r, -r)]
        out = weft.empty(2)
        dist.reduce_scatter(out, [weft.full([2], float(r)) for r in range(n)])
        assert out.tolist() == [me * n] * 2
        out = weft.empty(1)
        dist.reduce_scatter_tensor(out, weft.arange(n).to(weft.float32), op=ReduceOp.AVG)
        assert out.tolist() == [me]
        out = weft.empty(n, dtype=weft.int64)
        dist.all_to_all_single(out, weft.arange(n) + 10 * me)
        assert out.tolist() == [me + 10 * r for r in range(n)]
        # Rank r sends s elements to rank s, and nothing to rank 0.
        outs = [weft.empty(me) for _ in range(n)]
        dist.all_to_all(outs, [weft.full([s], float(me)) for s in range(n)])
        assert [o.tolist() for o in outs] == [[float(r)] * me for r in range(n)]
        with pytest.raises(ValueError, match="tensors for a group"):
            dist.all_gather(rows + rows, weft.ones(2))

    on_ranks(body)


def test_roots_and_messages():
    def body(group):
        n, me = group.size(), group.rank()
        x = weft.full([3], float(me))
        dist.broadcast(x, src=n - 1)
        assert x.tolist() == [n - 1] * 3
        x = weft.ones(2)
        dist.reduce(x, dst=0)
        assert x.tolist() == ([n] * 2 if me == 0 else [1] * 2)
        if n > 1:
            got = weft.empty(2)
            works = [dist.isend(weft.full([2], float(me)), (me + 1) % n), dist.irecv(got, (me - 1) % n)]
            for work in works:
                work.wait()
            assert got.tolist() == [(me - 1) % n] * 2
            if me == 0:
                dist.send(weft.tensor([7]), 1, tag=3)
            elif me == 1:
                got = weft.empty(1, dtype=weft.int64)
                assert dist.recv(got, 0, tag=3) == 0 and got.item() == 7
        dist.barrier()

    on_ranks(body)


def test_groups():
    def body(group):
        n, me = group.size(), group.rank()
        assert (dist.get_world_size(), dist.get_rank()) == (n, me)
        first = dist.new_group([0])
        assert dist.get_rank(first) == (0 if me == 0 else -1)
        assert dist.get_world_size(first) == (1 if me == 0 else -1)
        everyone = dist.new_group()
        assert dist.get_process_group_ranks(everyone) == list(range(n))
        x = weft.ones(())
        dist.all_reduce(x, group=everyone)
        assert x.item() == n
        with pytest.raises(ValueError, match="does not belong"):
            dist.broadcast(x, src=n, group=everyone)

    on_ranks(body)


def test_functional_forms_are_differentiable():
    def body(group):
        n, me = group.size(), group.rank()
        x = weft.full([n], float(me + 1), requires_grad=True)
        y = functional.all_reduce(x * x)
        (y * (me + 1)).sum().backward()
        assert x.grad.tolist() == [2.0 * (me + 1) * n * (n + 1) / 2] * n
        x = weft.ones(2, 2, requires_grad=True)
        assert functional.all_gather(x, dim=1).shape == (2, 2 * n)
        functional.all_gather(x, dim=1).sum().backward()
        assert x.grad.tolist() == [[n, n]] * 2

    on_ranks(body)


@pytest.mark.skipif(under_mpirun, reason="of threads")
def test_errors_of_a_rank():
    def body(group):
        if group.rank() == 1:
            raise KeyError("lost")
        with pytest.raises(RuntimeError, match="rank 1 failed"):
            dist.barrier()

    with pytest.raises(KeyError, match="lost"):
        LocalWorld(3).run(body)
    with pytest.raises(RuntimeError, match="did not arrive in time|failed"):
        LocalWorld(2, timeout=0.2).run(lambda g: dist.recv(weft.ones(1), 1) if g.rank() == 0 else
                                       dist.recv(weft.ones(1), 0))
    with pytest.raises(RuntimeError, match=r"calls all_reduce_ of float32 \[[23]\] by sum, but rank"):
        LocalWorld(2).run(lambda g: dist.all_reduce(weft.ones(2 if g.rank() == 0 else 3)))


@pytest.mark.skipif(under_mpirun, reason="of threads")
def test_results_and_generators_of_ranks():
    weft.manual_seed(3)
    expected = weft.rand(3).tolist()
    weft.manual_seed(3)
    assert LocalWorld(3).run(lambda g: weft.rand(3).tolist()) == [expected] * 3
    with pytest.raises(ValueError):
        LocalWorld(0).run(print)


@starts_processes
def test_the_same_with_processes():
    passes_with_processes(__file__, 8)


@starts_processes
def test_an_uncaught_error_reaches_the_other_processes(tmp_path: pathlib.Path):
    program = tmp_path / "program.py"
    program.write_text("""
import weft, weft.distributed as dist
dist.init_process_group()
if dist.get_rank() == 1:
    raise OSError("no data")
dist.barrier()
""")
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(["mpirun", "--oversubscribe", "-n", "2", sys.executable, str(program)], env=environment,
                          capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "rank 1 failed" in done.stderr and "OSError: no data" in done.stderr and "program.py:6" in done.stderr


def test_replicas_of_unequal_size_have_the_gradient_of_all_samples():
    weft.manual_seed(3)
    x, y = weft.randn(6, 3), weft.tensor([1, 0, 1, -100, -100, 0])
    F = weft.nn.functional

    def net_of():
        weft.manual_seed(1)
        return weft.nn.Linear(3, 2)

    whole = net_of()
    right = F.cross_entropy(whole(x), y)
    right.backward()

    def body(group):
        own = slice(group.rank(), group.rank() + 1 if group.rank() + 1 < group.size() else 6)
        tokens = (y[own] != -100).sum().item()
        model = dist.DataParallel(net_of(), process_group=group)
        loss = F.cross_entropy(model(x[own]), y[own])
        (loss * (tokens / dist.mean_weight(tokens, group=group))).backward()
        model.finish()
        np.testing.assert_allclose(model.module.weight.grad.numpy(), whole.weight.grad.numpy(), rtol=1e-4, atol=1e-6)
        mesh = init_device_mesh("cpu", (group.size(),), mesh_dim_names=("dp",))
        net = net_of()
        parallel = parallelize(net, mesh)
        training = ParallelTraining(parallel, weft.optim.SGD(parallel.parameters(), lr=1.0))
        loss = training.backward(x[own], y[own], F.cross_entropy, weight=lambda target: (target != -100).sum())
        assert loss == pytest.approx(right.item(), rel=1e-5)
        training.step()
        np.testing.assert_allclose(net.weight.detach().numpy(), (whole.weight - whole.weight.grad).detach().numpy(),
                                   rtol=1e-4, atol=1e-6)
        with pytest.raises(ValueError):
            dist.mean_weight(float("nan"), group=group)

    on_ranks(body)


def test_replicas_have_the_means_of_gradients():
    def body(group):
        weft.manual_seed(group.rank())
        net = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.Tanh(), weft.nn.Linear(4, 2))
        spare = weft.nn.Linear(2, 2)
        net.append(spare)
        model = dist.DataParallel(net, bucket_cap_mb=1e-5, process_group=group)
        first = functional.broadcast(net[0].weight.detach(), 0, group=group)
        assert np.array_equal(first.numpy(), net[0].weight.detach().numpy())
        x = weft.tensor(np.random.default_rng(group.rank()).standard_normal((5, 3)).astype("f4"))
        with model.no_sync():
            net[2](net[1](net[0](x))).sum().backward()
        own = net[0].weight.grad.clone()
        expected = functional.all_reduce(own * 2, ReduceOp.AVG, group=group)
        net[2](net[1](net[0](x))).sum().backward()
        model.finish()
        np.testing.assert_allclose(net[0].weight.grad.numpy(), expected.numpy(), rtol=1e-5)
        assert model.unused_parameters() == [4, 5] and spare.weight.grad is None
        assert model(x).shape == (5, 2)

    on_ranks(body)


def test_sync_batch_norm_is_a_batch_norm_over_all_ranks():
    x = weft.randn(6, 3, 4, dtype=weft.float64)
    seed = weft.randn(6, 3, 4, dtype=weft.float64)
    whole = weft.nn.BatchNorm1d(3).double()
    with weft.no_grad():
        whole.weight.copy_(weft.tensor([0.5, 1.0, 2.0])), whole.bias.fill_(0.25)
    state = whole.state_dict()
    wanted_x = x.clone().requires_grad_()
    wanted = whole(wanted_x)
    wanted.backward(seed)
    evaluated = whole.eval()(x).detach()

    def run(group):
        rank = group.rank()
        part = slice(0, 4) if rank == 0 else slice(4, 6)
        norm = weft.nn.SyncBatchNorm.convert_sync_batchnorm(weft.nn.Sequential(weft.nn.BatchNorm1d(3)).double())
        norm[0].load_state_dict({**state, "running_mean": weft.zeros(3), "running_var": weft.ones(3),
                                 "num_batches_tracked": weft.tensor(0)})
        own = x[part].clone().requires_grad_()
        out = norm(own)
        out.backward(seed[part])
        assert isinstance(norm[0], weft.nn.SyncBatchNorm)
        assert weft.allclose(out, wanted[part], atol=1e-12) and weft.allclose(own.grad, wanted_x.grad[part], atol=1e-12)
        assert weft.allclose(norm[0].running_mean, whole.running_mean) and weft.allclose(norm[0].running_var, whole.running_var)
        total = functional.all_reduce(norm[0].weight.grad)
        assert weft.allclose(total, whole.weight.grad)
        assert weft.allclose(norm.eval()(x), evaluated)

    LocalWorld(2).run(run)
    alone = weft.nn.SyncBatchNorm(3).double()
    assert weft.allclose(alone(x), weft.nn.BatchNorm1d(3).double()(x))
