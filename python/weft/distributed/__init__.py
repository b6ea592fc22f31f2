"""Ranks that compute together: names and arguments follow torch.distributed where the meaning is the same.

Ranks are processes started by `mpirun -n 4 python program.py`, or threads: `LocalWorld(4).run(function)`. Functions of
this module write into the tensors passed to them; those of `weft.distributed.functional` return new ones, and are
differentiable. See docs/distributed.md.
"""

import contextlib as _contextlib
import sys as _sys

import weft as _weft
from weft._core import _distributed as _core

ProcessGroup = _core.ProcessGroup
ReduceOp = _core.ReduceOp
Work = _core.Work

_watched = False


def _announce_uncaught():
    # Notifies the other processes of the exception that ended this one.
    global _watched
    if _watched:
        return
    _watched = True
    before = _sys.excepthook

    def hook(kind, value, trace):
        _core.announce_failure(f"{kind.__name__}: {value}")
        before(kind, value, trace)

    _sys.excepthook = hook


def _group(group):
    if group is None:
        group = _core.world()
        if group.wire == "MPI":
            _announce_uncaught()
    return group


def _rank_in(group, rank):
    # Roots and peers are world ranks, as in torch.distributed.
    try:
        return group.ranks.index(rank)
    except ValueError:
        raise ValueError(f"rank {rank} does not belong to the group of ranks {group.ranks}") from None


def is_available():
    return True


def is_initialized():
    return True


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, **_):
    """Connects to the other processes; otherwise the first call does. `backend` is 'mpi' or None, `timeout` a timedelta
    or seconds."""
    if backend not in (None, "mpi"):
        raise ValueError(f"backend '{backend}': processes are started by mpirun and speak through MPI")
    group = _group(None)
    if world_size not in (-1, group.size()) or rank not in (-1, group.rank()):
        raise ValueError(f"rank and world size: expected {rank} of {world_size}, got {group.rank()} of {group.size()} from mpirun")
    if timeout is not None:
        group.timeout = _seconds(timeout)


def _seconds(timeout):
    return timeout.total_seconds() if hasattr(timeout, "total_seconds") else float(timeout)


def destroy_process_group(group=None):
    """Does nothing: MPI is finalised at exit."""


def get_rank(group=None):
    return _group(group).rank()


def get_world_size(group=None):
    group = _group(group)
    return group.size() if group.rank() >= 0 else -1


def get_process_group_ranks(group=None):
    return _group(group).ranks


def new_group(ranks=None, timeout=None):
    """The group of these world ranks. All of them call it, in the same order of groups."""
    world = _group(None)
    made = world.subgroup(list(range(world.size())) if ranks is None else sorted(ranks))
    if timeout is not None:
        made.timeout = _seconds(timeout)
    return made


def mean_weight(own, group=None):
    """Mean over ranks of `own`, the number of samples or tokens that this rank's mean loss counts. Where gradients are
    averaged over ranks, (loss * (own / mean_weight(own))).backward() gives the gradient of the mean over all ranks'
    samples. Auxiliary losses need the same factor: weft.nn.auxiliary_loss_scale."""
    return _core.mean_weight(float(own), _group(group))


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    if async_op:
        return _core.all_reduce_async_(tensor, _group(group), op)
    _core.all_reduce_(tensor, _group(group), op)


def broadcast(tensor, src, group=None, async_op=False):
    group = _group(group)
    if async_op:
        return _core.broadcast_async_(tensor, _rank_in(group, src), group)
    _core.broadcast_(tensor, _rank_in(group, src), group)


def _no_async(async_op, instead):
    if async_op:
        raise NotImplementedError(f"async_op is there for all_reduce, broadcast and barrier; {instead}")


def reduce(tensor, dst, op=ReduceOp.SUM, group=None, async_op=False):
    _no_async(async_op, "call it without")
    group = _group(group)
    with _weft.no_grad():
        result = _core.reduce(tensor, _rank_in(group, dst), group, op)
        if group.rank() == _rank_in(group, dst):
            tensor.copy_(result)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    _no_async(async_op, "call it without")
    with _weft.no_grad():
        gathered = _core.all_gather(input_tensor, _group(group), 0)
        output_tensor.copy_(gathered.reshape(output_tensor.shape))


def all_gather(tensor_list, tensor, group=None, async_op=False):
    _no_async(async_op, "call it without")
    group = _group(group)
    _one_for_each(tensor_list, group)
    with _weft.no_grad():
        for out, row in zip(tensor_list, _core.all_gather(tensor.unsqueeze(0), group, 0)):
            out.copy_(row)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    _no_async(async_op, "call it without")
    with _weft.no_grad():
        output.copy_(_core.reduce_scatter(input, _group(group), op, 0).reshape(output.shape))


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    _no_async(async_op, "call it without")
    group = _group(group)
    _one_for_each(input_list, group)
    with _weft.no_grad():
        output.copy_(_core.reduce_scatter(_weft.stack(list(input_list)), group, op, 0)[0])


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    _no_async(async_op, "call it without")
    with _weft.no_grad():
        output.copy_(_core.all_to_all(input, _group(group), 0, 0, input_split_sizes or [], output_split_sizes or []))


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Sends tensor r of the input to rank r; the outputs may have any number of elements."""
    _no_async(async_op, "call it without")
    group = _group(group)
    _one_for_each(input_tensor_list, group)
    _one_for_each(output_tensor_list, group)
    with _weft.no_grad():
        sent = _weft.cat([t.reshape(-1) for t in input_tensor_list])
        received = _core.all_to_all(sent, group, 0, 0, [t.numel() for t in input_tensor_list],
                                    [t.numel() for t in output_tensor_list])
        first = 0
        for out in output_tensor_list:
            out.copy_(received[first : first + out.numel()].reshape(out.shape))
            first += out.numel()


def _one_for_each(tensors, group):
    if len(tensors) != group.size():
        raise ValueError(f"{len(tensors)} tensors for a group of {group.size()} ranks")


def send(tensor, dst, group=None, tag=0):
    group = _group(group)
    _core.send(tensor, _rank_in(group, dst), group, tag)


def recv(tensor, src, group=None, tag=0):
    """Receives into tensor; returns the source rank, which must be given."""
    group = _group(group)
    _core.receive_(tensor, _rank_in(group, src), group, tag)
    return src


def isend(tensor, dst, group=None, tag=0):
    group = _group(group)
    return _core.send_async(tensor, _rank_in(group, dst), group, tag)


def irecv(tensor, src, group=None, tag=0):
    group = _group(group)
    return _core.receive_async_(tensor, _rank_in(group, src), group, tag)


def barrier(group=None, async_op=False):
    if async_op:
        return _core.barrier_async(_group(group))
    _core.barrier(_group(group))


class LocalWorld:
    """n ranks as threads of this process, for tests and notebooks."""

    def __init__(self, ranks, timeout=None):
        self._ranks = ranks
        self._timeout = 0.0 if timeout is None else _seconds(timeout)

    def run(self, function):
        """Calls function(group) once per rank, on threads where that group is the world; returns the results in rank
        order. Raises the error of the first rank that failed."""
        results = [None] * self._ranks

        def body(group):
            results[group.rank()] = function(group)

        _core.run_ranks(self._ranks, self._timeout, body)
        return results


class DataParallel:
    """A module replicated on every rank, with gradients that are averaged while backward runs.

    Calls are passed to the module. Unlike with torch.nn.parallel.DistributedDataParallel, finish() must be called after
    backward:

        model = DataParallel(net)
        loss(model(x)).backward()
        model.finish()               # every rank has the mean of all ranks' gradients
        optimizer.step()

    Parameters and buffers are broadcast from rank 0. A parameter that no rank's backward reached has no gradient. If
    ranks have unequal numbers of samples, `(loss * (own / mean_weight(own))).backward()` gives the mean over all
    samples."""

    def __init__(self, module, *, bucket_cap_mb=25, process_group=None):
        self.module = module
        self._replicas = _core.Replicas(list(module.parameters()), list(module.buffers()), int(bucket_cap_mb * 2**20),
                                        _group(process_group))

    def __call__(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def finish(self):
        """Waits for the means. Called by all ranks after each backward outside of no_sync."""
        self._replicas.finish()

    @_contextlib.contextmanager
    def no_sync(self):
        """Gradients accumulate on this rank only; the next backward outside of it sends the sums."""
        guard = self._replicas.no_sync()
        try:
            yield
        finally:
            del guard

    def unused_parameters(self):
        """Indices of the parameters that no rank's backward reached before the last finish()."""
        return self._replicas.unused()


from weft.distributed import functional  # noqa: E402, F401


def __getattr__(name):
    if name in ("checkpoint", "data", "nn", "tensor"):
        import importlib

        return importlib.import_module(f"weft.distributed.{name}")
    if name == "ShardDataLoader":
        from weft.distributed.data import ShardDataLoader

        return ShardDataLoader
    raise AttributeError(f"module 'weft.distributed' has no attribute '{name}'")
