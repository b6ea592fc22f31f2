"""Weft's errors, named as in C++. Each is an Error, which is a RuntimeError as in PyTorch, and Python's own kind where there
is one: `except ValueError` catches ShapeError. IndexError, NotImplementedError and OSError are Python's."""

from weft._core import (  # noqa: F401
    AutogradError, DeviceError, DTypeError, Error, FormatError, KeyError, LinAlgError, NonFiniteError, OutOfMemoryError,
    ShapeError, ValueError, VersionError, ZeroDivisionError)
