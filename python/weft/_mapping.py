"""How the tensors of one model become those of another."""

import os as _os

from weft import _core


class Mapping:
    """Statements by which the tensors of one model become those of another, one a line.

    a -> b                                   another name
    q, k, v -> qkv, axis=0                   joined
    c_attn -> q, k, v, axis=1, permute=[]    split evenly, and each part transposed
    w -> w, dtype="float32"                  converted
    x -> _                                   dropped
    _ -> y                                   y stays as the model initialised it
    l.$LAYER.a -> l.$LAYER.b                 for all the numbers that are there

    What no statement reads keeps its name. weft/io/mapping.hpp has the rest.
    """

    def __init__(self, text):
        self._mapping = _core._Mapping(text)

    @staticmethod
    def read(filename):
        """The statements of a text file."""
        out = Mapping("")
        out._mapping = _core._Mapping.read(_os.fspath(filename))
        return out

    def __call__(self, tensors):
        """A dictionary of tensors, mapped. Errors name line and column."""
        return _core._map_tensors(dict(tensors), self._mapping, False)

    def optimizer(self, tensors):
        """What an optimizer keeps of the weights, by their names (optimizer.safetensors of a training state): tensors
        follow the statements and keep their dtypes, scalars are renamed only."""
        return _core._map_tensors(dict(tensors), self._mapping, True)

    def leaves(self, name):
        """Whether a statement says that this tensor is not loaded."""
        return self._mapping.leaves(name)


def core_of(mapping):
    """Of a Mapping, or of its text."""
    if mapping is None:
        return None
    return (mapping if isinstance(mapping, Mapping) else Mapping(mapping))._mapping
