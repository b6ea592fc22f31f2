"""Files of tables, lines and images."""

import json
import os

import weft
from weft import _core
from weft.data._datasets import IterableDataset
from weft.data._workers import get_worker_info

__all__ = ["CsvChunks", "Table", "decode_image", "encode_jpeg", "encode_png", "image_folder", "load_cifar10", "load_cifar100",
           "load_image", "load_mnist", "read_cifar10", "read_cifar100", "read_csv", "read_json_lines",
           "read_json_table", "read_lines", "save_jpeg", "save_png", "write_csv"]


class Table:
    """Columns by name: table["a"] is a tensor, or a list of strings. Columns of categories are integer codes;
    table.categories["a"] has their names."""

    def __init__(self, columns=(), categories=None):
        """columns: a dictionary, or pairs, of names with tensors or lists of strings of equal length."""
        self._columns = dict(columns)
        self.categories = dict(categories or {})
        if len({len(values) for values in self._columns.values()}) > 1:
            raise ValueError("Table(): columns of unequal lengths")

    @classmethod
    def _of(cls, columns):
        return cls({name: values for name, values, _ in columns},
                   {name: categories for name, _, categories in columns if categories})

    def __len__(self):
        return len(next(iter(self._columns.values()), ()))

    def __getitem__(self, name):
        """Raises KeyError if there is no such column."""
        return self._columns[name]

    def __contains__(self, name):
        return name in self._columns

    def keys(self):
        return list(self._columns)

    def tensor(self, names, dtype=None):
        """Numeric columns side by side, [rows, len(names)]; float32 by default."""
        for name in names:
            if not isinstance(self[name], weft.Tensor):
                raise TypeError(f"tensor(): column {name!r} holds texts")
        return weft.stack([self[name].to(dtype or weft.float32) for name in names], 1)

    def __repr__(self):
        return f"Table({len(self)} rows: {', '.join(self._columns)})"


_MISSING = ("", "NA", "N/A", "NaN", "nan", "null")


def _type(dtype):
    names = {float: "float32", int: "int64", bool: "bool", str: "str", None: "infer"}
    if isinstance(dtype, str):
        return dtype
    return names[dtype] if dtype in names else str(dtype).removeprefix("weft.")


def read_csv(source, *, delimiter=",", header=True, comment="", names=(), dtype=None, missing=_MISSING,
             floating="float32", skip_lines=0, max_rows=None, text=False):
    """A Table from a CSV file; with text=True, source is the text itself.

    dtype: a type for all columns, or a dictionary of types by name: weft.float32, weft.float64, weft.int64, bool, str,
    "category" (codes) or "skip". Other columns are inferred: bool, int64, `floating`, strings. A field listed in
    `missing` is NaN in a column of floats and -1 in one of codes.

    Raises ValueError, with line and column, for rows of unequal length, bad quotes and fields that do not match their
    type.
    """
    options = _csv_options(delimiter, header, comment, names, dtype, missing, floating, skip_lines, max_rows)
    return Table._of(_core._read_csv(source if text else os.fspath(source), not text, options))


def _csv_options(delimiter=",", header=True, comment="", names=(), dtype=None, missing=_MISSING, floating="float32",
                 skip_lines=0, max_rows=None):
    types = [(name, _type(t)) for name, t in dtype.items()] if isinstance(dtype, dict) else []
    return _core._csv_options(delimiter, header, comment, list(names), types,
                              "infer" if isinstance(dtype, dict) else _type(dtype), list(missing),
                              _type(floating) == "float64", skip_lines, 2**63 - 1 if max_rows is None else max_rows)


class CsvChunks(IterableDataset):
    """The table of read_csv in chunks of up to `rows` rows, for a file that may be larger than memory.

    for table in weft.data.CsvChunks("large.csv", 100000, dtype={"kind": "category"}):
        ...

    The chunks concatenated are that table, with the same types; columns without a type are read once before the first
    chunk. Takes the options of read_csv except text, and raises its errors. `state_dict` is the position after the last
    returned chunk; load_state_dict seeks there. Worker processes of a loader share the chunks.
    """

    def __init__(self, path, rows, **options):
        self._arguments = os.fspath(path), int(rows), _csv_options(**options)
        self._parts, self._restored = self._open(), False

    def _open(self):
        return _core._CsvParts(*self._arguments)

    def __iter__(self):
        """From the start, or once from the position of load_state_dict."""
        if not self._restored:
            self._parts = self._open()
        self._restored = False
        info = get_worker_info()
        every, own = (info.num_workers, info.id) if info else (1, 0)
        return (Table._of(part) for number, part in enumerate(iter(self._parts.next, None)) if number % every == own)

    def state_dict(self):
        return json.loads(self._parts.state())

    def load_state_dict(self, state_dict):
        parts = self._open()
        parts.restore(json.dumps(state_dict))
        self._parts, self._restored = parts, True


def write_csv(table, path, delimiter=","):
    """Writes a Table, or a dictionary of columns. Replaces the file as a whole."""
    categories = getattr(table, "categories", {})
    _core._write_csv([(name, table[name], categories.get(name, [])) for name in table.keys()], os.fspath(path),
                     delimiter)


def read_lines(path):
    """The lines of a text file without line endings."""
    return _core._read_lines(os.fspath(path))


def read_json_lines(path):
    """An iterator over the values of a file with one JSON value per line."""
    return _core._JsonLines(os.fspath(path))


def read_json_table(path, fields=()):
    """Selected fields of all lines as a Table; by default the fields of the first line."""
    return Table._of(_core._read_json_table(os.fspath(path), list(fields)))


def load_image(path, channels=0, keep_16_bits=False, max_pixels=1 << 27, *, apply_exif_orientation=False):
    """A PNG or JPEG as uint8 [channels, height, width]; a 16-bit PNG as uint16 with keep_16_bits.

    channels: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA, 0 those of the image. Images with more than max_pixels pixels are
    refused before memory is allocated. apply_exif_orientation rotates and flips the image by its Exif orientation, as
    PIL.ImageOps.exif_transpose does.
    """
    return _core._load_image(os.fspath(path), channels, keep_16_bits, apply_exif_orientation, max_pixels)


def decode_image(data, channels=0, keep_16_bits=False, max_pixels=1 << 27, *, apply_exif_orientation=False):
    """load_image for bytes."""
    return _core._decode_image(bytes(data), channels, keep_16_bits, apply_exif_orientation, max_pixels)


def encode_png(image):
    """An image, uint8 or uint16 [channels, height, width], as the bytes of a PNG."""
    return _core._encode_png(image)


def encode_jpeg(image, quality=75):
    """An image, uint8 with 1 or 3 channels, as the bytes of a JPEG."""
    return _core._encode_jpeg(image, quality)


def save_png(image, path):
    """Writes an image, uint8 or uint16 [channels, height, width]."""
    _core._save_png(image, os.fspath(path))


def save_jpeg(image, path, quality=75):
    """Writes an image, uint8 with 1 or 3 channels."""
    _core._save_jpeg(image, os.fspath(path), quality)


def image_folder(path, extensions=(".png", ".jpg", ".jpeg")):
    """The images below each subfolder of path, one class each: (files, labels, classes)."""
    return _core._image_folder(os.fspath(path), list(extensions))


def load_mnist(folder, train=True):
    """(images uint8 [n, 1, height, width], labels int64 [n]) from a folder with MNIST's IDX files, unzipped."""
    return _core._load_mnist(os.fspath(folder), train)


def load_cifar10(folder, train=True):
    """(images uint8 [n, 3, 32, 32], labels int64 [n]) from a folder with CIFAR-10's binary files."""
    return _core._load_cifar10(os.fspath(folder), train)


def load_cifar100(folder, train=True):
    """(images, labels, coarse labels) from a folder with CIFAR-100's binary files."""
    return _core._load_cifar100(os.fspath(folder), train)


def read_cifar10(files):
    """load_cifar10 for given files."""
    return _core._read_cifar10([os.fspath(file) for file in files])


def read_cifar100(files):
    """load_cifar100 for given files."""
    return _core._read_cifar100([os.fspath(file) for file in files])
