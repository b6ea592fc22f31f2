"""Tensors in files: safetensors, .npy, .npz and .pt."""

import json
import os
import shutil
import tempfile

from weft import _core
from weft.io import load_file, save_file, save_stream  # noqa: F401

# Key of a safetensors file's metadata for the structure of the saved object, as JSON. A tensor is {"tensor": its name},
# a dict {"dict": [[key, value], ...]}, a list or tuple {"list": [...]} or {"tuple": [...]}; numbers, strings, True,
# False and None are written directly.
_TREE = "weft.tree"


def _described(obj, path, tensors):
    if obj is None or isinstance(obj, (bool, int, float, str)):
        return obj
    if isinstance(obj, _core.Tensor):
        name = path
        while name in tensors:  # {"a.b": …, "a": {"b": …}}
            name += "'"
        tensors[name] = obj
        return {"tensor": name}
    if isinstance(obj, dict):
        for key in obj:
            if not (key is None or isinstance(key, (bool, int, float, str))):
                raise TypeError(f"save(): key at '{path}': expected a text, a number or None, got {type(key).__name__}")
        return {"dict": [[key, _described(value, f"{path}.{key}" if path else str(key), tensors)]
                         for key, value in obj.items()]}
    if isinstance(obj, (list, tuple)):
        kind = "list" if isinstance(obj, list) else "tuple"
        return {kind: [_described(value, f"{path}.{i}" if path else str(i), tensors) for i, value in enumerate(obj)]}
    raise TypeError(f"save(): '{path}' is a {type(obj).__name__}: it takes tensors, numbers, texts, None, and dicts, "
                    "lists and tuples of those")


def _rebuilt(tree, tensors):
    if not isinstance(tree, dict):
        return tree
    (kind, content), = tree.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {key: _rebuilt(value, tensors) for key, value in content}
    values = [_rebuilt(value, tensors) for value in content]
    return tuple(values) if kind == "tuple" else values


def save(obj, f):
    """Writes tensors, numbers, strings and None, and dicts, lists and tuples of them, such as a training state, as
    safetensors. `f` is a file name, or a file open for binary writing.

    A dict of tensors, such as a state_dict, becomes a plain file for any safetensors reader. For any other object the
    metadata describe its structure. Tensors that share memory are written once.
    """
    tensors, metadata = {}, {}
    if isinstance(obj, dict) and all(isinstance(k, str) and isinstance(v, _core.Tensor) for k, v in obj.items()):
        tensors = obj
    else:
        metadata = {_TREE: json.dumps(_described(obj, "", tensors))}
    if hasattr(f, "write"):
        save_stream(f, tensors, metadata, tie="alias")
    else:
        save_file(tensors, f, metadata, tie="alias")


def load(f, map_location="cpu", *, weights_only=True, mmap=True):
    """Reads a file of save, or of PyTorch's torch.save (load_pt). `f` is a file name, or a file open for binary
    reading. No code in the file is run, so `weights_only` can only be True. mmap: see load_file."""
    if not weights_only:
        raise ValueError("load(): no code of a file is run: weights_only can only be True")
    if hasattr(f, "read"):
        with tempfile.NamedTemporaryFile() as copy:
            shutil.copyfileobj(f, copy)
            copy.flush()
            return load(copy.name, map_location, mmap=mmap)
    with open(f, "rb") as file:
        is_zip = file.read(2) == b"PK"
    if is_zip:
        return load_pt(f, map_location)
    tensors = load_file(f, map_location, mmap=mmap)
    tree = _core._metadata(os.fspath(f)).get(_TREE)
    if tree is None:
        return tensors
    try:
        return _rebuilt(json.loads(tree), tensors)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"load(): the metadata of {os.fspath(f)} do not describe its tensors") from error


def save_npy(tensor, filename):
    """Writes one tensor in the format of numpy.save."""
    _core._save_npy(tensor, os.fspath(filename))


def load_npy(filename, device="cpu"):
    """Reads one array in the format of numpy.save."""
    return _core._load_npy(os.fspath(filename), device)


def save_npz(tensors, filename, compressed=False):
    """Writes named tensors in the format of numpy.savez or numpy.savez_compressed."""
    _core._save_npz(dict(tensors), os.fspath(filename), compressed)


def load_npz(filename, device="cpu"):
    """Every array of an .npz file, by name."""
    return _core._load_npz(os.fspath(filename), device)


def load_pt(filename, device="cpu"):
    """Reads a file of PyTorch's torch.save: tensors, and dictionaries, lists, tuples, numbers and strings with them.

    No code in the file is run: any other object raises ValueError. Tensors that shared memory share it again. The file
    must be of PyTorch 1.6 or later. An OrderedDict becomes a dict, a torch.Size a tuple, a torch.device its name."""
    return _core._load_pt(os.fspath(filename), device)
