"""Checkpointing of modules: calls keep their inputs alone for backward, which computes the rest again."""

from weft import _core

__all__ = ["checkpoint_module", "is_checkpointed", "set_checkpointing"]


def checkpoint_module(module, on=True):
    """Switches checkpointing of a module's calls on or off, by the rules of weft.utils.checkpoint."""
    _core._checkpoint_module(module._state, on)


def is_checkpointed(module):
    return _core._is_checkpointed(module._state)


def set_checkpointing(model, pattern, on=True):
    """The same for every submodule with a name that matches the regular expression; returns the names."""
    return _core._set_checkpointing(model._state, pattern, on)
