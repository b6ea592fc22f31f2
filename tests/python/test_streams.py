"""Streams and events in Python, on the CPU and, where there is one, on a device."""

import threading

import pytest

import weft


def test_a_stream_is_current_inside_its_block(device):
    outside = weft.current_stream(device)
    assert outside == weft.default_stream(device) and outside.stream_id == 0
    side = weft.Stream(device)
    assert side.device == weft.device(device) and hash(side) == hash(side) and "Stream" in repr(side)
    with weft.stream(side):
        assert weft.current_stream(device) == side
        with weft.stream(outside):
            assert weft.current_stream(device) == outside
        assert weft.current_stream(device) == side
    assert weft.current_stream(device) == outside


def test_a_block_ends_where_an_error_leaves_it(device):
    side = weft.Stream(device)
    with pytest.raises(KeyError):
        with weft.stream(side):
            raise KeyError
    assert weft.current_stream(device) == weft.default_stream(device)


def test_streams_wait_for_streams_and_events(device):
    side = weft.Stream(device)
    x = weft.arange(1000.0, device=device)
    for _ in range(20):
        side.wait_stream(weft.current_stream(device))
        with weft.stream(side):
            y = x * 2
            done = weft.Event()
            done.record(side)
        weft.current_stream(device).wait_event(done)
        x = y / 2
    assert (x == weft.arange(1000.0, device=device)).all().item()
    side.synchronize()
    assert side.query() and done.query()


def test_events_tell_the_time_between_them(device):
    start, end = weft.Event(enable_timing=True), weft.Event(enable_timing=True)
    start.record(device=device)
    weft.ones(1000, device=device).exp().sum()
    end.record(weft.current_stream(device))
    end.synchronize()
    assert 0 <= start.elapsed_time(end) < 1e4
    with pytest.raises(ValueError):
        weft.Event().elapsed_time(end)


def test_functions_of_the_host_run_in_order_and_their_errors_come_at_the_next_wait(device):
    stream, seen = weft.Stream(device), []
    for i in range(5):
        stream.call(lambda i=i: seen.append(i))
    stream.synchronize()
    assert seen == [0, 1, 2, 3, 4]

    def fails():
        raise KeyError("of the program's own")

    with pytest.raises(KeyError):
        stream.call(fails)
        stream.synchronize()
    stream.synchronize()


def test_waiting_lets_other_threads_run(device):
    stream, go, seen = weft.Stream(device), threading.Event(), []
    if device == "cpu":
        return
    stream.call(go.wait)
    thread = threading.Thread(target=lambda: (seen.append(1), go.set()))
    thread.start()
    stream.synchronize()
    thread.join()
    assert seen == [1]


def test_copies_need_not_block(device):
    x = weft.arange(10000.0)
    if device == "cpu":
        assert not x.is_pinned()
        return
    pinned = x.pin_memory()
    assert pinned.is_pinned() and pinned.pin_memory() is not None and (pinned == x).all().item()
    there = pinned.to(device, non_blocking=True)
    back = there.to("cpu", non_blocking=True)
    assert back.is_pinned()
    weft.synchronize(device)
    assert (back == x).all().item()
    target = weft.zeros(10000, device=device)
    assert target.copy_(pinned, non_blocking=True) is target
    there.record_stream(weft.current_stream(device))
    assert (target == there).all().item()
    assert weft.ones(3).to(weft.float64, True).dtype is weft.float64


def test_an_absent_device_raises_with_the_line():
    with pytest.raises(RuntimeError, match="test_streams.py"):
        weft.Stream("hpu:77")
    with pytest.raises(RuntimeError, match="hpu:77"):
        weft.synchronize("hpu:77")
