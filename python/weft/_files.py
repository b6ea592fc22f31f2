"""Tensors in files: safetensors, .npy, .npz and .pt."""

import os

from weft import _core
from weft.io import load_file, save_file  # noqa: F401


def save(obj, f):
    """Writes a dictionary of tensors, such as a state_dict, as safetensors."""
    if not isinstance(obj, dict):
        raise NotImplementedError("save() takes a dictionary of tensors")
    save_file(obj, f)


def load(f, map_location="cpu"):
    """What save wrote."""
    return load_file(f, map_location)


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
