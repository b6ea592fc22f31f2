"""Imports PyTorch's modules, with names from modules of Weft by the table in `_names.py`."""

import functools
import importlib
import importlib.machinery
import sys
import types

from weft.torch._names import FUNCTIONS, PATHS, nearest, sources_of

_OWN = "weft.torch"
_facades: dict = {}


class _Facade(types.ModuleType):
    """A module of PyTorch with names from modules of Weft, looked up on first access."""

    def __getattr__(self, name):
        path = self.__dict__.get("_path")
        if name == "__all__" and path is not None:
            names = [name for name in dir(self) if f"{path}.{name}" not in PATHS]
            return [name for name in names if not isinstance(getattr(self, name), (dict, list))]
        if path is None or name.startswith("__") and name not in ("__config__", "__future__"):
            raise AttributeError(f"module has no attribute '{name}'")
        below = f"{path}.{name}"
        if below in PATHS and below not in FUNCTIONS:
            return facade(below)
        for source in sources_of(path):
            value = _find(source, name)
            if value is not _ABSENT:
                if type(value) is not int:  # which may change
                    self.__dict__[name] = value
                return value
        raise AttributeError(explained(path, name))

    def __setattr__(self, name, value):
        if not (isinstance(value, _Facade) and f"{self.__dict__.get('_path')}.{name}" in FUNCTIONS):
            super().__setattr__(name, value)

    def __dir__(self):
        return sorted(_names_in(self.__dict__["_path"]))

    def __repr__(self):
        return f"<module '{self.__dict__['_path']}' on Weft>"


_ABSENT = object()


def _loaded(source):
    module, _, attribute = source.partition(":")
    loaded = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


def _is_offered(source, name):
    """Whether a module's attribute is one of its names: no import of its own, and no private name."""
    return not name.startswith("_") or name.startswith("_foreach_") or name in getattr(source, "__all__", ())


def _find(source, name):
    loaded = _loaded(source)
    if not _is_offered(loaded, name):
        return _ABSENT
    value = getattr(loaded, name, _ABSENT)
    if isinstance(value, types.ModuleType) and name not in getattr(loaded, "__all__", ()):
        return _ABSENT  # a module that the source imports
    return value


@functools.cache
def _names_in(path):
    """The names that a module path offers, with its submodules."""
    below = {other[len(path) + 1:] for other in PATHS if other.startswith(path + ".")}
    names = {name for name in below if "." not in name}
    for source in sources_of(path):
        loaded = _loaded(source)
        names |= {name for name in dir(loaded) if _is_offered(loaded, name) and _find(source, name) is not _ABSENT}
    return names


@functools.cache
def explained(path, name):
    """The text of an error for a name that Weft lacks."""
    close = nearest(name, _names_in(path))
    hint = f"; the nearest name is '{path}.{close}'" if close else ""
    return f"module '{path}' on Weft has no attribute '{name}'{hint}"


def add_hint(error):
    """Adds the nearest name to Python's error of `from torch import name`."""
    name = error.msg.split("'")[1] if error.msg.startswith("cannot import name '") else ""
    if name and error.name in PATHS:
        error.add_note(explained(error.name, name))


def resolved(path, name):
    """The object that a pickle of PyTorch's names; AttributeError where Weft lacks it."""
    found = path if path in PATHS else next((p for p in PATHS if path.startswith(p + ".")), "torch")
    obj = facade(found)
    for part in name.split("."):
        obj = getattr(obj, part)
    return obj


def facade(path):
    """The module of a path of PyTorch's."""
    module = _facades.get(path)
    if module is None:
        module = _facades[path] = _Facade(path, f"PyTorch's module {path} on Weft.")
        module.__dict__.update(_path=path, __path__=[], __package__=path)
        sys.modules.setdefault(_OWN + path[len("torch"):], module)
        if _finder in sys.meta_path:
            sys.modules[path] = module
    return module


class _Loader:
    """Gives the module that exists already."""

    def __init__(self, path):
        self.path = path

    def create_module(self, spec):
        return facade(self.path)

    def exec_module(self, module):
        pass


class _Finder:
    """Finds the modules under one prefix: `torch` while it is installed, `weft.torch` always."""

    def __init__(self, prefix):
        self.prefix = prefix

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self.prefix and not fullname.startswith(self.prefix + "."):
            return None
        theirs = "torch" + fullname[len(self.prefix):]
        if theirs in PATHS:
            return importlib.machinery.ModuleSpec(fullname, _Loader(theirs), is_package=True)
        close = nearest(theirs, PATHS)
        hint = f"; the nearest module is '{close}'" if close else ""
        raise ModuleNotFoundError(f"Weft has no module '{theirs}'{hint}", name=fullname)


_finder, _own_finder = _Finder("torch"), _Finder(_OWN)
sys.meta_path.append(_own_finder)
_before: dict = {}


def install():
    """`import torch` and every submodule path mean Weft from now on, and tensors have PyTorch's type names and forms of
    methods. Modules of PyTorch that were imported are set aside until uninstall()."""
    if _finder in sys.meta_path:
        return
    _before.update({name: module for name, module in sys.modules.items() if name == "torch" or name.startswith("torch.")})
    for name in _before:
        del sys.modules[name]
    sys.meta_path.insert(0, _finder)
    sys.modules["torch"] = sys.modules[_OWN]
    for path, module in _facades.items():
        sys.modules[path] = module
    importlib.import_module("weft.torch._legacy").change_methods()


def uninstall():
    """The other way round."""
    if _finder not in sys.meta_path:
        return
    sys.meta_path.remove(_finder)
    for name in [name for name in sys.modules if name == "torch" or name.startswith("torch.")]:
        del sys.modules[name]
    sys.modules.update(_before)
    _before.clear()
    importlib.import_module("weft.torch._legacy").restore_methods()


def become_facade(module):
    """Gives the package weft.torch the names of the path `torch`."""
    module.__class__ = _Facade
    module._path = "torch"
    _facades["torch"] = module
