"""Calls of a module with other parameters, as weft.func.functional_call."""

from weft.func import functional_call

__all__ = ["functional_call"]
