"""Weft in PyTorch's place, for PyTorch's own tests and their support files.

`torch.testing` comes from PyTorch's sources. Modules of PyTorch's machinery (TorchScript, dispatcher, code generators) are
stand-ins: they let a file load, and a test that calls one is skipped, which means not counted. Other names that Weft lacks
raise AttributeError when a test uses them.
"""
import importlib.machinery
import importlib.util
import pathlib
import sys
import types
import unittest

INTERNAL = ("torch._C", "torch.jit", "torch.fx", "torch._prims", "torch._prims_common", "torch._refs", "torch._decomp",
            "torch.onnx", "torch.ao", "torch.quantization", "torch._ops", "torch._utils_internal", "torch._subclasses",
            "torch.nn.intrinsic", "torch.nn.quantized", "torch.utils._python_dispatch", "torch.utils._mode_utils",
            "torch.backends.xnnpack", "torch._torch_docs", "torch._dynamo", "torchgen", "torch.package",
            "torch.utils.cpp_extension", "torch._lazy")
loading = True


class Internal:
    """A name of PyTorch's machinery."""

    __all__: tuple = ()

    def __init__(self, name):
        self.__dict__["_name"] = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(self)(f"{self._name}.{name}")

    def __setattr__(self, name, value):
        pass

    def __call__(self, *args, **kwargs):
        if not loading:
            raise unittest.SkipTest(f"not counted: PyTorch's machinery ({self._name})")
        return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else Internal(self._name + "()")

    def __instancecheck__(self, instance):
        return False

    def __subclasscheck__(self, subclass):
        return False

    def __mro_entries__(self, bases):
        return ()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def __iter__(self):
        return iter(())

    def __bool__(self):
        return False

    def __or__(self, other):
        return other

    __ror__ = __or__

    def __repr__(self):
        return f"<stand-in of {self._name}>"


class Absent(Internal):
    """A public name that Weft lacks."""

    def __call__(self, *args, **kwargs):
        if not loading:
            raise AttributeError(f"module 'torch' on Weft has no attribute '{self._name}'")
        return Absent(self._name + "()")


class AbsentDtype(Absent):
    """A dtype that Weft lacks."""

    def __bool__(self):
        return True

    @property
    def __class__(self):
        import weft
        return weft.dtype

    def __repr__(self):
        return self._name

    def __getattr__(self, name):
        if name in ("is_complex", "is_floating_point", "is_signed"):
            return self._name in ("torch.complex32", "torch.chalf") and name != "is_floating_point"
        raise AttributeError(name)


DTYPES = {f"torch.{name}": AbsentDtype(f"torch.{name}") for name in "complex32 quint8 qint8 qint32 quint4x2 quint2x4".split()}
DTYPES["torch.chalf"] = DTYPES["torch.complex32"]


class StandInModule(types.ModuleType):
    """A module of PyTorch's machinery, or a public one that Weft lacks."""

    __all__: list = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        kind = Internal if is_internal(self.__name__) else Absent
        return kind(f"{self.__name__}.{name}")


def is_internal(name):
    return any(name == path or name.startswith(path + ".") for path in INTERNAL)


class Finder:
    """Finds torch.testing in PyTorch's sources, and stand-ins for modules that Weft lacks."""

    def __init__(self, sources, paths):
        self.sources, self.paths = pathlib.Path(sources), paths

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in ("torch", "torchgen"):
            return None
        if name == "torch.testing" or name.startswith("torch.testing."):
            return self.source_spec(name)
        if name not in self.paths and (loading or is_internal(name)):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def source_spec(self, name):
        below = self.sources.joinpath(*name.split("."))
        file = below / "__init__.py" if below.is_dir() else below.with_suffix(".py")
        if not file.exists():
            return None
        folder = [str(below)] if below.is_dir() else None
        return importlib.util.spec_from_file_location(name, file, submodule_search_locations=folder)

    def create_module(self, spec):
        return StandInModule(spec.name)

    def exec_module(self, module):
        module.__path__ = []


def make_lenient(facade):
    """Lets files load that name absent objects, and lets torch.testing name them at any time."""
    strict = facade.__getattr__

    def lookup(self, name):
        try:
            return strict(self, name)
        except AttributeError:
            path = self.__dict__.get("_path", "torch")
            if name.startswith("__"):
                raise
            if f"{path}.{name}" in DTYPES:
                return DTYPES[f"{path}.{name}"]
            if is_internal(path):
                return Internal(f"{path}.{name}")
            if is_internal(f"{path}.{name}"):
                return importlib.import_module(f"{path}.{name}")
            if loading or sys._getframe(1).f_globals.get("__name__", "").startswith("torch.testing"):
                return Absent(f"{path}.{name}")
            raise

    facade.__getattr__ = lookup


def make_type_lenient(tensor_type):
    """Lets files load that name absent methods, as in `op=torch.Tensor.resize_`."""
    strict = tensor_type.__getattr__

    def lookup(self, name):
        try:
            return strict(self, name)
        except AttributeError:
            if loading and not name.startswith("__"):
                return Absent(f"torch.Tensor.{name}")
            raise

    tensor_type.__getattr__ = lookup


def install(sources):
    """`import torch` means Weft, and torch.testing PyTorch's own."""
    import weft.torch
    from weft.torch import _door, _legacy, _names

    weft.torch.install()
    note_other_texts()
    make_lenient(_door._Facade)
    make_type_lenient(_legacy._TensorType)
    sys.meta_path.insert(0, Finder(sources, _names.PATHS))
    for name in [name for name in sys.modules if name == "torch.testing" or name.startswith("torch.testing.")]:
        del sys.modules[name]
    vars(weft.torch).pop("testing", None)
    weft.torch.ops = Internal("torch.ops")


noted_texts = []


class OtherError(unittest.case._AssertRaisesContext):
    """assertRaisesRegex that needs the class of the error; another text is noted, as Weft words its errors otherwise."""

    def __exit__(self, kind, error, trace):
        wanted, self.expected_regex = self.expected_regex, None
        passed = super().__exit__(kind, error, trace)
        if passed and wanted is not None and not wanted.search(str(error)):
            noted_texts.append(f"{wanted.pattern} != {error}")
        return passed


class OtherWarning(unittest.case._AssertWarnsContext):
    """assertWarnsRegex that needs the class of the warning."""

    def __exit__(self, kind, error, trace):
        wanted, self.expected_regex = self.expected_regex, None
        super().__exit__(kind, error, trace)
        if kind is None and wanted is not None and not wanted.search(str(self.warning)):
            noted_texts.append(f"{wanted.pattern} != {self.warning}")


def note_other_texts():
    unittest.case._AssertRaisesContext = OtherError
    unittest.case._AssertWarnsContext = OtherWarning


def finish_loading():
    import weft.torch

    global loading
    loading = False
    vars(weft.torch).pop("ops", None)
