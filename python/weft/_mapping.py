"""Conversion of one model's tensors to another's."""

import os as _os

from weft import _core


class Mapping:
    """Statements that map the tensors of one model to those of another, one per line:

    a -> b                                   renamed
    q, k, v -> qkv, axis=0                   concatenated
    c_attn -> q, k, v, axis=1, permute=[]    split evenly, and each part transposed
    w -> w, dtype="float32"                  converted
    x -> _                                   dropped
    _ -> y                                   y keeps its initial value
    l.$LAYER.a -> l.$LAYER.b                 for all layer numbers that occur

    Tensors that no statement reads keep their names. See weft/io/mapping.hpp for the full syntax.
    """

    def __init__(self, text):
        self._mapping = _core._Mapping(text)

    @staticmethod
    def read(filename):
        """Reads the statements from a text file."""
        out = Mapping("")
        out._mapping = _core._Mapping.read(_os.fspath(filename))
        return out

    def __call__(self, tensors):
        """Maps a dictionary of tensors. Errors have line and column."""
        return _core._map_tensors(dict(tensors), self._mapping, False)

    def optimizer(self, tensors):
        """Maps an optimizer's state by weight name (optimizer.safetensors of a training state): tensors follow the
        statements and keep their dtypes; scalars are only renamed."""
        return _core._map_tensors(dict(tensors), self._mapping, True)

    def leaves(self, name):
        """Whether a statement excludes this tensor from loading."""
        return self._mapping.leaves(name)


def core_of(mapping):
    """The core object of a Mapping or of its text."""
    if mapping is None:
        return None
    return (mapping if isinstance(mapping, Mapping) else Mapping(mapping))._mapping
