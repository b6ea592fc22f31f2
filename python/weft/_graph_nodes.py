"""The graph as Python objects: the op behind a tensor, its successors in backward, and hooks on saved tensors."""

import contextlib
import functools
import weakref

from weft import _core
from weft._core import Tensor


class GraphNode:
    """A recorded op and its call site; of a leaf the node that sums its gradient. Its class has PyTorch's name."""

    def __new__(cls, node, tensor=None):
        return object.__new__(_class_of("" if node.accumulates else node.op))

    def __init__(self, node, tensor=None):
        self._node, self._tensor = node, None if tensor is None else weakref.ref(tensor)
        self.op, (self.file, self.line) = node.op, node.place
        self.metadata = {}

    def name(self):
        return "AccumulateGrad" if self._node.accumulates else self.op

    @property
    def next_functions(self):
        """Pairs of a node, or None where no gradient flows, and the number of its output."""
        return tuple((None if node is None else GraphNode(node), output) for node, output in self._node.next)

    @property
    def variable(self):
        """The leaf of a node that sums a gradient."""
        if not self._node.accumulates:
            raise AttributeError(f"{self!r} has no variable: it is no leaf's")
        return self._node.leaf

    @property
    def saved_tensors(self):
        """Tensors that the op keeps for its backward."""
        return tuple(self._node.saved)

    def _result(self, function):
        tensor = None if self._tensor is None else self._tensor()
        if tensor is None:
            raise NotImplementedError(f"{function}(): hooks are set through the grad_fn of a tensor that is alive")
        return tensor

    def register_hook(self, hook):
        """Calls hook(gradients of the inputs, gradients of the outputs) after the op ran backward; it may return other
        gradients of the inputs."""
        return _core._register_node_post_hook(self._result("register_hook"),
                                              lambda event: hook(tuple(event.outgoing), tuple(event.incoming)))

    def register_prehook(self, hook):
        """Calls hook(gradients of the outputs) before the op runs backward; it may return others."""
        return _core._register_node_pre_hook(self._result("register_prehook"), lambda event: hook(tuple(event.incoming)))

    def __eq__(self, other):
        return isinstance(other, GraphNode) and self._node == other._node

    def __hash__(self):
        return hash(self._node)

    def __repr__(self):
        return f"<{self.name()} at {self.file}:{self.line}>" if self.line else f"<{self.name()}>"


@functools.cache
def _class_of(op):
    """AddBackward0 for an op, SquareBackward for a Function, AccumulateGrad without a name."""
    words = "".join(word.capitalize() for word in op.split("_"))
    name = f"{words}Backward0" if op in _core._ops else f"{op}Backward" if op else "AccumulateGrad"
    return type(name, (GraphNode,), {"__module__": "weft"})


def _grad_fn(self):
    node = None if self.is_leaf else _core._node_of(self)
    return None if node is None else GraphNode(node, self)


Tensor.grad_fn = property(_grad_fn, doc="The op that produced this tensor, or None for a leaf.")


def gradient_edge(tensor):
    """The node that computes a tensor's gradient, and the number of the tensor among its outputs."""
    node = _core._node_of(tensor)
    if node is None:
        raise RuntimeError("a tensor without a gradient has no gradient edge")
    return GraphNode(node, tensor), tensor.output_nr


class saved_tensors_hooks:
    """Converts the tensors that ops of a `with` block keep for backward: pack_hook(tensor) gives any object, from which
    unpack_hook makes the tensor when backward needs it."""

    def __init__(self, pack_hook, unpack_hook):
        self._hooks = _core._SavedTensorHooks(pack_hook, unpack_hook)

    def __enter__(self):
        if _refusals:
            raise RuntimeError(_refusals[-1])
        self._hooks.enter()
        return self

    def __exit__(self, *_):
        self._hooks.leave()


class save_on_cpu(saved_tensors_hooks):
    """Keeps saved tensors on the CPU until backward."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        super().__init__(lambda tensor: (tensor.device, tensor.cpu()), lambda packed: packed[1].to(packed[0]))


_refusals: list = []


class disable_saved_tensors_hooks(contextlib.ContextDecorator):
    """In a `with` block saved_tensors_hooks raises RuntimeError with this text."""

    def __init__(self, error_message):
        self._message = error_message

    def __enter__(self):
        _refusals.append(self._message)

    def __exit__(self, *_):
        _refusals.pop()
