"""Tensors in files: safetensors, .npy, .npz and .pt."""

import json
import os
import shutil
import tempfile

from weft import _core
from weft.io import load_file, save_file, save_stream  # noqa: F401

# The entry of a safetensors file's metadata that holds the shape of what was saved, as JSON: a tensor is
# {"tensor": its name}, a dict {"dict": [[key, value], ...]}, a list and a tuple {"list": [...]} and {"tuple": [...]}, and
# numbers, texts, True, False and None are themselves.
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
                raise TypeError(f"save(): a key at '{path}' is a {type(key).__name__}, not a text, a number or None")
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
    """Writes tensors, numbers, texts and None, and dicts, lists and tuples of those, such as a training's state, as
    safetensors, into the file of that name or one that is open for binary writing.

    A dict of tensors, such as a state_dict, is a plain file that any reader of safetensors takes; of anything else the
    file's metadata keep the shape. Tensors that share memory are written once.
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
    """What save wrote, or PyTorch's torch.save (load_pt), from the file of that name or one that is open for binary
    reading. No code of the file is run, so `weights_only` can only be True. mmap: as load_file."""
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
    """Writes one tensor as numpy.save does."""
    _core._save_npy(tensor, os.fspath(filename))


def load_npy(filename, device="cpu"):
    """Reads one array as numpy.load does."""
    return _core._load_npy(os.fspath(filename), device)


def save_npz(tensors, filename, compressed=False):
    """Writes named tensors as numpy.savez does, or as numpy.savez_compressed."""
    _core._save_npz(dict(tensors), os.fspath(filename), compressed)


def load_npz(filename, device="cpu"):
    """Every array of an .npz file, by name."""
    return _core._load_npz(os.fspath(filename), device)


def load_pt(filename, device="cpu"):
    """What PyTorch's torch.save wrote: tensors, and dictionaries, lists, tuples, numbers and texts with them.

    No code of the file is run: anything else in it is a ValueError. Tensors that shared memory share it again. The file
    must be of PyTorch 1.6 or later; an OrderedDict becomes a dict, a torch.Size a tuple, a torch.device its name."""
    return _core._load_pt(os.fspath(filename), device)
