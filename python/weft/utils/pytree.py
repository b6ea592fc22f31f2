"""Nested tuples, lists and dicts as a list of leaves and a structure, under the names of torch.utils._pytree."""

import collections
import dataclasses
from typing import Any

__all__ = ["LeafSpec", "TreeSpec", "register_pytree_node", "tree_all", "tree_any", "tree_flatten", "tree_iter", "tree_leaves",
           "tree_map", "tree_map_", "tree_map_only", "tree_structure", "tree_unflatten", "MappingKey", "SequenceKey", "keystr",
           "is_namedtuple", "tree_all_only", "tree_any_only", "tree_flatten_with_path", "tree_is_leaf", "tree_leaves_with_path",
           "tree_map_only_", "tree_map_with_path"]


@dataclasses.dataclass
class TreeSpec:
    """The structure of a node: its type, the context to make it again, and the structures below it."""

    type: Any
    context: Any
    children_specs: list

    @property
    def num_leaves(self):
        return sum(child.num_leaves for child in self.children_specs)

    @property
    def num_children(self):
        return len(self.children_specs)

    def is_leaf(self):
        return self.type is None

    def unflatten(self, leaves):
        return tree_unflatten(leaves, self)


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self):
        super().__init__(None, None, [])

    num_leaves = property(lambda self: 1)


def _keyed(kind):
    return (lambda d: (list(d.values()), list(d.keys())), lambda values, keys: kind(zip(keys, values)))


_nodes = {
    tuple: (lambda t: (list(t), None), lambda values, _: tuple(values)),
    list: (lambda t: (list(t), None), lambda values, _: list(values)),
    dict: _keyed(dict), collections.OrderedDict: _keyed(collections.OrderedDict),
    collections.deque: (lambda t: (list(t), t.maxlen), lambda values, most: collections.deque(values, most)),
    collections.defaultdict: (lambda d: (list(d.values()), (d.default_factory, list(d.keys()))),
                              lambda values, context: collections.defaultdict(context[0], zip(context[1], values))),
}


def register_pytree_node(cls, flatten_fn, unflatten_fn, **_):
    """Makes a class a node: flatten_fn(object) gives (children, context), unflatten_fn(children, context) the object."""
    _nodes[cls] = (flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node


def _node(tree):
    kind = type(tree)
    if kind in _nodes:
        return kind, *_nodes[kind]
    if isinstance(tree, tuple) and hasattr(kind, "_fields"):
        return kind, lambda t: (list(t), None), lambda values, _: kind(*values)
    return None, None, None


def tree_flatten(tree, is_leaf=None):
    """(leaves, structure)."""
    kind, flatten, _ = _node(tree)
    if kind is None or is_leaf is not None and is_leaf(tree):
        return [tree], LeafSpec()
    children, context = flatten(tree)
    leaves, specs = [], []
    for child in children:
        own, spec = tree_flatten(child, is_leaf)
        leaves += own
        specs.append(spec)
    return leaves, TreeSpec(kind, context, specs)


def tree_unflatten(leaves, treespec):
    """The tree of this structure with these leaves."""
    if not isinstance(treespec, TreeSpec) and isinstance(leaves, TreeSpec):
        leaves, treespec = treespec, leaves
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten(): {len(leaves)} leaves for a structure of {treespec.num_leaves}")
    return _rebuilt(iter(leaves), treespec)


def _rebuilt(leaves, spec):
    if spec.is_leaf():
        return next(leaves)
    values = [_rebuilt(leaves, child) for child in spec.children_specs]
    if spec.type in _nodes:
        return _nodes[spec.type][1](values, spec.context)
    return spec.type(*values)


def tree_leaves(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree, is_leaf=None):
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    """The tree with func(leaf, *leaves of the others at the same place)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return tree_unflatten([func(*values) for values in zip(leaves, *others, strict=True)], spec)


def tree_map_(func, tree, *rests, is_leaf=None):
    """Calls func on each leaf; returns the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _matches(kind):
    return kind if callable(kind) and not isinstance(kind, type) else lambda leaf: isinstance(leaf, kind)


def tree_map_only(type_or_types_or_pred, func, tree=None, is_leaf=None):
    """tree_map of the leaves of some types alone."""
    matches = _matches(type_or_types_or_pred)
    return tree_map(lambda leaf: func(leaf) if matches(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_any(pred, tree, is_leaf=None):
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all(pred, tree, is_leaf=None):
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any_only(type_or_types, pred, tree, is_leaf=None):
    """tree_any of the leaves of some types alone."""
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if _matches(type_or_types)(leaf))


def tree_all_only(type_or_types, pred, tree, is_leaf=None):
    """tree_all of the leaves of some types alone."""
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if _matches(type_or_types)(leaf))


def tree_map_only_(type_or_types_or_pred, func, tree, is_leaf=None):
    """Calls func on the leaves of some types; returns the tree itself."""
    tree_map_only(type_or_types_or_pred, func, tree, is_leaf)
    return tree


def tree_is_leaf(tree, is_leaf=None):
    return is_leaf is not None and is_leaf(tree) or _node(tree)[0] is None


def is_namedtuple(obj):
    return isinstance(obj, tuple) and hasattr(type(obj), "_fields")


# ---- leaves with their places ----

@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """A position in a tuple or list."""

    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """A key of a dict."""

    key: Any

    def __str__(self):
        return f"[{self.key!r}]"


def keystr(path):
    """A path as text, such as ['x'][0]."""
    return "".join(map(str, path))


def tree_flatten_with_path(tree, is_leaf=None):
    """(pairs of path and leaf, structure)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return list(zip(_paths(spec, ()), leaves)), spec


def _paths(spec, path):
    if spec.is_leaf():
        return [path]
    keys = spec.context[1] if spec.type is collections.defaultdict else spec.context if isinstance(spec.context, list) else None
    steps = map(MappingKey, keys) if keys is not None else map(SequenceKey, range(spec.num_children))
    return [found for step, child in zip(steps, spec.children_specs) for found in _paths(child, (*path, step))]


def tree_leaves_with_path(tree, is_leaf=None):
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """The tree with func(path, leaf, *leaves of the others at the same place)."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return tree_unflatten([func(path, leaf, *more) for (path, leaf), *more in zip(pairs, *others, strict=True)], spec)


__all__ += ["_register_pytree_node"]
