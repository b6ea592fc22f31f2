import os

import numpy
import pytest

import weft

devices = ["cpu"] + [f"hpu:{i}" for i in range(min(1, weft.device_count("hpu")))]


@pytest.fixture(params=devices)
def device(request):
    return request.param


@pytest.fixture(autouse=True)
def seeded():
    weft.manual_seed(0)
    yield


@pytest.fixture
def installed():
    """`import torch` means Weft."""
    from weft import torch

    torch.install()
    yield
    torch.uninstall()


@pytest.fixture
def rng():
    return numpy.random.default_rng(0)


def pytest_report_header():
    return f"weft {weft.__version__}, numpy {numpy.__version__}, devices {devices}, driver " + \
        os.environ.get("ZE_ENABLE_ALT_DRIVERS", "of the machine")
