"""torch.autograd.graph."""

import collections

from weft import _graph_nodes
from weft._graph_nodes import GraphNode as Node
from weft._graph_nodes import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks

__all__ = ["GradientEdge", "Node", "disable_saved_tensors_hooks", "get_gradient_edge", "save_on_cpu", "saved_tensors_hooks"]
GradientEdge = collections.namedtuple("GradientEdge", "node output_nr")


def get_gradient_edge(tensor):
    """The place of the graph where the gradient of a tensor arrives."""
    return GradientEdge(*_graph_nodes.gradient_edge(tensor))
