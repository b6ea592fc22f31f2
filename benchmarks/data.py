"""Readers, transforms and tokenizers compared with other libraries that are installed, on one thread.

usage: PYTHONPATH=build/release/python WEFT_NUM_THREADS=1 taskset -c 0 build/venv/bin/python benchmarks/data.py
"""
import csv
import os
import pathlib
import tempfile
import time

import numpy

import weft
from weft import data

os.environ["TOKENIZERS_PARALLELISM"] = "false"
root = pathlib.Path(__file__).parents[1]


def best(function, repeats=5):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def tell(what, amount, unit, function):
    print(f"{what:42} {amount / best(function):10.1f} {unit}")


def tokenizers():
    texts = [path.read_text() for path in sorted((root / "docs").glob("*.md"))]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    trained = data.Tokenizer.train(texts, vocab_size=4000)
    tell("weft Tokenizer.encode", megabytes, "MB/s", lambda: [trained.encode(text) for text in texts])
    tell("weft Tokenizer.train, 4,000 tokens", megabytes, "MB/s", lambda: data.Tokenizer.train(texts, vocab_size=4000))
    try:
        import tokenizers as theirs
    except ImportError:
        return
    other = theirs.Tokenizer.from_str(trained.to_json())
    assert all(other.encode(text).ids == trained.encode(text) for text in texts)
    tell("tokenizers encode", megabytes, "MB/s", lambda: [other.encode(text) for text in texts])


def tables():
    rng = numpy.random.default_rng(1)
    numbers = rng.standard_normal((100_000, 8)).astype(numpy.float32)
    path = pathlib.Path(tempfile.mkdtemp()) / "numbers.csv"
    numpy.savetxt(path, numbers, delimiter=",", fmt="%.7g")
    megabytes = path.stat().st_size / 1e6
    tell("weft read_csv, 8 columns of float32", megabytes, "MB/s", lambda: data.read_csv(path, header=False))
    tell("numpy.loadtxt", megabytes, "MB/s", lambda: numpy.loadtxt(path, delimiter=",", dtype=numpy.float32))
    tell("csv.reader, without numbers", megabytes, "MB/s", lambda: list(csv.reader(open(path))))
    try:
        import pandas
    except ImportError:
        pass
    else:
        tell("pandas.read_csv", megabytes, "MB/s", lambda: pandas.read_csv(path, header=None, dtype=numpy.float32))
    path.unlink()
    path.parent.rmdir()


def images():
    batch = weft.randint(0, 256, (256, 3, 32, 32)).to(weft.uint8)
    mean, std = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
    chain = data.transforms.Compose([data.transforms.RandomCrop(32, 4), data.transforms.RandomHorizontalFlip(),
                                     data.transforms.ToFloat(), data.transforms.Normalize(mean, std)])
    at_once = data.transforms.CropFlipNormalize(32, 4, 0.5, mean, std)
    tell("crop, flip, float, normalize, 3 x 32 x 32", 256, "images/s", lambda: chain(batch))
    tell("CropFlipNormalize", 256, "images/s", lambda: at_once(batch))


tokenizers()
tables()
images()
