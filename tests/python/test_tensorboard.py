"""SummaryWriter writes events that TensorBoard reads."""

import json
import os
import wave

import pytest

import weft
from weft import nn
from weft.utils.tensorboard import SummaryWriter


def events_of(folder):
    """{tag: (step, value of the summary)} and the other events of a folder, by TensorBoard's own reader."""
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    values, others = {}, []
    for name in sorted(os.listdir(folder)):
        if "tfevents" in name:
            for event in loader.LegacyEventFileLoader(os.path.join(folder, name)).Load():
                for value in event.summary.value:
                    values[value.tag] = (event.step, value)
                others.append(event)
    return values, others


def test_every_kind_of_value_is_read(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", weft.tensor(0.5), 3)
        writer.add_histogram("weights", weft.tensor([0.0, 1.0, 1.0, 4.0]), 4, bins=4)
        writer.add_image("picture", weft.ones(3, 2, 5) * 0.5, 5)
        writer.add_images("pictures", weft.zeros(10, 1, 2, 2), 5)
        writer.add_text("note", "**first** run", 6)
        writer.add_audio("sound", weft.zeros(100), 7, sample_rate=8000)
        writer.add_scalars("rates", {"a": 1.0, "b": 2.0}, 8)
        writer.add_hparams({"lr": 0.1}, {"best": 0.25})
    values, others = events_of(tmp_path)
    assert others[0].file_version == "brain.Event:2"
    step, value = values["loss"]
    assert step == 3 and value.simple_value == 0.5
    step, value = values["weights"]
    assert step == 4 and list(value.histo.bucket) == [1, 2, 0, 1] and list(value.histo.bucket_limit) == [1, 2, 3, 4]
    assert (value.histo.min, value.histo.max, value.histo.num, value.histo.sum, value.histo.sum_squares) == (0, 4, 4, 6, 18)
    image = values["picture"][1].image
    assert (image.height, image.width, image.colorspace) == (2, 5, 3)
    pixels = weft.data.decode_image(image.encoded_image_string)
    assert tuple(pixels.shape) == (3, 2, 5) and abs(pixels.to(weft.float32).mean().item() - (127 if pixels.max() > 1 else 0.5)) < 1
    assert (values["pictures"][1].image.height, values["pictures"][1].image.width) == (4, 16)
    assert values["note/text_summary"][1].tensor.string_val[0] == b"**first** run"
    assert values["note/text_summary"][1].metadata.plugin_data.plugin_name == "text"
    sound = values["sound"][1].audio
    (tmp_path / "sound.wav").write_bytes(sound.encoded_audio_string)
    with wave.open(str(tmp_path / "sound.wav")) as read:
        assert read.getframerate() == 8000 and read.getnframes() == 100
    assert events_of(tmp_path / "rates_b")[0]["rates"][1].simple_value == 2
    assert values["best"][1].simple_value == 0.25


def test_the_graph_is_that_of_the_calls_in_evaluation(tmp_path):
    graph_pb2 = pytest.importorskip("tensorboard.compat.proto.graph_pb2")
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU())
    net[2].eval()
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(net, weft.zeros(4, 2))
    assert net.training and not net[2].training and net[1].num_batches_tracked.item() == 0
    graph = graph_pb2.GraphDef()
    graph.ParseFromString(next(event.graph_def for event in events_of(tmp_path)[1] if event.graph_def))
    assert [(node.name, node.op, list(node.input)) for node in graph.node] == [
        ("input", "Input", []), ("0", "Linear", ["input"]), ("1", "BatchNorm1d", ["0"]), ("2", "ReLU", ["1"])]


def test_embeddings_are_tables(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(weft.tensor([[1.0, 2.0], [3.0, 4.0]]), metadata=["a", "b"], tag="words")
    assert (tmp_path / "00000" / "words" / "tensors.tsv").read_text() == "1.0\t2.0\n3.0\t4.0\n"
    assert json.dumps("00000/words/metadata.tsv") in (tmp_path / "projector_config.pbtxt").read_text()


def test_invalid_arguments_raise(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(ValueError, match="channels"):
            writer.add_image("x", weft.zeros(2, 4, 4))
        with pytest.raises(ValueError, match="dimensions"):
            writer.add_image("x", weft.zeros(4, 4))
        with pytest.raises(ValueError, match="no values"):
            writer.add_histogram("x", weft.zeros(0))
