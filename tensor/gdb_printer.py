"""gdb pretty-printers for Weft: `source tensor/gdb_printer.py`, then `print x` for a weft::Tensor, Dims, Device or
Location. A CPU tensor shows its dtype, shape and first elements; others their metadata."""
import struct

import gdb
import gdb.printing

# name, bytes, struct format (None: shown as raw bits)
DTYPES = [("bool", 1, "?"), ("uint8", 1, "B"), ("int8", 1, "b"), ("uint16", 2, "H"), ("int16", 2, "h"),
          ("uint32", 4, "I"), ("int32", 4, "i"), ("uint64", 8, "Q"), ("int64", 8, "q"), ("float16", 2, "e"),
          ("bfloat16", 2, None), ("float32", 4, "f"), ("float64", 8, "d"), ("float8_e4m3fn", 1, None),
          ("float8_e5m2", 1, None)]
DEVICES = ["cpu", "cuda", "hpu", "meta"]
SHOWN = 8


def element(address, dtype):
    name, size, form = DTYPES[dtype]
    raw = bytes(gdb.selected_inferior().read_memory(address, size))
    if name == "bfloat16":
        return "%g" % struct.unpack("<f", b"\0\0" + raw)
    if form is None:
        return "0x%02x" % raw[0]
    value = struct.unpack("<" + form, raw)[0]
    return "%g" % value if isinstance(value, float) else str(value)


def offsets(sizes, strides):
    """Byte offsets of the first elements in row-major order."""
    index = [0] * len(sizes)
    for _ in range(SHOWN):
        yield sum(i * s for i, s in zip(index, strides))
        for d in reversed(range(len(sizes))):
            index[d] += 1
            if index[d] < sizes[d]:
                break
            index[d] = 0
        else:
            return


class TensorPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        impl = self.value["impl_"]
        if int(impl) == 0:
            return "Tensor(undefined)"
        view = impl.dereference()["view"]
        layout = view["layout"]
        rank, dtype = int(layout["rank"]), int(layout["dtype"])
        sizes = [int(layout["sizes"][i]) for i in range(rank)]
        strides = [int(layout["strides"][i]) for i in range(rank)]
        kind = int(layout["device_type"])
        device = DEVICES[kind] if kind in (0, 3) else "%s:%d" % (DEVICES[kind], int(layout["device_index"]))
        text = "Tensor(%s %s on %s" % (DTYPES[dtype][0], sizes, device)
        if kind == 0 and int(layout["numel"]) > 0:
            start = int(view["data"])
            shown = [element(start + o, dtype) for o in offsets(sizes, strides)]
            text += ": " + ", ".join(shown) + (", …" if int(layout["numel"]) > SHOWN else "")
        if bool(impl.dereference()["requires_grad"]):
            text += ", requires_grad"
        return text + ")"


class DimsPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return str([int(self.value["values_"][i]) for i in range(int(self.value["size_"]))])


class DevicePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        kind = int(self.value["type"])
        return DEVICES[kind] if kind in (0, 3) else "%s:%d" % (DEVICES[kind], int(self.value["index"]))


def build():
    printers = gdb.printing.RegexpCollectionPrettyPrinter("weft")
    printers.add_printer("Tensor", "^weft::Tensor$", TensorPrinter)
    printers.add_printer("Dims", "^weft::Dims$", DimsPrinter)
    printers.add_printer("Device", "^weft::Device$", DevicePrinter)
    return printers


gdb.printing.register_pretty_printer(gdb.current_objfile(), build(), replace=True)
