"""Tensors in parts: names and arguments as torch.distributed.tensor has them, where the meaning is the same.

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    x = distribute_tensor(weft.randn(6, 5), mesh, [Shard(0), Shard(1)])
    y = weft.softmax(x @ w, -1)          # w: another DTensor
    y.placements, y.to_local(), y.full_tensor()

Every rank of the mesh makes the same calls. Ops of weft take DTensors where they take tensors, and are methods of DTensor:
the rule of each op says which parts it needs, and what it leaves. docs/distributed.md says more.
"""

import functools as _functools

import weft as _weft
from weft._core import _distributed as _core
from weft.distributed import ReduceOp, _group
from weft.distributed import functional as _functional

DTensor = _core.DTensor
DeviceMesh = _core.DeviceMesh
Placement = _core.Placement
Replicate = _core.Replicate
Shard = _core.Shard

_reductions = {"sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "max": ReduceOp.MAX, "min": ReduceOp.MIN,
               "product": ReduceOp.PRODUCT, "any": ReduceOp.ANY, "all": ReduceOp.ALL}


def Partial(reduce_op="sum"):
    """Tensors that the reduction makes into the one that is meant."""
    return _core.Partial(_reductions[reduce_op] if isinstance(reduce_op, str) else reduce_op)


def init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None, group=None):
    """All ranks of the group, or of the world, as a grid. Tensors say on which device their parts are; device_type is
    PyTorch's argument and not looked at."""
    return DeviceMesh(list(mesh_shape), list(mesh_dim_names or ()), _group(group))


def distribute_tensor(tensor, device_mesh, placements=None):
    """This rank's part of a tensor that all ranks have alike; nothing is sent. Its gradient is whole on every rank."""
    if placements is None:
        placements = [Replicate()] * device_mesh.ndim
    return _core.distribute(tensor, device_mesh, list(placements))


def _from_local(local_tensor, device_mesh, placements, *, shape=None):
    """A DTensor of this rank's part. Without a shape the ranks tell each other their sizes."""
    placements = list(placements)
    if shape is None:
        shape = list(local_tensor.shape)
        for d in reversed(range(device_mesh.ndim)):
            if placements[d].is_shard():
                size = _weft.tensor(shape[placements[d].dim])
                shape[placements[d].dim] = int(_functional.all_reduce(size, group=device_mesh.get_group(d)))
    return _core.from_local(local_tensor, list(shape), device_mesh, placements)


def _redistribute(self, device_mesh=None, placements=None):
    """The same tensor in other parts."""
    if device_mesh is not None and list(device_mesh.shape) != list(self.device_mesh.shape):
        raise ValueError("redistribute(): a DTensor stays on its mesh")
    return self._redistribute(list(placements if placements is not None else self.placements))


def _called_by_op(op, args, kwargs):
    return _core.call(op.__name__, *args, **kwargs)


def _method(self, name):
    if name.startswith("_") or name not in _weft._core._ops:
        raise AttributeError(f"'DTensor' object has no attribute '{name}'")
    return _functools.partial(_core.call, name, self)


def _operator(op, swapped=False):
    if swapped:
        return lambda a, b: _core.call(op, b, a)
    return lambda a, b: _core.call(op, a, b)


def _representation(self):
    return f"DTensor({self.to_local()!r}, shape={tuple(self.shape)}, placements={self.placements})"


DTensor.from_local = staticmethod(_from_local)
DTensor.redistribute = _redistribute
DTensor.__weft_function__ = staticmethod(_called_by_op)
DTensor.__getattr__ = _method
DTensor.__repr__ = _representation
DTensor.ndim = property(lambda self: len(self.shape))
DTensor.requires_grad = property(lambda self: self.to_local().requires_grad)
for _name, _op in {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow", "matmul": "matmul"}.items():
    setattr(DTensor, f"__{_name}__", _operator(_op))
    setattr(DTensor, f"__r{_name}__", _operator(_op, swapped=True))
for _name in ("lt", "le", "gt", "ge"):
    setattr(DTensor, f"__{_name}__", _operator(_name))
DTensor.__neg__ = lambda self: _core.call("neg", self)
