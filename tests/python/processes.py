"""Tests of ranks, run once more by processes."""

import os
import shutil
import subprocess
import sys

import pytest

import weft

under_mpirun = "OMPI_COMM_WORLD_SIZE" in os.environ


def starts_processes(test):
    """For a test that starts mpirun."""
    missing = shutil.which("mpirun") is None or " MPI" not in weft.config().split("\n")[0]
    return pytest.mark.skipif(under_mpirun, reason="starts processes")(pytest.mark.skipif(missing, reason="no MPI")(test))


def passes_with_processes(file, passed):
    """Runs a file's tests on two processes, of which each passes so many."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    command = ["mpirun", "--oversubscribe", "-n", "2", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"{passed} passed") == 2
