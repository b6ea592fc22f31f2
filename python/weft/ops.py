"""Ops by name: weft.ops.ns.name is the op "ns::name", registered here, in C++ or by a library; weft.ops.exp is exp."""

import collections

from weft import _core


def _op(name):
    op = _core._find_op(name)
    if op is not None and op._results:
        op._name_results(collections.namedtuple(name.rpartition("::")[2], op._results, rename=True))
    return op


class _Namespace:
    """The ops of a namespace: those that are registered when they are asked for."""

    def __init__(self, name):
        self.__name__ = name

    def __getattr__(self, name):
        op = None if name.startswith("__") else _op(f"{self.__name__}::{name}")
        if op is None:
            raise AttributeError(f"there is no op '{self.__name__}::{name}': register it, or load its library")
        return op

    def __dir__(self):
        start = self.__name__ + "::"
        return [name[len(start):] for name in _core._all_ops() if name.startswith(start)]

    def __repr__(self):
        return f"<ops of {self.__name__}>"


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    op = _op(name)
    return _Namespace(name) if op is None else op


def __dir__():
    return sorted({name.partition("::")[0] for name in _core._all_ops()})
