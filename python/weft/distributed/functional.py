"""Collectives that return new tensors, and are differentiable: the gradient is that of the sum of all ranks' losses.

Roots are numbers of the group."""

from weft.distributed import ReduceOp, _core, _group


def all_reduce(x, op=ReduceOp.SUM, group=None):
    return _core.all_reduce(x, _group(group), op)


def reduce(x, root, op=ReduceOp.SUM, group=None):
    return _core.reduce(x, root, _group(group), op)


def broadcast(x, root, group=None):
    return _core.broadcast(x, root, _group(group))


def all_gather(x, dim=0, group=None):
    return _core.all_gather(x, _group(group), dim)


def all_gather_ragged(x, dim=0, group=None):
    return _core.all_gather_ragged(x, _group(group), dim)


def reduce_scatter(x, op=ReduceOp.SUM, dim=0, group=None):
    return _core.reduce_scatter(x, _group(group), op, dim)


def all_to_all(x, split_dim=0, join_dim=0, send_sizes=(), receive_sizes=(), group=None):
    return _core.all_to_all(x, _group(group), split_dim, join_dim, list(send_sizes), list(receive_sizes))


def send(x, dst, tag=0, group=None):
    """x to rank dst, which calls recv. Returns a zero for this rank's loss: (loss + sent).backward(), or
    sent.backward(), receives x's gradient. Both ranks record or none does, and both run backward."""
    return _core.send_with_gradient(x, dst, _group(group), tag)


def recv(src, tag=0, group=None):
    """The tensor that rank src sent by send; backward sends its gradient there."""
    return _core.receive_with_gradient(src, _group(group), tag)
