"""Files: safetensors whole and in parts, and models in several files, both ways with the package safetensors."""

import json
import os
import pathlib

import numpy as np
import pytest

import weft

reference = pytest.importorskip("safetensors.numpy")
safetensors = pytest.importorskip("safetensors")


def arrays():
    return {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array([1, -2]), "flag": np.array(True),
            "half": np.arange(4, dtype=np.float16), "none": np.zeros((0, 3), np.bool_)}


def test_files_are_those_of_the_reference_package_byte_for_byte(tmp_path):
    reference.save_file(arrays(), tmp_path / "theirs", {"who": "me"})
    loaded = weft.io.load_file(tmp_path / "theirs")
    weft.io.save_file(loaded, tmp_path / "ours", {"who": "me"})
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    for name, array in arrays().items():
        back = loaded[name].numpy()
        assert back.dtype == array.dtype and back.shape == array.shape and (back == array).all(), name
    again = reference.load_file(tmp_path / "ours")
    assert all((again[name] == array).all() for name, array in arrays().items())


def test_views_are_packed(tmp_path):
    x = weft.arange(12).reshape(3, 4)
    weft.io.save_file({"t": x.T, "r": x.clone()[:, 1:3]}, tmp_path / "f")
    back = reference.load_file(tmp_path / "f")
    assert back["t"].tolist() == x.T.tolist() and back["r"].tolist() == x[:, 1:3].tolist()


def test_a_file_is_opened_and_read_in_parts(tmp_path):
    x = np.arange(24).reshape(2, 3, 4)
    reference.save_file({"x": x, "y": np.ones(2)}, tmp_path / "f", {"a": "b"})
    with weft.io.safe_open(tmp_path / "f") as file, safetensors.safe_open(tmp_path / "f", "np") as theirs:
        assert file.keys() == ["x", "y"] and "x" in file and "z" not in file
        assert file.metadata() == {"a": "b"}
        assert file.get_tensor("x").tolist() == x.tolist()
        part = file.get_slice("x")
        assert part.get_shape() == [2, 3, 4] and part.shape == (2, 3, 4)
        for index in (np.s_[:], np.s_[1], np.s_[-1, 1:], np.s_[..., 2], np.s_[:, 1:1], np.s_[0, ..., 1:-1],
                      np.s_[1, 2, 3], np.s_[:, 2:100, -2:], np.s_[1:0]):
            assert part[index].shape == x[index].shape, index
            assert part[index].tolist() == x[index].tolist(), index
        assert part[:, 1:].tolist() == theirs.get_slice("x")[:, 1:].tolist()
        for index, kind in ((np.s_[::2], ValueError), (np.s_[2], IndexError), (np.s_[0, 0, 0, 0], IndexError),
                            (np.s_[..., ...], IndexError), ("x", TypeError)):
            with pytest.raises(kind):
                part[index]
    with pytest.raises(ValueError, match="closed"):
        file.keys()
    assert part[1, 0].tolist() == [12, 13, 14, 15]


def test_unknown_names_are_key_errors(tmp_path):
    weft.io.save_file({"x": weft.ones(2), "y": weft.ones(3)}, tmp_path / "f")
    assert list(weft.io.load_file(tmp_path / "f", names=["y"])) == ["y"]
    with pytest.raises(KeyError, match="no tensor .*z"):
        weft.io.load_file(tmp_path / "f", names=["z"])
    with pytest.raises(KeyError):
        weft.io.SafeFile(tmp_path / "f").get_tensor("z")
    with pytest.raises(KeyError):
        weft.io.SafeFile(tmp_path / "f").get_slice("z")


def test_a_file_that_may_change_is_read_at_once(tmp_path):
    path = tmp_path / "f"
    weft.io.save_file({"a": weft.arange(5000)}, path)
    loaded, file = weft.io.load_file(path, mmap=False), weft.io.SafeFile(path, mmap=False)
    opened, again = weft.io.safe_open(path, mmap=False), weft.load(path, mmap=False)
    mapped = weft.io.load_file(path, mapping="a -> b", mmap=False)
    os.truncate(path, 0)
    for a in (loaded["a"], file.get_tensor("a"), opened.get_tensor("a"), again["a"], mapped["b"]):
        assert (a == weft.arange(5000)).all()


def test_views_between_each_others_elements(tmp_path):
    w = weft.arange(12).reshape(3, 4)
    weft.io.save_file({"even": w[:, ::2], "odd": w[:, 1::2]}, tmp_path / "f")
    assert weft.io.load_file(tmp_path / "f")["odd"].tolist() == [[1, 3], [5, 7], [9, 11]]
    with pytest.raises(ValueError, match='"a" and "b" share memory'):
        weft.io.save_file({"a": w[:, ::2], "b": w[:, ::3]}, tmp_path / "f")


def test_tensors_that_are_one(tmp_path):
    w = weft.arange(4)
    with pytest.raises(ValueError, match='"a" and "b" share memory'):
        weft.io.save_file({"a": w, "b": w}, tmp_path / "f")
    weft.io.save_file({"a": w, "b": w}, tmp_path / "f", tie="alias")
    loaded = weft.io.load_file(tmp_path / "f")
    loaded["a"][0] = 9
    assert loaded["b"].tolist() == [9, 1, 2, 3]
    assert reference.load_file(tmp_path / "f")["a"].tolist() == [0, 1, 2, 3]
    with safetensors.safe_open(tmp_path / "f", "np") as file:
        assert file.metadata() == {"weft.alias.b": "a"}
    with pytest.raises(ValueError, match="'tie': expected one of"):
        weft.io.save_file({"a": w}, tmp_path / "f", tie="share")


def malformed():
    entry = '{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
    texts = {"hole": ('{"x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', 2), "trailing": ('{"x":%s}' % entry, 2),
             "overlap": ('{"x":%s,"y":%s}' % (entry, entry), 1), "metadata": ('{"__metadata__":{"a":1}}', 0),
             "cut": ('{"x":%s}' % entry, 0)}
    files = {"short": b"1234567", "length": (1 << 40).to_bytes(8, "little") + b"{}"}
    for name, (text, size) in texts.items():
        files[name] = len(text).to_bytes(8, "little") + text.encode() + bytes(size)
    return [(name, files[name]) for name in files]


@pytest.mark.parametrize("name, data", malformed(), ids=lambda v: v if isinstance(v, str) else "")
def test_files_that_the_reference_rejects_raise(tmp_path, name, data):
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(safetensors.SafetensorError):
        safetensors.safe_open(tmp_path / "f", "np")
    with pytest.raises(ValueError, match="valid safetensors|cut off"):
        weft.io.load_file(tmp_path / "f")


def test_shards_are_read_by_the_reference_package(tmp_path):
    tensors = {name: weft.tensor(array) for name, array in arrays().items()}
    names = weft.io.save_sharded(tensors, tmp_path, max_shard_size=24)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert set(index) == {"metadata", "weight_map"} and set(index["weight_map"].values()) == set(names)
    found = {}
    for name in names:
        with safetensors.safe_open(tmp_path / name, "np") as file:
            assert file.metadata() == {"format": "pt"}
        found |= reference.load_file(tmp_path / name)
    assert found.keys() == tensors.keys()
    assert all((found[name] == array).all() and found[name].dtype == array.dtype for name, array in arrays().items())
    assert index["metadata"]["total_size"] == sum(a.nbytes for a in found.values())


def test_shards_of_the_reference_package_are_loaded(tmp_path):
    reference.save_file({"a.w": np.ones(3)}, tmp_path / "model-00001-of-00002.safetensors", {"format": "pt"})
    reference.save_file({"b.w": np.arange(3)}, tmp_path / "model-00002-of-00002.safetensors", {"format": "pt"})
    index = {"metadata": {"total_size": 48}, "weight_map": {"a.w": "model-00001-of-00002.safetensors",
                                                            "b.w": "model-00002-of-00002.safetensors"}}
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(index, indent=2))
    loaded = weft.io.load_sharded(tmp_path, dtype=weft.float32)
    assert loaded["a.w"].dtype == weft.float32 and loaded["b.w"].tolist() == [0, 1, 2]
    assert weft.io.load_sharded(tmp_path, offload="disk", device_map={"a": "cpu"}).keys() == loaded.keys()
    assert weft.io.load_sharded(tmp_path, device_map={"a": "meta"})["a.w"].device.type == "meta"
    with pytest.raises(KeyError, match="fits no tensor"):
        weft.io.load_sharded(tmp_path, device_map={"c": "cpu"})
    with pytest.raises(TypeError, match="dtype"):
        weft.io.load_sharded(tmp_path, dtype=3)
    with pytest.raises(ValueError, match="offload"):
        weft.io.load_sharded(tmp_path, offload="tape")
    index["weight_map"]["b.w"] = "../b"
    path.write_text(json.dumps(index))
    with pytest.raises(ValueError, match="weight_map.b.w"):
        weft.io.load_sharded(tmp_path)


def test_the_order_of_a_dictionary_decides(tmp_path):
    tensors = {"z": weft.ones(60, dtype=weft.uint8), "b": weft.ones(60, dtype=weft.uint8), "a": weft.ones(40, dtype=weft.uint8)}
    names = weft.io.save_sharded(tensors, tmp_path, max_shard_size="100")
    assert [weft.io.SafeFile(tmp_path / n).keys() for n in names] == [["z"], ["a", "b"]]
    names = weft.io.save_sharded(reversed(list(tensors.items())), pathlib.Path(tmp_path), max_shard_size="100B")
    assert [weft.io.SafeFile(tmp_path / n).keys() for n in names] == [["a", "b"], ["z"]]
    assert weft.io.save_sharded(tensors, tmp_path) == ["model.safetensors"]
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]
    with pytest.raises(ValueError, match="no number of bytes"):
        weft.io.save_sharded(tensors, tmp_path, max_shard_size="5 gigabytes")


def test_the_functions_of_the_package_are_those_of_the_module():
    assert weft.save_file is weft.io.save_file and weft.load_file is weft.io.load_file


def test_the_page_about_saving_runs(tmp_path, monkeypatch):
    page = pathlib.Path(__file__).resolve().parents[2] / "docs" / "saving.md"
    blocks = [b.split("```")[0] for b in page.read_text(encoding="utf-8").split("```python\n")[1:]]
    assert len(blocks) == 10
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks), str(page), "exec"), {})
    assert (tmp_path / "large" / "model.safetensors.index.json").exists()


def test_streams_get_the_bytes_of_the_file_in_any_portions(tmp_path):
    tensors = {"a": weft.arange(1000), "b": weft.ones(3, 2).t()}
    weft.io.save_file(tensors, tmp_path / "whole", {"by": "me"})
    expected = (tmp_path / "whole").read_bytes()

    class Slow:
        def __init__(self):
            self.got = b""

        def write(self, data):
            self.got += data[:7]
            return min(7, len(data))

    slow = Slow()
    weft.io.save_stream(slow, tensors, {"by": "me"})
    assert slow.got == expected
    with open(tmp_path / "stream", "wb") as file:
        weft.io.save_stream(file, tensors, {"by": "me"})
    assert (tmp_path / "stream").read_bytes() == expected


def test_exceptions_of_a_stream_propagate():
    class Full:
        def write(self, data):
            raise BrokenPipeError("gone")

    with pytest.raises(BrokenPipeError, match="gone"):
        weft.io.save_stream(Full(), {"a": weft.ones(3)})
    with pytest.raises(AttributeError):
        weft.io.save_stream(object(), {"a": weft.ones(3)})
