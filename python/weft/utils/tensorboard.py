"""SummaryWriter: scalars, histograms, images, texts, sounds and graphs for TensorBoard, under PyTorch's names."""

import datetime
import io
import json
import os
import socket
import struct
import time
import wave
import zlib
from numbers import Integral

import weft
from weft.utils import _events

__all__ = ["FileWriter", "SummaryWriter"]


def _number(value):
    return float(value.item() if hasattr(value, "item") else value)


def _tensor(values):
    """A tensor on the CPU of a tensor, an array or numbers."""
    values = values if isinstance(values, weft.Tensor) else weft.as_tensor(values)
    return values.detach().to("cpu")


def _png(pixels):
    """PNG of uint8 [height, width, channels] with 1, 3 or 4 channels."""
    height, width, channels = pixels.shape
    kind = {1: 0, 3: 2, 4: 6}[channels]
    rows = bytes(memoryview(pixels.contiguous().reshape(-1))) if pixels.numel() else b""
    lines = b"".join(b"\0" + rows[i * width * channels:(i + 1) * width * channels] for i in range(height))

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def _pixels(picture, dataformats):
    """uint8 [height, width, channels] of floats in [0, 1] or of bytes."""
    picture, formats = _tensor(picture), dataformats.upper()
    if picture.ndim != len(formats):
        raise ValueError(f"the picture has {picture.ndim} dimensions, dataformats {dataformats!r} has {len(formats)}")
    if "C" not in formats:
        picture, formats = picture.unsqueeze(-1), formats + "C"
    picture = picture.permute(*[formats.index(axis) for axis in ("NHWC" if "N" in formats else "HWC")])
    if picture.is_floating_point():
        picture = (picture * 255).clamp(0, 255)
    picture = picture.to(weft.uint8)
    return _in_grid(picture) if "N" in formats else picture


def _in_grid(pictures):
    """Pictures [n, height, width, channels] in rows of 8."""
    n, height, width, channels = pictures.shape
    columns = min(8, n)
    rows = -(-n // columns)
    grid = weft.zeros(rows * height, columns * width, channels, dtype=weft.uint8)
    for i in range(n):
        y, x = i // columns * height, i % columns * width
        grid[y:y + height, x:x + width] = pictures[i]
    return grid


def _bins(values, bins, most):
    """(limits, counts) of at most so many bins."""
    if isinstance(bins, str):
        bins = 30 if most is None else min(most, 30)
    low, high = values.min().item(), values.max().item()
    if isinstance(bins, Integral):
        high = high if high > low else low + 1e-12 + abs(low) * 1e-6
        edges = weft.linspace(low, high, bins + 1, dtype=weft.float64)
    else:
        edges = _tensor(bins).to(weft.float64)
    counts = weft.zeros(len(edges) - 1, dtype=weft.float64)
    places = (weft.bucketize(values, edges, right=True) - 1).clamp(0, len(counts) - 1)
    counts.index_add_(0, places, weft.ones(values.numel(), dtype=weft.float64))
    return edges[1:].tolist(), counts.tolist()


class FileWriter:
    """The files of one folder."""

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        self._folder, self._file = os.fspath(log_dir), _events.EventFile(log_dir, filename_suffix)

    def get_logdir(self):
        return self._folder

    def flush(self):
        self._file.flush()

    def close(self):
        self._file.close()


class SummaryWriter:
    """Writes into a folder that TensorBoard shows; runs/TIME_HOST by default.

    with SummaryWriter("runs/first") as writer:
        writer.add_scalar("loss", loss, step)
    """

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        if not log_dir:
            log_dir = os.path.join("runs", datetime.datetime.now().strftime("%b%d_%H-%M-%S_") + socket.gethostname() + comment)
        self.log_dir, self._suffix, self._flush_secs = os.fspath(log_dir), filename_suffix, flush_secs
        self._files, self._flushed = {}, time.monotonic()
        self._file("")

    def _file(self, below):
        folder = os.path.join(self.log_dir, below) if below else self.log_dir
        if folder not in self._files:
            self._files[folder] = _events.EventFile(folder, self._suffix)
        return self._files[folder]

    def _add(self, tag, step, walltime, *fields, below=""):
        self._file(below).add(tag, step, time.time() if walltime is None else walltime, *fields)
        if time.monotonic() - self._flushed > self._flush_secs:
            self.flush()

    def get_logdir(self):
        return self.log_dir

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """A number at a step."""
        self._add(tag, global_step, walltime, (2, "float", _number(scalar_value)))

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several numbers in one diagram, each in a folder of its own."""
        for tag, value in tag_scalar_dict.items():
            below = main_tag.replace("/", "_") + "_" + tag
            self._add(main_tag, global_step, walltime, (2, "float", _number(value)), below=below)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        """How often values fall into each bin."""
        values = _tensor(values).to(weft.float64).reshape(-1)
        if not values.numel():
            raise ValueError("add_histogram(): there are no values")
        limits, counts = _bins(values, bins, max_bins)
        self._add(tag, global_step, walltime, (5, "bytes", _events.histogram(
            values.min().item(), values.max().item(), values.numel(), values.sum().item(), values.square().sum().item(),
            limits, counts)))

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """A picture of floats in [0, 1] or of bytes."""
        pixels = _pixels(img_tensor, dataformats)
        if pixels.shape[2] not in (1, 3, 4):
            raise ValueError(f"add_image(): expected 1, 3 or 4 channels, got {pixels.shape[2]}")
        self._add(tag, global_step, walltime, (4, "bytes", _events.image(*pixels.shape, _png(pixels))))

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """Pictures side by side."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """A figure of matplotlib, or several."""
        import matplotlib.pyplot as plt  # type: ignore
        import numpy

        for one in figure if isinstance(figure, list) else [figure]:
            one.canvas.draw()
            self.add_image(tag, numpy.asarray(one.canvas.buffer_rgba())[..., :3].copy(), global_step, walltime, "HWC")
            if close:
                plt.close(one)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """A text in Markdown."""
        metadata, tensor = _events.text(text_string)
        self._add(tag + "/text_summary", global_step, walltime, (9, "bytes", metadata), (8, "bytes", tensor))

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None):
        """A sound of floats in [-1, 1]."""
        samples = (_tensor(snd_tensor).reshape(-1).clamp(-1, 1) * 32767).to(weft.int16)
        out = io.BytesIO()
        with wave.open(out, "wb") as sound:
            sound.setparams((1, 2, sample_rate, len(samples), "NONE", ""))
            sound.writeframes(bytes(memoryview(samples)))
        self._add(tag, global_step, walltime, (6, "bytes", _events.message(
            (1, "float", sample_rate), (2, "int", 1), (3, "int", len(samples)), (4, "bytes", out.getvalue()),
            (5, "bytes", "audio/wav"))))

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        """The options of a run as a text, and its figures as scalars."""
        self.add_text("hparams", "\n".join(f"    {key}: {value}" for key, value in hparam_dict.items()), global_step)
        for tag, value in metric_dict.items():
            self.add_scalar(tag, value, global_step)

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag="default", metadata_header=None):
        """Vectors as a table beside the events, for the projector."""
        folder = os.path.join(self.log_dir, f"{global_step or 0:05d}", tag)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "tensors.tsv"), "w", encoding="utf-8") as out:
            out.writelines("\t".join(map(str, row)) + "\n" for row in _tensor(mat).tolist())
        if metadata is not None:
            with open(os.path.join(folder, "metadata.tsv"), "w", encoding="utf-8") as out:
                out.writelines(f"{line}\n" for line in metadata)
        with open(os.path.join(self.log_dir, "projector_config.pbtxt"), "a", encoding="utf-8") as out:
            relative = os.path.relpath(folder, self.log_dir)
            labels = f'metadata_path: {json.dumps(relative + "/metadata.tsv")}\n' if metadata is not None else ""
            out.write(f'embeddings {{\ntensor_name: {json.dumps(tag)}\n{labels}tensor_path: '
                      f'{json.dumps(relative + "/tensors.tsv")}\n}}\n')

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """The modules of a model, and which of them reads the result of which."""
        nodes = _traced(model, input_to_model)
        graph = b"".join(_events.message((1, "bytes", _events.message(
            (1, "bytes", name), (2, "bytes", kind), *((3, "bytes", source) for source in sources))))
            for name, kind, sources in nodes)
        self._file("").add_graph(graph, time.time())

    def flush(self):
        for file in self._files.values():
            file.flush()
        self._flushed = time.monotonic()

    def close(self):
        for file in self._files.values():
            file.close()
        self._files.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _tensors_in(values):
    from weft.utils.pytree import tree_leaves

    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, weft.Tensor)]


def _traced(model, inputs):
    """(name, type, sources) of the modules without children, in the order of their calls in evaluation."""
    inputs = inputs if isinstance(inputs, (tuple, list)) else () if inputs is None else (inputs,)
    makers = {t._impl(): "input" for t in _tensors_in(inputs)}
    nodes, handles = [("input", "Input", ())], []

    def watcher(name):
        def see(module, args, output):
            sources = dict.fromkeys(makers[t._impl()] for t in _tensors_in(args) if t._impl() in makers)
            nodes.append((name, type(module).__name__, tuple(sources)))
            makers.update((t._impl(), name) for t in _tensors_in(output))
            held.append(output)

        return see

    held: list = []  # so that no address is used again
    for name, module in model.named_modules():
        if not list(module.children()):
            handles.append(module.register_forward_hook(watcher((name or "model").replace(".", "/"))))
    modes = [(module, module.training) for module in model.modules()]
    try:
        with weft.no_grad():
            model.eval()(*inputs)
    finally:
        for module, training in modes:
            module.training = training
        for handle in handles:
            handle.remove()
    return nodes
