"""The module as a part of a process: leaks, exits, signals, forks, hostile objects."""

import gc
import os
import signal
import struct
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import weft


def run(code, **keywords):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120,
                          **keywords)


def test_thread_locals_fit_into_the_static_tls_of_the_loader():
    # A module is loaded late, and what its threads hold comes out of some 1.6 KiB that glibc keeps for all of them.
    with open(weft._core.__file__, "rb") as file:
        elf = file.read(64)
        offset, size, count = (struct.unpack_from(f, elf, at)[0] for f, at in (("<Q", 32), ("<H", 54), ("<H", 56)))
        file.seek(offset)
        headers = [struct.unpack_from("<IIQQQQQQ", file.read(size)) for _ in range(count)]
    thread_local = 7
    assert sum(h[6] for h in headers if h[0] == thread_local) < 1536


def test_ten_thousand_cycles_leak_nothing():
    w = weft.ones(3, requires_grad=True)

    def cycle():
        y = (w * 2).exp()
        y.register_hook(lambda g: g)
        y.sum().backward()
        weft.from_dlpack(np.from_dlpack(w.detach()))[1:].reshape(-1).numpy()

    cycle()
    gc.collect()
    before = weft.live_tensors()
    for _ in range(10_000):
        cycle()
    gc.collect()
    assert weft.live_tensors() == before


def test_exit_with_live_tensors_and_workers_is_clean():
    done = run("""
        import threading, weft, atexit
        w = weft.ones(300, 300, requires_grad=True)
        y = (w @ w).sum()
        y.register_hook(lambda g: print("never"))
        kept = [w, y, weft.tensor([1.0]).numpy(), weft.ones(2).__dlpack__()]
        def work():
            while True:
                (w @ w).sum().backward()
        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
        import time; time.sleep(0.2)
        import builtins; builtins.kept = kept
        print("end")
        """)
    assert done.returncode == 0 and done.stdout == "end\n" and done.stderr == ""


def test_threads_that_call_hooks_outlive_python():
    done = run("""
        import ctypes, sys, threading, weft
        libc = ctypes.CDLL(None)
        libc.on_exit.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        # After Python has ended the process goes on for its status in microseconds.
        libc.on_exit(ctypes.cast(libc.usleep, ctypes.c_void_p), None)
        running = threading.Barrier(3)
        def work():
            x = weft.ones(1000, requires_grad=True)
            first = True
            while True:
                y = x * 2
                y.register_hook(lambda g: g)
                y.sum().backward()
                if first:
                    running.wait()
                first = False
        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
        running.wait()
        sys.exit(1 << 18)
        """)
    assert done.returncode == 0 and done.stdout == "" and done.stderr == ""


def test_an_interrupt_stops_a_loop_of_ops():
    done = run("""
        import os, signal, threading, weft
        x = weft.ones(200, 200)
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            while True:
                (x @ x).sum().item()
        except KeyboardInterrupt:
            print("interrupted")
        """)
    assert done.stdout == "interrupted\n"


def test_signals_in_the_middle_of_products_harm_nothing():
    done = run("""
        import signal, weft
        hits = 0
        def count(*_):
            global hits
            hits += 1
        signal.signal(signal.SIGALRM, count)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        x = weft.ones(200, 200)
        while hits < 100:
            y = x @ x
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert bool((y == 200).all())
        print("fine")
        """)
    assert done.stdout == "fine\n" and done.returncode == 0


def test_an_interrupt_in_a_hook_ends_backward():
    def interrupt(g):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

    x = weft.ones(2, requires_grad=True)
    x.register_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        (x * 2).sum().backward()


class Hostile:
    """Says that it is everything, and fails at it."""

    def __getattr__(self, name):
        raise RuntimeError("hostile")

    def __index__(self):
        raise RuntimeError("hostile")

    def __len__(self):
        raise RuntimeError("hostile")

    def __iter__(self):
        raise RuntimeError("hostile")

    __float__ = __bool__ = __hash__ = __index__


strange = [None, 1j, "a", b"a", object(), [], {}, set(), Hostile(), int, weft, 10**40, float("nan"), [[]], [None], ..., slice(1),
           np.ones(2), np.array("a"), lambda: 0, weft.float32, weft.device("cpu"), [weft.ones(1), 1], "\ud800", range(3)]


def test_any_object_anywhere_is_an_error_and_never_a_crash():
    x = weft.ones(2, 2)
    allowed = (TypeError, ValueError, IndexError, OverflowError, NotImplementedError, RuntimeError, BufferError,
               MemoryError, AttributeError, UnicodeError)
    for name, op in weft._core._ops.items():
        if name in ("empty", "zeros", "ones", "full", "eye", "rand", "randn", "randperm", "arange", "linspace", "tile",
                    "repeat", "expand", "broadcast_to", "one_hot", "logspace", "geomspace", "normal", "multinomial",
                    "hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window"):
            objects = [s for s in strange if not isinstance(s, (int, float)) or s is True]
        else:
            objects = strange
        for s in objects:
            for arguments in ((s,), (x, s), (s, x), (x, x, s), (x, s, s), (x, 0, s)):
                try:
                    op(*arguments)
                except allowed:
                    pass
    x = weft.ones(2, 2)  # some ops change the shape in place
    for name in dir(weft.Tensor):
        if name == "imag":  # of complex tensors alone
            continue
        method = getattr(x, name)
        if name.startswith("__") or not callable(method) or name in weft._core._ops:
            continue
        for s in strange:
            for arguments in ((s,), (s, s)):
                try:
                    method(*arguments)
                except allowed:
                    pass
                x = weft.ones(2, 2)


def test_functions_of_the_module_survive_strange_objects(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # "a" is a path to some of them
    allowed = (TypeError, ValueError, IndexError, OverflowError, NotImplementedError, RuntimeError, BufferError,
               MemoryError, AttributeError, UnicodeError, KeyError, OSError, AssertionError)
    for name in dir(weft._core):
        function = getattr(weft._core, name)
        if not callable(function) or name.startswith("__") or isinstance(function, type) or name in (
                "set_memory_limit", "_set_grad_mode", "_pass_over_files_in"):  # what they set outlives the test
            continue
        for s in strange:
            for arguments in ((), (s,), (s, s), (weft.ones(1), s), ([weft.ones(1)], s)):
                try:
                    function(*arguments)
                except allowed:
                    pass
    for kind in (weft.Tensor, weft.Generator, weft.device, weft.dtype, weft.HookHandle, weft.nn.Parameter):
        for s in strange:
            try:
                kind(s)
            except allowed:
                pass
    # A handle made without its constructor.
    with pytest.raises(TypeError):
        weft.HookHandle()


def test_a_list_that_changes_while_it_is_read():
    class Shrinking:
        def __index__(self):
            values.clear()
            return 1

    values = [Shrinking(), 2, 3]
    assert weft.zeros(values).shape == (1, 2, 3)


def test_importing_needs_no_numpy():
    assert run("import sys, weft; assert 'numpy' not in sys.modules; print(weft.ones(2) + 1)").returncode == 0


def test_a_forked_child_can_compute():
    done = run("""
        import os, weft
        x = weft.ones(100, 100)
        (x @ x).sum().item()
        child = os.fork()
        if child == 0:
            os._exit(0 if (weft.ones(3) + 1).sum().item() == 6 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        print("fine")
        """)
    assert done.stdout == "fine\n"
