"""Names of torch.distributed beside weft.distributed: its backends' names, and a world of one process."""


from weft import distributed

__all__ = ["P2POp", "ReduceOp", "batch_isend_irecv", "gather", "get_global_rank", "get_group_rank", "scatter", "all_gather_object", "all_reduce_coalesced", "barrier", "broadcast_object_list", "get_backend", "init_process_group", "is_gloo_available",
           "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "monitored_barrier", "group"]

ReduceOp = distributed.ReduceOp
_begun = [False]


class group:
    WORLD = None


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name="",
                       pg_options=None, device_id=None):
    """Connects to the processes that mpirun started; any backend's name means MPI, or this process alone."""
    distributed.init_process_group(None, init_method, timeout, world_size, rank)
    _begun[0] = True


def is_initialized():
    """Whether init_process_group was called, or mpirun started several processes."""
    return _begun[0] or distributed.get_world_size() > 1


def get_backend(group=None):
    return "mpi"


def is_mpi_available():
    return True


def is_nccl_available():
    return False


def is_gloo_available():
    return False


def is_torchelastic_launched():
    return False


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    distributed.barrier(group)


def _objects():
    import pickle

    import weft

    def to_bytes(obj):
        data = pickle.dumps(obj)
        return weft.frombuffer(bytearray(data), dtype=weft.uint8)

    def of_bytes(tensor):
        return pickle.loads(bytes(memoryview(tensor.contiguous())))

    return weft, to_bytes, of_bytes


def all_gather_object(object_list, obj, group=None):
    """Objects of all ranks, by pickle, in a list of as many."""
    weft, to_bytes, of_bytes = _objects()
    own, world = to_bytes(obj), distributed.get_world_size(group)
    sizes = [weft.zeros(1, dtype=weft.int64) for _ in range(world)]
    distributed.all_gather(sizes, weft.tensor([own.numel()]), group)
    most = max(int(size) for size in sizes)
    parts = [weft.zeros(most, dtype=weft.uint8) for _ in range(world)]
    distributed.all_gather(parts, weft.cat([own, weft.zeros(most - own.numel(), dtype=weft.uint8)]), group)
    for i, (part, size) in enumerate(zip(parts, sizes)):
        object_list[i] = of_bytes(part[:int(size)])


def broadcast_object_list(object_list, src=0, group=None, device=None):
    """The source's objects on every rank."""
    gathered = [None] * distributed.get_world_size(group)
    all_gather_object(gathered, list(object_list), group)
    object_list[:] = gathered[distributed.get_process_group_ranks(group).index(src)]


def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    for tensor in tensors:
        distributed.all_reduce(tensor, op, group)


barrier = distributed.barrier


def gather(tensor, gather_list=None, dst=0, group=None, async_op=False):
    """The tensors of all ranks in the list of rank dst."""
    parts = [tensor.new_empty(tensor.shape) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(parts, tensor, group)
    if gather_list is not None and distributed.get_rank() == dst:
        for own, part in zip(gather_list, parts):
            own.copy_(part)


def scatter(tensor, scatter_list=None, src=0, group=None, async_op=False):
    """Each rank's tensor of the list of rank src."""
    for rank in distributed.get_process_group_ranks(group):
        place = distributed.get_process_group_ranks(group).index(rank)
        part = scatter_list[place].clone() if distributed.get_rank() == src else tensor.new_empty(tensor.shape)
        distributed.broadcast(part, src, group)
        if rank == distributed.get_rank():
            tensor.copy_(part)


def get_global_rank(group, group_rank):
    return distributed.get_process_group_ranks(group)[group_rank]


def get_group_rank(group, global_rank):
    return distributed.get_process_group_ranks(group).index(global_rank)


class P2POp:
    """A send or receive for batch_isend_irecv."""

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag


def batch_isend_irecv(p2p_op_list):
    """Begins them all."""
    return [one.op(one.tensor, one.peer, one.group, one.tag) for one in p2p_op_list]
