"""Memory by line, from Python."""

import json

import pytest
import weft
from weft.hooks import GradientRecorder, MemoryHistory, memory_snapshot


def test_memory_that_is_not_there_is_an_error_with_figures():
    before = weft.memory_stats()
    with pytest.raises(weft.OutOfMemoryError, match=r"no \d+ bytes on cpu(.|\n)*test_memory.py:\d+") as caught:
        weft.empty(1 << 60, dtype=weft.uint8)
    error = caught.value
    assert isinstance(error, MemoryError)
    assert error.requested == 1 << 60 and error.limit == 0 and error.device == weft.device("cpu")
    assert error.free > 0 and error.reserved >= error.allocated >= before["allocated"]
    assert "limit" not in str(error)
    weft.set_memory_limit("cpu", before["allocated"] + (1 << 20))
    try:
        with pytest.raises(weft.OutOfMemoryError, match="raise set_memory_limit") as caught:
            weft.ones(1 << 20)
        assert caught.value.limit == before["allocated"] + (1 << 20)
    finally:
        weft.set_memory_limit("cpu", 0)


@pytest.mark.parametrize("call", [weft.memory_stats, weft.empty_cache, weft.synchronize, memory_snapshot,
                                  lambda device: weft.set_memory_limit(device, 1)])
def test_a_device_that_is_not_there_is_an_error_with_the_line(call):
    with pytest.raises(RuntimeError, match=r"there is no device hpu:77(.|\n)*test_memory.py:\d+"):
        call("hpu:77")


def test_a_kind_of_device_that_is_not_known_is_an_error_with_the_line():
    with pytest.raises(RuntimeError, match=r"unknown device 'gpu'(.|\n)*test_memory.py:\d+"):
        weft.device_count("gpu")


def test_tensors_are_named_by_their_python_line_and_kind():
    net = weft.nn.Linear(64, 32)
    optimizer = weft.optim.Adam(net.parameters(), lr=1e-3)
    with MemoryHistory(net) as history:
        kept = net(weft.randn(16, 64))
        kept.sum().backward()
        optimizer.step()
        history.step()
        seen = history.snapshot()
        assert seen["kinds"]["parameter"] == seen["kinds"]["gradient"] == 4 * (64 * 32 + 32)
        assert seen["kinds"]["optimizer"] == 2 * seen["kinds"]["parameter"]
        assert sum(seen["kinds"].values()) + seen["unknown"] == seen["allocated"]
        output = next(t for t in seen["tensors"] if t["kind"] == "activation" and t["bytes"] == 16 * 32 * 4)
        assert output["op"] == "linear" and output["file"].endswith("test_memory.py")
        assert history.peak()["allocated"] >= sum(seen["kinds"].values())
        assert history.svg().startswith("<svg") and "parameter" in history.text()
        with pytest.raises(ValueError, match="another one lives"):
            MemoryHistory()
    with pytest.raises(ValueError, match="closed"):
        history.step()


def test_growing_memory_is_named():
    net = weft.nn.Linear(64, 32)
    for keeps in (True, False):
        held = []
        with MemoryHistory(net) as history:
            for _ in range(6):
                loss = net(weft.randn(16, 64)).square().mean()
                held.append(loss if keeps else loss.item())
                history.step()
            said = history.growth_text()
        assert ("test_memory.py" in said and "more in each of" in said) if keeps else said == ""


def test_without_a_history_large_tensors_are_known():
    large = weft.zeros(1 << 19)
    found = [t for t in memory_snapshot()["tensors"] if t["bytes"] == 4 << 19 and t["file"].endswith("test_memory.py")]
    assert found and large.numel() == 1 << 19


def test_a_modules_forward_that_threw_is_left():
    class Fails(weft.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = weft.nn.Linear(2, 2)

        def forward(self, x):
            self.inner(x)
            raise LookupError("on purpose")

    net = Fails()
    with MemoryHistory(net) as history:
        with pytest.raises(LookupError):
            net(weft.ones(1, 2))
        outside = weft.zeros(1000)
        made = next(t for t in history.snapshot()["tensors"] if t["bytes"] == 4000)
        assert made["module"] == "" and outside.numel() == 1000
        net.forward = lambda x: weft.zeros(2000) + net.inner(weft.ones(100, 2)).sum()
        kept = net(weft.ones(1, 2))
        assert kept.numel() == 2000


def test_a_recorders_lines_have_the_memory_of_each_step():
    net = weft.nn.Linear(64, 64)
    with MemoryHistory(net) as history:
        recorder = GradientRecorder(net)
        for _ in range(3):
            net(weft.randn(32, 64)).sum().backward()
            history.step()
            recorder.step()
    lines = [json.loads(line) for line in recorder.json_lines()]
    assert all(line["memory"][0]["device"] == "cpu" and line["memory"][0]["peak"] >= line["memory"][0]["kept"] > 0 for line in lines)
    last = [line["memory"][0] for line in lines if "course" in line["memory"][0]]
    assert len(last) == 1 and last[0]["course"][0][0] == 0 and any("KiB: " in text for text in last[0]["at_peak"])
