"""Files of PyTorch and NumPy: tests/io/pt_cases has files of torch.save with PyTorch's description."""

import io
import json
import pathlib
import zipfile

import numpy as np
import pytest
import safetensors.numpy

import weft

cases = pathlib.Path(__file__).parent.parent / "io" / "pt_cases"


def lacks_zip():
    with pytest.raises(OSError) as raised:
        weft.load_npz(cases / "nowhere.npz")
    return "no zip archives" in str(raised.value)


needs_zip = pytest.mark.skipif(lacks_zip(), reason="built without libzip")


def described(value):
    """The value as JSON says it: expected.json describes the same."""
    kind = value["kind"]
    if kind == "tensor":
        if value["values"] == "zeros":
            return [0.0] * value["shape"][0]
        return value["values"]
    if kind in ("list", "tuple", "set"):
        return {"list": list, "tuple": tuple, "set": set}[kind](described(v) for v in value["items"])
    if kind == "dict":
        return {described(k): described(v) for k, v in value["entries"]}
    if kind == "bytes":
        return bytes(value["value"])
    return None if kind == "none" else value["value"]


def plain(value):
    if isinstance(value, weft.Tensor):
        flat = value.detach().reshape(-1)
        return (flat.to(weft.float64) if value.dtype.is_floating_point else flat).tolist()
    if isinstance(value, (list, tuple, set)):
        return type(value)(plain(v) for v in value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return str(value).removeprefix("weft.") if isinstance(value, weft.dtype) else value


def types_agree(value, expected):
    kinds = {"boolean": bool, "integer": int, "floating": float, "string": str, "bytes": bytes, "list": list,
             "tuple": tuple, "set": set, "dict": dict, "tensor": weft.Tensor, "none": type(None), "device": str,
             "dtype": weft.dtype}
    assert type(value) is kinds[expected["kind"]]
    if isinstance(value, dict):
        for (key, held), (k, v) in zip(value.items(), expected["entries"], strict=True):
            types_agree(key, k)
            types_agree(held, v)
    elif isinstance(value, (list, tuple)):
        for held, v in zip(value, expected["items"], strict=True):
            types_agree(held, v)
    elif isinstance(value, weft.Tensor):
        assert str(value.dtype).removeprefix("weft.") == expected["dtype"]
        assert list(value.shape) == expected["shape"] and value.requires_grad == expected["requires_grad"]


@needs_zip
@pytest.mark.parametrize("name, expected", json.loads((cases / "expected.json").read_text()).items())
def test_files_of_torch_save(name, expected):
    value = weft.load_pt(cases / name)
    types_agree(value, expected)
    assert plain(value) == described(expected)


@needs_zip
def test_shared_objects_of_a_file_are_one_object():
    shared = weft.load_pt(cases / "shared.pt")
    assert shared["encoder"] is shared["decoder"] and shared["weight"] is shared["again"]
    shared["transposed"][2, 1] = 50
    assert shared["weight"].tolist() == [[0, 1, 2], [3, 4, 50]] and shared["one"].item() == 4
    tree = weft.load_pt(str(cases / "tree.pt"))
    tree["twice"][0].append(3)
    assert tree["twice"][1] == [1, 2, 3]


@needs_zip
def test_weights_reach_a_module():
    class Net(weft.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = weft.nn.Linear(2, 3)
            self.norm = weft.nn.BatchNorm1d(3)

    state = weft.load_pt(cases / "training.pt")["model"]
    net = Net()
    net.load_state_dict(state)
    assert net.fc.weight.tolist() == state["fc.weight"].tolist()
    assert net.norm.num_batches_tracked.item() == 1


@needs_zip
@pytest.mark.parametrize("name, kind, words", [
    ("quantised.pt", TypeError, "is quantised"),
    ("module.pt", ValueError, 'the global "torch.nn.modules.linear.Linear" is refused'),
    ("legacy.pt", ValueError, "before 1.6"),
    ("rank9.pt", ValueError, "9 dimensions"),
    ("nowhere.pt", OSError, "cannot open"),
])
def test_rejected_files(name, kind, words):
    with pytest.raises(kind, match=words) as raised:
        weft.load_pt(cases / name)
    assert "test_files.py" in str(raised.value)


@needs_zip
@pytest.mark.parametrize("compressed", [False, True])
def test_npz_both_ways(tmp_path, compressed):
    x = {"a": weft.arange(4.0), "folder/b": weft.ones(2, 2, dtype=weft.bool), "n": weft.tensor(3)}
    weft.save_npz(x, tmp_path / "x.npz", compressed=compressed)
    with np.load(tmp_path / "x.npz") as back:
        assert {k: v.tolist() for k, v in back.items()} == {k: v.tolist() for k, v in x.items()}
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    assert {i.compress_type for i in zipfile.ZipFile(tmp_path / "x.npz").infolist()} == {method}
    (np.savez_compressed if compressed else np.savez)(tmp_path / "y.npz", np.arange(3), b=np.float32(2))
    back = weft.load_npz(tmp_path / "y.npz")
    assert back["arr_0"].tolist() == [0, 1, 2] and back["b"].item() == 2 and back["b"].dtype is weft.float32


@needs_zip
def test_npz_refuses(tmp_path):
    with pytest.raises(TypeError, match="NumPy has no bfloat16"):
        weft.save_npz({"a": weft.ones(1, dtype=weft.bfloat16)}, tmp_path / "x.npz")
    np.savez(tmp_path / "o.npz", text=np.array(["a"]))
    with pytest.raises(TypeError, match="no counterpart"):
        weft.load_npz(tmp_path / "o.npz")
    (tmp_path / "bad.npz").write_bytes(b"PK\3\4")
    with pytest.raises(ValueError, match="not a valid zip archive"):
        weft.load_npz(tmp_path / "bad.npz")


def test_a_trainings_state_is_saved_as_one_file(tmp_path):
    net = weft.nn.Linear(3, 4)
    optimizer = weft.optim.AdamW(net.parameters(), lr=1e-3)
    net(weft.randn(2, 3)).sum().backward()
    optimizer.step()
    shared = weft.ones(2)
    state = {"model": net.state_dict(), "opt": optimizer.state_dict(), "epoch": 3, "best": float("inf"), "name": "é",
             "parts": [1, (2, None), True, shared, shared], 5: weft.arange(3), "a.b": weft.zeros(1), "a": {"b": weft.ones(1)}}
    weft.save(state, tmp_path / "state")
    for file in (tmp_path / "state", io.BytesIO((tmp_path / "state").read_bytes())):
        back = weft.load(file, weights_only=True)
        assert list(back) == list(state)
        assert (back["epoch"], back["best"], back["name"], back["parts"][1:3]) == (3, float("inf"), "é", [(2, None), True])
        assert back["parts"][3].data_ptr() == back["parts"][4].data_ptr()
        assert back[5].tolist() == [0, 1, 2] and back["a.b"].item() == 0 and back["a"]["b"].item() == 1
        other = weft.nn.Linear(3, 4)
        other.load_state_dict(back["model"])
        assert weft.equal(other.weight, net.weight)
        weft.optim.AdamW(other.parameters(), lr=1e-3).load_state_dict(back["opt"])
    file = io.BytesIO()
    weft.save(net.state_dict(), file)
    assert file.getvalue() == (weft.save(net.state_dict(), tmp_path / "plain"), (tmp_path / "plain").read_bytes())[1]
    assert set(safetensors.numpy.load_file(tmp_path / "plain")) == {"weight", "bias"}


def test_errors_name_the_unsupported_object(tmp_path):
    for bad, said in (({"a": [1, object()]}, "'a.1' is a object"), ({"a": {(1, 2): 3}}, "key at 'a': expected a text, a number or None, got tuple")):
        with pytest.raises(TypeError, match=said):
            weft.save(bad, tmp_path / "bad")
    assert not (tmp_path / "bad").exists()
    with pytest.raises(ValueError, match="weights_only"):
        weft.load(tmp_path / "bad", weights_only=False)
    for tree in ("{", '{"tensor": "b"}', '{"dict": 3}', '{"dict": [[1]]}', '{"x": 1, "y": 2}', "[" * 100000, '{"dict": [[[], 1]]}'):
        weft.save_file({"a": weft.ones(1)}, tmp_path / "bad", {"weft.tree": tree})
        with pytest.raises(ValueError, match="do not describe"):
            weft.load(tmp_path / "bad")


def test_load_reads_files_of_pytorch():
    cases = pathlib.Path(__file__).parent.parent / "io" / "pt_cases"
    assert weft.load(cases / "training.pt").keys() == weft.load_pt(cases / "training.pt").keys()
