"""weft.data: files, transforms and tokenizers, as Python sees them."""

import csv
import json
import math
import pathlib

import numpy
import pytest

import weft
from weft import data
from weft.data import transforms

CASES = pathlib.Path(__file__).parents[1] / "data" / "cases"


def array(tensor):
    return numpy.from_dlpack(tensor)


# ---- tables ----


def test_csv_gives_columns_of_their_types(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b,c,d,e\n1,0.5,x,true,red\n2,,"y,z",false,blue\n')
    table = data.read_csv(path, dtype={"e": "category", "a": weft.float64})
    assert len(table) == 2 and table.keys() == ["a", "b", "c", "d", "e"]
    assert table["a"].dtype == weft.float64
    assert table["b"].dtype == weft.float32 and math.isnan(table["b"][1].item())
    assert table["c"] == ["x", "y,z"]
    assert table["d"].tolist() == [True, False]
    assert table["e"].tolist() == [0, 1] and table.categories == {"e": ["red", "blue"]}
    assert table.tensor(["a", "d"]).tolist() == [[1.0, 1.0], [2.0, 0.0]]
    with pytest.raises(TypeError, match="holds texts"):
        table.tensor(["c"])
    with pytest.raises(KeyError):
        table["z"]


def test_csv_options(tmp_path):
    text = "note\nx;y\n# no\n1;2\n3;4\n"
    table = data.read_csv(text, delimiter=";", comment="#", skip_lines=1, max_rows=1, text=True)
    assert table["y"].tolist() == [2]
    assert data.read_csv("1,2\n", header=False, names=["p", "q"], text=True)["q"].tolist() == [2]
    assert data.read_csv("a\n0.1\n", floating=weft.float64, text=True)["a"].item() == 0.1
    assert data.read_csv("a\n1\n", dtype=str, text=True)["a"] == ["1"]
    with pytest.raises(ValueError, match="one ASCII character"):
        data.read_csv("a", delimiter=";;", text=True)
    with pytest.raises(ValueError, match="dtype"):
        data.read_csv("a", dtype="complex", text=True)


def test_csv_errors_name_line_and_column():
    with pytest.raises(ValueError, match="line 3: 1 fields, and 2 columns"):
        data.read_csv("a,b\n1,2\n3\n", text=True)
    with pytest.raises(ValueError, match=r'line 2, column 2: "x" in the column "b"'):
        data.read_csv("a,b\n1,x\n", dtype={"b": int}, text=True)
    with pytest.raises(OSError):
        data.read_csv("/nowhere/a.csv")


def test_csv_goes_through_pythons_module(tmp_path):
    table = data.Table({"n": weft.tensor([1, 2]), "f": weft.tensor([0.1, math.nan]), "t": ['a "b"', "c,d\n"]})
    data.write_csv(table, tmp_path / "t.csv")
    with open(tmp_path / "t.csv", newline="") as file:
        assert list(csv.reader(file)) == [["n", "f", "t"], ["1", "0.1", 'a "b"'], ["2", "", "c,d\n"]]
    again = data.read_csv(tmp_path / "t.csv")
    assert again["t"] == table["t"] and again["n"].tolist() == [1, 2]
    with pytest.raises(ValueError, match="unequal lengths"):
        data.Table({"a": [1], "b": []})


def test_json_lines_are_python_values(tmp_path):
    rows = [{"t": "é", "x": [1, 2.5, None, True], "d": {"k": -1}}, [], "s", 3]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    assert list(data.read_json_lines(path)) == rows
    path.write_text('{"a": 1}\n{"a": \n')
    lines = data.read_json_lines(path)
    assert next(lines) == {"a": 1}
    with pytest.raises(ValueError, match="line 2"):
        next(lines)
    path.write_text('{"a": [1, 2], "b": "x"}\n{"a": [3, 4], "b": "y"}\n')
    table = data.read_json_table(path)
    assert table["a"].tolist() == [[1, 2], [3, 4]] and table["b"] == ["x", "y"]
    path.write_text('{"a": [1, 2]}\n{"a": [3]}\n')
    with pytest.raises(ValueError, match=r"line 2: the field \"a\" has the shape \[1\], and \[2\] before"):
        data.read_json_table(path)


def test_lines(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\ntwo\n\nlast")
    assert data.read_lines(path) == ["one", "two", "", "last"]


# ---- pictures ----


def built_with(suffix):
    try:
        data.load_image(CASES / f"rgb.{suffix}")
        return True
    except NotImplementedError:
        return False


png = pytest.mark.skipif(not built_with("png"), reason="built without libpng")
jpeg = pytest.mark.skipif(not built_with("jpg"), reason="built without libjpeg")


@png
def test_png():
    image = data.load_image(CASES / "rgb.png")
    assert (array(image) == numpy.load(CASES / "rgb.png.npy")).all()
    assert data.load_image(CASES / "rgb.png", channels=1).shape == (1, 13, 19)
    assert data.load_image(CASES / "wide.png", keep_16_bits=True).dtype == weft.uint16
    assert (array(data.decode_image(data.encode_png(image))) == array(image)).all()
    with pytest.raises(ValueError, match="at most 5 are read"):
        data.load_image(CASES / "rgb.png", max_pixels=5)
    with pytest.raises(ValueError, match="neither a PNG nor a JPEG"):
        data.decode_image(b"GIF")
    with pytest.raises(TypeError, match="expected uint8 or uint16"):
        data.encode_png(image.to(weft.float32))


@png
@jpeg
def test_jpeg_and_folders(tmp_path):
    image = data.load_image(CASES / "rgb.jpg")
    assert (array(image) == numpy.load(CASES / "rgb.jpg.npy")).all()
    for kind in ("b", "a"):
        (tmp_path / kind).mkdir()
        data.save_png(image, tmp_path / kind / "1.png")
        data.save_jpeg(image, tmp_path / kind / "2.JPG", quality=95)
    turned = data.load_image(CASES / "oriented_6.jpg", apply_exif_orientation=True)
    assert (array(turned) == numpy.load(CASES / "oriented_6.jpg.npy")).all()
    assert data.decode_image((CASES / "oriented_6.jpg").read_bytes()).shape == (3, 13, 19)
    files, labels, classes = data.image_folder(tmp_path)
    assert classes == ["a", "b"] and labels == [0, 0, 1, 1]
    assert [pathlib.Path(file).name for file in files] == ["1.png", "2.JPG"] * 2
    assert data.load_image(files[1]).shape == image.shape
    assert len(data.encode_jpeg(image, 10)) < len(data.encode_jpeg(image, 90))


def test_mnist_and_cifar(tmp_path):
    (tmp_path / "train-images-idx3-ubyte").write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2]) + b"abcd")
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 1, 7]))
    images, labels = data.load_mnist(tmp_path)
    assert images.shape == (1, 1, 2, 2) and labels.tolist() == [7]
    with pytest.raises(OSError):
        data.load_mnist(tmp_path, train=False)
    (tmp_path / "test_batch.bin").write_bytes(b"\x05" + bytes(3072))
    images, labels = data.load_cifar10(tmp_path, train=False)
    assert images.shape == (1, 3, 32, 32) and labels.tolist() == [5]
    (tmp_path / "train.bin").write_bytes(b"\x01\x50" + bytes(3072))
    images, labels, coarse = data.load_cifar100(tmp_path)
    assert labels.tolist() == [80] and coarse.tolist() == [1]
    with pytest.raises(ValueError, match="no multiple of 3073"):
        data.read_cifar10([tmp_path / "train.bin"])


# ---- transforms ----


def test_transforms_are_the_functions():
    image = weft.arange(3 * 8 * 6).reshape(3, 8, 6).to(weft.uint8)
    assert (array(transforms.to_float(image)) == array(image).astype(numpy.float32) / 255).all()
    assert (array(transforms.flip_horizontal(image)) == array(image)[..., ::-1]).all()
    assert (array(transforms.flip_vertical(image)) == array(image)[:, ::-1]).all()
    assert (array(transforms.center_crop(image, 4)) == array(image)[:, 2:6, 1:5]).all()
    assert (array(transforms.crop(image, 1, 2, 3, 4)) == array(image)[:, 1:4, 2:6]).all()
    normal = transforms.normalize(transforms.to_float(image), [0.1, 0.2, 0.3], 0.5)
    expected = (array(image) / 255 - numpy.array([0.1, 0.2, 0.3]).reshape(3, 1, 1)) / 0.5
    assert abs(array(normal) - expected).max() < 1e-6
    assert transforms.resize(image, (4, 3)).shape == (3, 4, 3)
    assert transforms.resize(image, 3, mode="bicubic").shape == (3, 4, 3)
    with pytest.raises(ValueError, match="mode"):
        transforms.resize(image, 3, mode="nearest")


def test_a_chain_passes_the_generator():
    images = weft.randint(0, 256, (6, 3, 32, 32)).to(weft.uint8)
    chain = transforms.Compose([transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(),
                                transforms.ToFloat(), transforms.Normalize((0.4, 0.5, 0.6), (0.2, 0.2, 0.3)),
                                lambda x: x + 0])
    one, other, third = (weft.Generator().manual_seed(3) for _ in range(3))
    batch = chain(images, generator=one)
    assert (array(batch) == array(chain(images, generator=other))).all()
    at_once = transforms.CropFlipNormalize(32, 4, 0.5, (0.4, 0.5, 0.6), (0.2, 0.2, 0.3))
    assert (array(at_once(images, generator=third)) == array(batch)).all()
    assert "RandomCrop(size=32, padding=4, fill=0)" in repr(chain)
    weft.manual_seed(3)
    first = chain(images)
    weft.manual_seed(3)
    assert (array(chain(images)) == array(first)).all()
    with pytest.raises(TypeError, match="generator"):
        transforms.RandomCrop(4)(images, generator=1)


def test_each_random_transform_is_called():
    image = weft.rand(3, 16, 12)
    generator = weft.Generator().manual_seed(1)
    for transform, shape in ((transforms.RandomResizedCrop((5, 7)), (3, 5, 7)), (transforms.RandomVerticalFlip(1), (3, 16, 12)),
                             (transforms.ColorJitter(0.2, 0.2, 0.2), (3, 16, 12)), (transforms.RandomErasing(1), (3, 16, 12))):
        assert transform(image, generator=generator).shape == shape
    assert (array(transforms.RandomVerticalFlip(1)(image)) == array(image)[:, ::-1]).all()
    with pytest.raises(ValueError, match=r"\[RandomCrop\].*\n.*test_readers.py|RandomCrop"):
        transforms.RandomCrop(99)(image)


# ---- tokenizers ----


@pytest.mark.parametrize("name", ["gpt2", "spaced", "gpt4", "qwen2"])
def test_tokenizer_gives_the_recorded_ids(name):
    tokenizer = data.Tokenizer.load(CASES / f"{name}.json")
    rows = list(data.read_json_lines(CASES / f"{name}_texts.jsonl"))
    assert len(rows) == 60
    for row in rows:
        assert tokenizer.encode(row["text"]) == row["ids"]
        assert tokenizer.encode(row["text"], add_special_tokens=False) == row["plain"]
        assert tokenizer.decode(row["shuffled"]) == row["decoded"]
    assert tokenizer.encode_batch([row["text"] for row in rows]) == [row["ids"] for row in rows]


def test_tokenizer_is_trained_and_saved(tmp_path):
    texts = json.loads((CASES / "corpus.json").read_text())
    told = []
    tokenizer = data.Tokenizer.train(iter(texts), vocab_size=500, special_tokens=["<|end|>", "<pad>"],
                                     progress=lambda tokens, wished: told.append((tokens, wished)))
    assert tokenizer.merges() == [tuple(m) for m in json.loads((CASES / "gpt2_merges.json").read_text())]
    assert told[0] == (258, 500) and told[-1] == (500, 500)
    tokenizer.save(tmp_path / "tokenizer.json")
    again = data.Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.encode(texts[0]) == tokenizer.encode(texts[0])
    assert len(again) == again.vocab_size == 500
    assert again.decode(weft.tensor(again.encode("don't"))) == "don't"
    assert again.decode_bytes(again.encode(b"\xff\xfe")) == b"\xff\xfe"
    assert again.token(again.id("Ġ")) == "Ġ" and again.id("nothing") is None
    ids, offsets = again.encode_with_offsets("é x")
    assert offsets[-1][1] == len("é x".encode()) and len(ids) == len(offsets)

    def stop(tokens, wished):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        data.Tokenizer.train(texts, vocab_size=500, progress=stop)


def test_tokenizer_errors():
    tokenizer = data.Tokenizer.load(CASES / "gpt2.json")
    assert tokenizer.encode("<|end|>") == [0] and tokenizer.is_special(0)
    assert tokenizer.decode(tokenizer.encode("a<|end|>", special="plain")) == "a<|end|>"
    with pytest.raises(ValueError, match="special token"):
        tokenizer.encode("<|end|>", special="forbid")
    with pytest.raises(ValueError, match="expected one of"):
        tokenizer.encode("", special="some")
    with pytest.raises(IndexError):
        tokenizer.decode([10**6])
    with pytest.raises(NotImplementedError, match="Unigram"):
        data.Tokenizer.from_json(tokenizer.to_json().replace('"BPE"', '"Unigram"'))
    with pytest.raises(ValueError):
        data.Tokenizer.from_json("{}")
    with pytest.raises(OSError):
        data.Tokenizer.load("/nowhere")


def test_tokenizers_library_reads_saved_files(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    for name in ("gpt2", "spaced", "gpt4", "qwen2"):
        tokenizer = data.Tokenizer.load(CASES / f"{name}.json")
        tokenizer.save(tmp_path / "tokenizer.json")
        theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        for row in data.read_json_lines(CASES / f"{name}_texts.jsonl"):
            assert theirs.encode(row["text"]).ids == row["ids"]
