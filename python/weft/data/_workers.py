"""Which worker of a loader calls a dataset."""

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
    """Inside a dataset with a length, and inside an iterable one whose workers are processes, which worker of how many
    calls it; None elsewhere."""
    return getattr(here, "info", None)
