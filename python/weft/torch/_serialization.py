"""torch.save and torch.load: any object that pickle takes, in PyTorch's zip format with tensors beside the pickle."""

import collections
import contextlib
import io
import pathlib
import pickle
import sys
import zipfile

import weft
from weft import _core
from weft.nn.module import Parameter
from weft.optim._states import FlatState

__all__ = ["DEFAULT_PROTOCOL", "MAP_LOCATION", "SourceChangeWarning", "check_module_version_greater_or_equal", "add_safe_globals", "clear_safe_globals", "get_safe_globals", "load",
           "safe_globals", "save"]

DEFAULT_PROTOCOL, MAP_LOCATION = 2, object
_STORAGES = {"FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
             "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
             "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
             "ComplexDoubleStorage": "complex128"}
_KINDS = {dtype: name for name, dtype in _STORAGES.items()}


class SourceChangeWarning(Warning):
    """The source of a pickled module has changed; Weft's files hold no sources."""


def check_module_version_greater_or_equal(module, req_version_tuple, error_if_malformed=True):
    """Whether a module's __version__ is at least the given one."""
    try:
        version = tuple(kind(part) for kind, part in zip(map(type, req_version_tuple), module.__version__.split(".")))
    except Exception as error:
        if error_if_malformed:
            raise RuntimeError(f"'{module.__name__}' module version string is malformed '{module.__version__}' and cannot be "
                               f"compared with tuple {req_version_tuple}") from error
        import warnings

        warnings.warn(f"the version {module.__version__!r} of '{module.__name__}' is taken as new enough")
        return True
    return version >= req_version_tuple


class _Global:
    """A name in PyTorch's modules, written into the pickle as it is."""

    def __init__(self, module, name):
        self.text = f"c{module}\n{name}\n".encode()

    def __call__(self, *_):
        raise TypeError("a name in a pickle is not called here")


_REBUILD_TENSOR = _Global("torch._utils", "_rebuild_tensor_v2")
_REBUILD_PARAMETER = _Global("torch._utils", "_rebuild_parameter")


class _Storage:
    """The memory from which the tensors with one base address are cut."""

    def __init__(self, key):
        self.key, self.count, self.holder = key, 0, None

    def take(self, tensor):
        reach = [(size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())]
        self.count = max(self.count, tensor.storage_offset() + sum(reach) + 1 if tensor.numel() else 0)
        self.holder = tensor

    def data(self):
        flat = self.holder.as_strided((self.count,), (1,), 0) if self.count else self.holder.reshape(-1)[:0]
        flat = flat.contiguous()
        return bytes(memoryview(flat.view(weft.uint8))) if self.count else b""


class _Pickler(pickle._Pickler):  # type: ignore  # Python's own, with a `save` that can be extended
    def __init__(self, file, protocol, storages, copies):
        super().__init__(file, protocol)
        self.storages, self.copies, self.kept, self.used = storages, copies, [], {}

    def save(self, obj, save_persistent_id=True):
        if type(obj) is _Global:
            self.write(obj.text)
        elif isinstance(obj, _core.dtype):
            self.write(_Global("torch", obj.name).text)
        elif isinstance(obj, FlatState):
            super().save(self.keep(obj.as_pytorch()), save_persistent_id)
        elif type(obj) is weft.Size:
            self.save_reduce(_Global("torch", "Size"), (self.keep(tuple(obj)),), obj=self.keep(obj))
        elif isinstance(obj, _core.device):
            self.save_reduce(_Global("torch", "device"), (str(obj),), obj=self.keep(obj))
        else:
            super().save(obj, save_persistent_id)

    def persistent_id(self, obj):
        if type(obj) is not tuple or len(obj) != 2 or not isinstance(obj[0], _Storage):
            return None
        storage, dtype = obj
        return "storage", _Global("torch", _KINDS[dtype]), str(storage.key), "cpu", storage.count

    def reducer_override(self, obj):
        if type(obj) is Parameter:
            return _REBUILD_PARAMETER, (self.keep(obj.detach()), obj.requires_grad, collections.OrderedDict())
        if type(obj) is weft.Tensor and obj.dtype.name in _KINDS:
            return _REBUILD_TENSOR, self.parts_of(obj)
        return NotImplemented

    def keep(self, obj):
        """An object that must not be collected while its id is in the memo."""
        self.kept.append(obj)
        return obj

    def on_host(self, tensor):
        if tensor.device.type == "cpu":
            return tensor.detach()
        return self.copies.setdefault(tensor._impl(), tensor.detach().to("cpu"))

    def parts_of(self, tensor):
        flat = self.keep(self.on_host(tensor))
        address = flat.data_ptr() - flat.storage_offset() * flat.element_size() if flat.numel() else 0
        storage = self.storages.get((address, flat.dtype.name))
        if storage is None:
            storage = self.storages[address, flat.dtype.name] = _Storage(len(self.storages))
        storage.take(flat)
        self.used[storage.key] = storage
        return (self.keep((storage, flat.dtype.name)), flat.storage_offset() if address else 0, tuple(flat.shape),
                tuple(flat.stride()), tensor.requires_grad, collections.OrderedDict())


def save(obj, f, pickle_module=None, pickle_protocol=DEFAULT_PROTOCOL, _use_new_zipfile_serialization=True):
    """Writes an object that pickle takes. PyTorch reads the file where it has the classes."""
    text, storages, copies = io.BytesIO(), {}, {}
    first = _Pickler(io.BytesIO(), pickle_protocol, storages, copies)
    first.dump(obj)  # to learn how much of each storage is used
    pickler = _Pickler(text, pickle_protocol, storages, copies)
    pickler.dump(obj)
    stem = "archive" if hasattr(f, "write") else pathlib.Path(f).stem
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:
        for name, data in (("data.pkl", text.getvalue()), (".format_version", b"1"), ("byteorder", sys.byteorder.encode())):
            archive.writestr(f"{stem}/{name}", data)
        for storage in pickler.used.values():
            archive.writestr(f"{stem}/data/{storage.key}", storage.data())
        archive.writestr(f"{stem}/version", b"3\n")


# ---- loading ----

def _rebuild_tensor(storage, offset, size, stride, requires_grad=False, hooks=None, metadata=None):
    made = storage.as_strided(tuple(size), tuple(stride), offset)
    return made.requires_grad_(requires_grad) if requires_grad else made


def _rebuild_parameter(data, requires_grad, hooks):
    return Parameter(data, requires_grad)


_NAMES = {("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor, ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
          ("torch._utils", "_rebuild_parameter"): _rebuild_parameter, ("torch", "Size"): weft.Size, ("weft", "Size"): weft.Size,
          ("torch", "device"): _core.device, ("torch", "Tensor"): weft.Tensor,
          ("torch.nn.parameter", "Parameter"): Parameter, ("collections", "OrderedDict"): collections.OrderedDict,
          ("collections", "Counter"): collections.Counter, ("collections", "defaultdict"): collections.defaultdict,
          ("builtins", "set"): set, ("builtins", "frozenset"): frozenset, ("builtins", "bytearray"): bytearray,
          ("builtins", "complex"): complex, ("builtins", "slice"): slice, ("builtins", "list"): list,
          ("builtins", "dict"): dict, ("builtins", "int"): int, ("builtins", "float"): float, ("builtins", "str"): str,
          ("weft", "device"): _core.device}
_safe: dict = {}


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, archive, stem, place, weights_only):
        super().__init__(file)
        self.archive, self.stem, self.place, self.weights_only, self.loaded = archive, stem, place, weights_only, {}

    def find_class(self, module, name):
        module = {"__builtin__": "builtins"}.get(module, module)
        if (module, name) in _NAMES:
            return _NAMES[module, name]
        if module in ("torch", "weft") and isinstance(getattr(_core, name, None), _core.dtype):
            return getattr(_core, name)
        if module in ("torch", "torch.storage") and name in _STORAGES:
            return _STORAGES[name]
        if (module, name) in _safe:
            return _safe[module, name]
        if self.weights_only:
            raise pickle.UnpicklingError(
                f"load(): the file names {module}.{name}, and weights_only=True loads tensors and plain values alone\n  "
                f"pass weights_only=False where you trust the file, or torch.serialization.add_safe_globals([{name}])")
        if module == "torch" or module.startswith("torch."):
            from weft.torch._door import resolved

            return resolved(module, name)
        return super().find_class(module, name)

    def persistent_load(self, identity):
        kind, dtype, key, location, count = identity
        if kind != "storage":
            raise pickle.UnpicklingError(f"load(): there is no object of kind {kind!r}")
        if key not in self.loaded:
            data = self.archive.read(f"{self.stem}/data/{key}")
            flat = weft.empty(len(data), dtype=weft.uint8)
            if data:
                memoryview(flat)[:] = data
            flat = flat.view(getattr(_core, dtype)) if data else weft.empty(0, dtype=getattr(_core, dtype))
            self.loaded[key] = self.place(flat, location)
        return self.loaded[key]


def _placement(map_location):
    """The function of a flat tensor and its saved location that puts it on a device."""
    if map_location is None or isinstance(map_location, dict):
        wanted = map_location or {}
        return lambda flat, location: flat.to(wanted[location]) if location in wanted else flat
    if callable(map_location):
        return lambda flat, location: map_location(flat, location)
    return lambda flat, location: flat.to(map_location)


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """Reads a file of save or of PyTorch's torch.save. With weights_only, which is the default, classes and functions that
    the file names raise UnpicklingError; else pickle imports and calls them, so that only trusted files may be read."""
    if pickle_module is not None and weights_only is None:
        weights_only = False
    weights_only = True if weights_only is None else bool(weights_only)
    if not zipfile.is_zipfile(f):
        if hasattr(f, "seek"):
            f.seek(0)
        return weft.load(f, map_location if isinstance(map_location, (str, _core.device)) else "cpu")
    if hasattr(f, "seek"):
        f.seek(0)
    with zipfile.ZipFile(f) as archive:
        found = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if not found:
            raise RuntimeError("load(): the file is a zip archive, but not one of torch.save")
        stem = found[0].removesuffix("/data.pkl")
        text = io.BytesIO(archive.read(found[0]))
        return _Unpickler(text, archive, stem, _placement(map_location), weights_only).load()


def _named(item):
    obj, name = item if isinstance(item, tuple) else (item, None)
    module, _, own = name.rpartition(".") if name else (obj.__module__, "", obj.__qualname__)
    return (module, own), obj


def add_safe_globals(safe_globals):
    """Lets load with weights_only import these classes and functions."""
    _safe.update(_named(item) for item in safe_globals)


def get_safe_globals():
    return list(_safe.values())


def clear_safe_globals():
    _safe.clear()


@contextlib.contextmanager
def safe_globals(safe_globals):
    """add_safe_globals in a `with` block."""
    before = dict(_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe.clear()
        _safe.update(before)
