"""Devices of plug-ins: the stub that tests/plugin builds, where it is there."""

import os
import subprocess
import sys
import textwrap

import pytest

stub = os.environ.get("WEFT_TEST_STUB", "")
pytestmark = pytest.mark.skipif(not os.path.exists(stub), reason="the stub device was not built")


def run(code, **environment):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})


def test_a_loaded_plugin_is_a_device():
    outcome = run(f"""
        import weft
        assert weft.load_device_plugin({stub!r}) == "stub"
        x = weft.arange(4, device="stub:1", dtype=weft.float32, requires_grad=True)
        (x * x).sum().backward()
        assert x.grad.device == weft.device("stub:1") and x.grad.tolist() == [0, 2, 4, 6]
        assert weft.device_count("stub") == 2
        """)
    assert outcome.returncode == 0, outcome.stderr


def test_the_environments_plugins_are_listed():
    outcome = run("""
        from weft import array_api
        assert "stub:1" in [str(d) for d in array_api.__array_namespace_info__().devices()]
        """, WEFT_PLUGINS=stub)
    assert outcome.returncode == 0, outcome.stderr


def test_a_file_that_is_none_raises():
    outcome = run("""
        import weft
        try:
            weft.load_device_plugin("/nowhere/none.so")
        except RuntimeError as error:
            assert "cannot load the plug-in /nowhere/none.so" in str(error), error
        """)
    assert outcome.returncode == 0, outcome.stderr
