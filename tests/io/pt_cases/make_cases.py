"""Files of torch.save and their contents: python make_cases.py FOLDER, with a Python that has PyTorch.

Writes the .pt files of the tests and expected.json, which describes each file as tests/io/pt_test.cpp does what Weft
has read. Made with PyTorch 2.15; the tests read what is kept in the repository and need no PyTorch.
"""

import collections
import io
import json
import pathlib
import sys
import zipfile

import torch

folder = pathlib.Path(sys.argv[1])


def describe_tensor(t, storages):
    key = t.untyped_storage().data_ptr()
    if t.numel():
        storages.setdefault(key, len(storages))
    dtype = str(t.dtype).removeprefix("torch.")
    wide = t.detach()
    if t.dtype.is_floating_point:
        wide = wide.to(torch.float64)
    return {
        "kind": "tensor",
        "dtype": dtype,
        "shape": list(t.shape),
        "strides": [s if n > 1 else 0 for n, s in zip(t.shape, t.stride())] if t.numel() else [],
        "requires_grad": t.requires_grad,
        "storage": storages[key] if t.numel() else -1,
        "values": [int(v) if isinstance(v, bool) else v for v in wide.reshape(-1).tolist()],
    }


def describe(value, storages):
    if isinstance(value, torch.Tensor):
        return describe_tensor(value, storages)
    if isinstance(value, dict):
        return {"kind": "dict", "entries": [[describe(k, storages), describe(v, storages)] for k, v in value.items()]}
    if isinstance(value, (list, tuple, set)):
        name = "list" if isinstance(value, list) else "set" if isinstance(value, set) else "tuple"
        return {"kind": name, "items": [describe(v, storages) for v in value]}
    if value is None:
        return {"kind": "none"}
    if isinstance(value, bytes):
        return {"kind": "bytes", "value": list(value)}
    if isinstance(value, torch.dtype):
        return {"kind": "dtype", "value": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"kind": "device", "value": str(value)}
    names = {bool: "boolean", int: "integer", float: "floating", str: "string"}
    return {"kind": names[type(value)], "value": value}


def dtypes():
    out = {}
    for name in ("float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 "
                 "float8_e4m3fn float8_e5m2").split():
        dtype = getattr(torch, name)
        values = [0, 1, 100] if name.startswith("u") else [-2, 0, 3]
        out[name] = torch.tensor(values).to(dtype)
    out["bool"] = torch.tensor([True, False, True])
    out["int64"][0], out["uint64"] = -(2**63), torch.tensor([2**64 - 1, 5], dtype=torch.uint64)
    return out


def shared():
    weight = torch.arange(6.0).view(2, 3)
    tied = torch.nn.Parameter(torch.tensor([1.5, -2.5]))
    return {
        "weight": weight, "transposed": weight.t(), "row": weight[1], "column": weight[:, 2], "one": weight[1, 1],
        "expanded": weight[0].expand(2, 3), "again": weight, "alias": weight.view(6), "tail": torch.arange(4)[2:],
        "encoder": tied, "decoder": tied, "wide": torch.zeros(1).expand(2, 2),
        "bytes": torch.arange(4).to(torch.uint16), "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
    }


def tree():
    twice = [1, 2]
    return {
        "epoch": 3, "big": 2**40, "small": -5, "least": -(2**63), "most": 2**63 - 1, "huge": 70000, "rate": 1e-3,
        "name": "wörld\n", "raw": b"\x00\xff\x80", "nothing": None, "yes": True, "no": False, "empty": [(), {}, b"", ""],
        "tuples": ((1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), "twice": [twice, twice], 7: "seven", "set": {5},
        "shape": torch.Size([2, 3]), "dtype": torch.bfloat16, "device": torch.device("cuda:1"),
        "nested": {"a": [{"b": (torch.tensor(2.5), "x")}]},
    }


def training():
    torch.manual_seed(1)
    net = torch.nn.Sequential(collections.OrderedDict(fc=torch.nn.Linear(2, 3), norm=torch.nn.BatchNorm1d(3)))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    net(torch.randn(4, 2)).square().sum().backward()
    optimizer.step()
    return {"epoch": 2, "model": net.state_dict(), "optimizer": optimizer.state_dict()}


def write(name, value, expected, **options):
    torch.save(value, folder / name, **options)
    expected[name] = describe(value, {})


def big_endian(expected):
    """The file of a big-endian machine: swapped bytes, and `byteorder` big."""
    value = {"f": torch.tensor([1.5, -2.0]), "i": torch.tensor([258], dtype=torch.int64)}
    widths = {"data/0": 4, "data/1": 8}
    memory = io.BytesIO()
    torch.save(value, memory)
    with zipfile.ZipFile(memory) as old, zipfile.ZipFile(folder / "big_endian.pt", "w") as new:
        for info in old.infolist():
            data, name = old.read(info), info.filename.split("/", 1)[1]
            if name in widths:
                data = b"".join(data[i:i + widths[name]][::-1] for i in range(0, len(data), widths[name]))
            new.writestr(zipfile.ZipInfo(info.filename), b"big" if name == "byteorder" else data)
    expected["big_endian.pt"] = describe(value, {})


def compressed(expected):
    value = {"x": torch.zeros(400)}
    memory = io.BytesIO()
    torch.save(value, memory)
    with zipfile.ZipFile(memory) as old, zipfile.ZipFile(folder / "deflated.pt", "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            entry = zipfile.ZipInfo(info.filename)
            entry.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(entry, old.read(info))
    expected["deflated.pt"] = {"kind": "dict", "entries": [[{"kind": "string", "value": "x"}, {
        "kind": "tensor", "dtype": "float32", "shape": [400], "strides": [1], "requires_grad": False, "storage": 0,
        "values": "zeros"}]]}


def main():
    expected = {}
    write("tensor.pt", torch.arange(6.0).view(2, 3), expected)
    write("dtypes.pt", dtypes(), expected)
    write("shapes.pt", {"scalar": torch.tensor(7), "none": torch.zeros(0), "hole": torch.zeros(2, 0, 3),
                        "ones": torch.ones(1, 1, 2, 1)}, expected)
    write("shared.pt", shared(), expected)
    write("tree.pt", tree(), expected)
    write("training.pt", training(), expected)
    write("protocol3.pt", {"raw": b"\x00\xff", "x": torch.ones(1)}, expected, pickle_protocol=3)
    location = torch.serialization.location_tag
    torch.serialization.location_tag = lambda storage: "cuda:0"
    write("cuda.pt", {"x": torch.tensor([4.0, 5.0])}, expected)
    torch.serialization.location_tag = location
    big_endian(expected)
    compressed(expected)
    (folder / "expected.json").write_text(json.dumps(expected, separators=(",", ":")).replace('"],["', '"],\n["') + "\n")

    torch.save({"a": {"z": torch.zeros(2, dtype=torch.complex64)}}, folder / "complex.pt")
    torch.save({"half": torch.zeros(2, dtype=torch.complex32)}, folder / "complex32.pt")
    torch.save([torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)], folder / "quantised.pt")
    torch.save(torch.eye(2).to_sparse(), folder / "sparse.pt")
    torch.save(torch.nn.Linear(1, 1), folder / "module.pt")
    torch.save({"x": torch.ones(2)}, folder / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(torch.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1), folder / "rank9.pt")
    torch.save({"z": torch.ones(2, dtype=torch.complex64).conj()[:1].imag}, folder / "negated.pt")


main()
