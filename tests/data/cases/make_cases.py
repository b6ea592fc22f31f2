"""Writes the files in this folder: pictures with their pixels by PIL, tokenizers trained by the library `tokenizers`
with its ids of random texts, and CSV texts with their rows by Python's module csv.

python3 -m venv v && v/bin/pip install numpy==2.4.6 pillow==13.0.0 tokenizers==0.23.3 && v/bin/python make_cases.py
"""
import csv
import io
import json
import pathlib
import random
import struct
import zlib

import numpy
from PIL import Image, ImageOps
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

here = pathlib.Path(__file__).parent
rng = random.Random(17)


# ---- pictures ----


def smooth(height, width, channels, top=255):
    y, x = numpy.mgrid[0:height, 0:width]
    planes = [top / 2 * (1 + numpy.sin(x / (3 + c) + y / (5 - c) + c)) for c in range(channels)]
    return numpy.stack(planes, -1).round().astype(numpy.uint16 if top > 255 else numpy.uint8)


def adam7(array):
    """A PNG in seven passes, which PIL does not write."""
    height, width, channels = array.shape
    raw = b""
    for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        part = array[y0::dy, x0::dx]
        if part.size:
            raw += b"".join(b"\0" + row.tobytes() for row in part)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2}[channels], 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def planes(image):
    array = numpy.asarray(image)
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def save_expected(name, array):
    numpy.save(here / f"{name}.npy", numpy.ascontiguousarray(array))


def make_pictures():
    rgb = Image.fromarray(smooth(13, 19, 3))
    rgba = Image.fromarray(smooth(13, 19, 4))
    pictures = {
        "grey.png": Image.fromarray(smooth(13, 19, 1)[..., 0]),
        "grey_alpha.png": Image.fromarray(smooth(13, 19, 2), "LA"),
        "rgb.png": rgb,
        "rgba.png": rgba,
        "bits.png": Image.fromarray(smooth(13, 19, 1)[..., 0]).convert("1"),
        "palette.png": rgb.quantize(7),
        "grey.jpg": Image.fromarray(smooth(13, 19, 1)[..., 0]),
        "rgb.jpg": rgb,
        "progressive.jpg": rgb,
        "cmyk.jpg": rgb.convert("CMYK"),
    }
    for name, image in pictures.items():
        options = {"quality": 90, "progressive": name == "progressive.jpg"} if name.endswith("jpg") else {}
        image.save(here / name, **options)
        image = Image.open(here / name)
        if image.mode in ("P", "CMYK"):
            image = image.convert("RGB")
        save_expected(name, planes(image.convert("L") if image.mode == "1" else image))
    (here / "interlaced.png").write_bytes(adam7(smooth(13, 19, 3)))
    save_expected("interlaced.png", planes(Image.open(here / "interlaced.png")))
    save_expected("rgb_as_grey", planes(rgb.convert("L")))
    wide = smooth(13, 19, 1, 65535)[..., 0]
    Image.fromarray(wide).save(here / "wide.png")
    save_expected("wide.png", wide[None])
    for size in ((5, 7), (30, 11), (13, 40)):
        for mode, filter in (("bilinear", Image.Resampling.BILINEAR), ("bicubic", Image.Resampling.BICUBIC)):
            save_expected(f"rgb_{mode}_{size[0]}x{size[1]}", planes(rgb.resize((size[1], size[0]), filter)))


def make_oriented():
    """Pictures of a camera in each of eight orientations, and PIL's upright versions."""
    stored = Image.fromarray(smooth(13, 19, 3))
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x010F] = "Maker"
        exif[0x0112] = orientation
        for suffix in ("jpg", "png") if orientation == 6 else ("jpg",):
            name = f"oriented_{orientation}.{suffix}"
            stored.save(here / name, exif=exif, quality=90)
            save_expected(name, planes(ImageOps.exif_transpose(Image.open(here / name))))


# ---- tokenizers ----

GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+")


def corpus():
    words = ["".join(rng.choice("etaoinshrdlu") for _ in range(rng.randrange(1, 8))) for _ in range(150)]
    words += ["Straße", "東京都", "мир", "العربية", "😀👍", "aaaaaaa", "don't", "WE'LL", "12345", "½", "\r\n", "\n\n  "]
    return ["".join(rng.choice([" ", " ", " ", "  ", "\n", ", "]) + rng.choice(words) for _ in range(120)) for _ in range(12)]


def random_text():
    pools = [
        lambda: chr(rng.randrange(32, 127)),
        lambda: rng.choice("'sStTmMdDrReEvVlL"),
        lambda: rng.choice(" \t\n\r\u00a0\u3000\x85\x0b\x1c"),
        lambda: chr(rng.randrange(0x80, 0x3000)),
        lambda: chr(rng.choice([rng.randrange(0x4E00, 0x9FFF), rng.randrange(0xAC00, 0xD7A3),
                                rng.randrange(0x1F300, 0x1FAFF), rng.randrange(0x10000, 0x20000)])),
        lambda: rng.choice("0123456789½²٣"),
        lambda: rng.choice(["'ſ", "<|end|>", "  ", "\r\n", "'LL", "the ", " <mask> ", "<b>"]),
    ]
    out = ""
    for _ in range(rng.randrange(0, 30)):
        pool = rng.choice(pools)
        out += "".join(pool() for _ in range(rng.randrange(1, 5)))
    return out


def make_tokenizers():
    texts = corpus()
    (here / "corpus.json").write_text(json.dumps(texts, ensure_ascii=False))
    byte_level = pre_tokenizers.ByteLevel

    def split(pattern):
        return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                        byte_level(add_prefix_space=False, use_regex=False)])

    for name, words in (("gpt2", byte_level(add_prefix_space=False)), ("spaced", byte_level(add_prefix_space=True)),
                        ("gpt4", split(GPT4)), ("qwen2", split(GPT4.replace("{1,3}", "")))):
        tokenizer = Tokenizer(models.BPE(ignore_merges=name == "gpt4"))
        tokenizer.pre_tokenizer = words
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
            vocab_size=500, special_tokens=["<|end|>", "<pad>"], initial_alphabet=byte_level.alphabet(),
            show_progress=False))
        trained = json.loads(tokenizer.to_str())
        (here / f"{name}_merges.json").write_text(json.dumps(trained["model"]["merges"], ensure_ascii=False))
        tokenizer.add_tokens([AddedToken("<mask>", lstrip=True, rstrip=name == "qwen2", special=True),
                              AddedToken("<b>", special=False)])
        if name == "qwen2":
            tokenizer.post_processor = processors.TemplateProcessing("<|end|> $A <pad>", special_tokens=[
                ("<|end|>", 0), ("<pad>", 1)])
        tokenizer.save(str(here / f"{name}.json"), pretty=False)
        with open(here / f"{name}_texts.jsonl", "w") as out:
            for text in [random_text() for _ in range(60)]:
                ids = tokenizer.encode(text).ids
                shuffled = rng.sample(ids, len(ids))
                row = {"text": text, "ids": ids, "plain": tokenizer.encode(text, add_special_tokens=False).ids,
                       "shuffled": shuffled, "decoded": tokenizer.decode(shuffled, skip_special_tokens=False)}
                out.write(json.dumps(row) + "\n")


# ---- CSV ----


def make_csv():
    with open(here / "csv.jsonl", "w") as out:
        for _ in range(200):
            columns = rng.randrange(1, 5)
            rows = [["".join(rng.choice('ab1 ,"\n;é') for _ in range(rng.randrange(0, 6))) for _ in range(columns)]
                    for _ in range(rng.randrange(1, 5))]
            text = io.StringIO(newline="")
            csv.writer(text, lineterminator=rng.choice(["\n", "\r\n"]),
                       quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])).writerows(rows)
            read = list(csv.reader(io.StringIO(text.getvalue(), newline="")))
            assert read == rows
            out.write(json.dumps({"csv": text.getvalue(), "rows": rows}) + "\n")


make_pictures()
make_oriented()
make_tokenizers()
make_csv()
