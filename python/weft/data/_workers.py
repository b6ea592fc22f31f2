"""Identification of the loader worker that calls a dataset."""

import threading
from dataclasses import dataclass
from typing import Any

here = threading.local()


@dataclass(frozen=True)
class WorkerInfo:
    id: int
    num_workers: int
    seed: int
    dataset: Any


def get_worker_info():
    """Worker index and count, inside a map-style dataset and inside an iterable one with worker processes; None
    elsewhere."""
    return getattr(here, "info", None)
