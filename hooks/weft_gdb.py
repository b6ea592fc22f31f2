"""gdb support for Weft: printers for tensors, views, nodes and hooks; commands for the graph and for stops of BreakOn.

  ./weft gdb PROGRAM [ARGUMENTS]       or  gdb -x weft_gdb.py --args PROGRAM   (installed in share/weft)
  (gdb) print x                        dtype, shape, device and first elements of a tensor, Dims, Device, Location, …
  (gdb) weft graph x [DEPTH]           the graph of x down to the leaves: ops with their lines and hooks
  (gdb) weft stop                      the op at which BreakOn stopped, with its operands
  (gdb) weft where                     selects the frame that called the op

They only read memory, so they also work on core files. They need the program's debug information, not the library's.
"""
import struct

import gdb
import gdb.printing

# name, bytes, struct format (None: shown as raw bits)
DTYPES = [("bool", 1, "?"), ("uint8", 1, "B"), ("int8", 1, "b"), ("uint16", 2, "H"), ("int16", 2, "h"),
          ("uint32", 4, "I"), ("int32", 4, "i"), ("uint64", 8, "Q"), ("int64", 8, "q"), ("float16", 2, "e"),
          ("bfloat16", 2, None), ("float32", 4, "f"), ("float64", 8, "d"), ("float8_e4m3fn", 1, None),
          ("float8_e5m2", 1, None), ("float8_e4m3fnuz", 1, None), ("float8_e5m2fnuz", 1, None),
          ("float8_e8m0fnu", 1, None), ("complex64", 8, None), ("complex128", 16, None)]
DEVICES = ["cpu", "cuda", "hpu", "meta"]
PHASES = ["gradient", "accumulated", "node_before", "node_after", "module_before", "module_after"]
SHOWN = 8


# ---- memory -----------------------------------------------------------------------------------------------------

def memory(address, size):
    return bytes(gdb.selected_inferior().read_memory(address, size))


def text_at(address):
    return gdb.Value(int(address)).cast(gdb.lookup_type("char").pointer()).string() if int(address) else ""


def element(address, dtype):
    name, size, form = DTYPES[dtype]
    raw = memory(address, size)
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


# ---- texts ------------------------------------------------------------------------------------------------------

def device_text(kind, index):
    name = DEVICES[kind] if kind < len(DEVICES) else "plugin%d" % (kind - len(DEVICES))
    return name if name in ("cpu", "meta") else "%s:%d" % (name, index)


def view_text(view):
    """'float32 [3] on cpu: 0, 1, 2'"""
    layout = view["layout"]
    rank, dtype = int(layout["rank"]), int(layout["dtype"])
    if rank > 8 or dtype >= len(DTYPES):
        return "no view"
    sizes = [int(layout["sizes"][i]) for i in range(rank)]
    strides = [int(layout["strides"][i]) for i in range(rank)]
    kind, on_host = int(layout["device_type"]), int(layout["host_scalar"]) != 0
    text = "%s %s on %s" % (DTYPES[dtype][0], sizes, device_text(kind, int(layout["device_index"])))
    if (kind == 0 or on_host) and int(layout["numel"]) > 0 and int(view["data"]) != 0:
        try:
            shown = [element(int(view["data"]) + o, dtype) for o in offsets(sizes, strides)]
            text += ": " + ", ".join(shown) + (", …" if int(layout["numel"]) > SHOWN else "")
        except gdb.MemoryError:
            text += ": memory that is not there"
    return text


def tensor_text(value):
    impl = value["impl_"]
    if int(impl) == 0:
        return "Tensor(undefined)"
    wants = ", requires_grad" if bool(impl.dereference()["requires_grad"]) else ""
    return "Tensor(%s%s)" % (view_text(impl.dereference()["view"]), wants)


def place(location):
    """(file, line) of a weft::Location; ('', 0) if unknown."""
    record = int(location["record_"]) & 0xFFFFFFFFFFFFFFFF
    if record == 0:
        return "", 0
    if record >> 63:
        return text_at(record & ((1 << 47) - 1)), record >> 47 & 0xFFFF
    where, offset = (record & ~1, 8) if record & 1 else (record, 16)
    file, = struct.unpack("<Q", memory(where, 8))
    line, = struct.unpack("<I", memory(where + offset, 4))
    return text_at(file), line


def place_text(location):
    file, line = place(location)
    return "%s:%d" % (file, line) if line else "an unknown place"


def hooks_text(node):
    """', hooks: gradient, node_before', for all phases that had a hook at some time."""
    hooks = node["hooks"]["value_"]
    if int(hooks) == 0:
        return ""
    phases = int(hooks.dereference()["phases"]["value_"])
    named = ", ".join(name for i, name in enumerate(PHASES) if phases >> i & 1)
    retains = int(hooks.dereference()["retains"]["value_"]) != 0
    return (", hooks: " + named if named else "") + (", retains its gradient" if retains else "")


def node_text(node):
    state = " (freed)" if int(node["saved_state"]["value_"]) & 2 else ""
    return "%s at %s%s%s" % (text_at(node["op"]), place_text(node["where"]), state, hooks_text(node))


def graph_lines(node, depth, indent="", seen=None):
    """Yields a line for each op below `node`, a pointer, down to the leaves."""
    seen = {} if seen is None else seen
    address = int(node)
    if address in seen:
        yield "%s%s, as above" % (indent, seen[address])
        return
    node = node.dereference()
    seen[address] = text_at(node["op"])
    if bool(node["accumulates"]):
        yield "%sa leaf%s" % (indent, hooks_text(node))
        return
    yield indent + node_text(node)
    for i in range(int(node["edge_count"])):
        child = node["edges"][i]["node_"]
        if int(child) == 0:
            continue
        if depth <= 1:
            yield indent + "  …"
            return
        yield from graph_lines(child, depth - 1, indent + "  ", seen)


# ---- printers ---------------------------------------------------------------------------------------------------

def printer(text):
    class Printer:
        def __init__(self, value):
            self.value = value

        def to_string(self):
            return text(self.value)
    return Printer


def build():
    printers = gdb.printing.RegexpCollectionPrettyPrinter("weft")
    for name, text in [
            ("Tensor", tensor_text),
            ("Dims", lambda v: str([int(v["values_"][i]) for i in range(int(v["size_"]))])),
            ("Device", lambda v: device_text(int(v["type"]), int(v["index"]))),
            ("View", lambda v: "View(%s)" % view_text(v)),
            ("Location", place_text),
            ("Node", lambda v: "Node(%s)" % node_text(v)),
            ("Edge", lambda v: "Edge(%s)" % ("none" if int(v["node_"]) == 0 else "output %d of %s" % (
                int(v["output_"]), node_text(v["node_"].dereference())))),
            ("HookHandle", lambda v: "HookHandle(%s)" % (
                "hook %d" % int(v["id_"]) if int(v["id_"]) else "none"))]:
        printers.add_printer(name, "^weft::%s$" % name, printer(text))
    return printers


# ---- commands ---------------------------------------------------------------------------------------------------

def last_stop():
    """Returns the BreakEvent of the current stop; raises GdbError if there is none."""
    try:
        address = int(gdb.parse_and_eval("(unsigned long) &'weft::detail::last_stop'"))
        event, = struct.unpack("<Q", memory(address, 8))
        if event != 0:
            return gdb.Value(event).cast(gdb.lookup_type("weft::BreakEvent").pointer()).dereference()
    except gdb.error as error:
        raise gdb.GdbError("nothing is known of a BreakOn in this program: %s" % error)
    raise gdb.GdbError("the program is not at a stop of BreakOn")


def each(span):
    """The elements of a std::span."""
    begin, count = span["_M_ptr"], int(span["_M_extent"]["_M_extent_value"])
    return [begin[i] for i in range(count)]


class Command(gdb.Command):
    """Commands for programs that use Weft: weft graph, weft stop, weft where."""

    def __init__(self):
        super().__init__("weft", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)


class Graph(gdb.Command):
    """weft graph [TENSOR [DEPTH]]: the graph of a tensor, down to DEPTH (6) ops, each with its line and the phases of its
hooks. Without a tensor, the graph of the node at which a BreakOn stopped."""

    def __init__(self):
        super().__init__("weft graph", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        expression, _, last = argument.strip().rpartition(" ")
        depth = int(last) if expression and last.isdigit() else 6
        expression = expression if expression and last.isdigit() else argument.strip()
        if expression:
            try:
                value = gdb.parse_and_eval(expression)
            except gdb.error as error:
                raise gdb.GdbError(str(error))
            if value.type.strip_typedefs().code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
                value = value.referenced_value()
            if value.type.strip_typedefs().code == gdb.TYPE_CODE_PTR:
                value = value.dereference()
            try:
                impl = value["impl_"]
            except gdb.error:
                raise gdb.GdbError("%s is no weft::Tensor" % expression)
            gdb.write(tensor_text(value) + "\n")
            node = gdb.Value(0) if int(impl) == 0 else impl.dereference()["node"]
        else:
            node = last_stop()["node"]
        if int(node) == 0:
            gdb.write("no op was recorded\n")
            return
        for line in graph_lines(node, depth):
            gdb.write("  " + line + "\n")


class Stop(gdb.Command):
    """weft stop: the op at which a BreakOn stopped, and its operands or gradients."""

    def __init__(self):
        super().__init__("weft stop", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        event = last_stop()
        gdb.write("%s %s%s, called at %s\n" % ("after" if event["after"] else "before", text_at(event["op"]),
                                               " in backward" if event["backward"] else "",
                                               place_text(event["where"])))
        for name in ("inputs", "outputs"):
            for view in each(event[name]):
                gdb.write("  %s: %s\n" % (name[:-1], view_text(view.dereference())))
        for name in ("incoming", "outgoing"):
            for tensor in each(event[name]):
                gdb.write("  %s: %s\n" % (name, tensor_text(tensor)))


class Where(gdb.Command):
    """weft where: selects the frame that called the op at which a BreakOn stopped, or in backward the frame that called
backward, and shows its line."""

    def __init__(self):
        super().__init__("weft where", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        file, line = place(last_stop()["where"])
        frames, frame = [], gdb.newest_frame()
        while frame is not None:
            frames.append(frame)
            frame = frame.older()
        stopped = [i for i, f in enumerate(frames) if (f.name() or "").startswith("weft::detail::stop_at_op")]
        frames = frames[stopped[0] + 1:] if stopped else frames
        with_lines = [f for f in frames if f.find_sal().symtab is not None]
        there = [f for f in with_lines if f.find_sal().line == line and
                 f.find_sal().symtab.filename.endswith(file.rsplit("/", 1)[-1])]
        outside = [f for f in with_lines if not (f.name() or "").startswith("weft::")]
        for found in (there + outside)[:1]:
            found.select()
            gdb.execute("frame")
            return
        raise gdb.GdbError("no frame has line information: compile the program with -g")


gdb.printing.register_pretty_printer(gdb.current_objfile(), build(), replace=True)
for command in (Command, Graph, Stop, Where):
    command()
