"""torch.random: one generator serves the CPU and all devices."""

import contextlib

import weft
from weft.torch._top import seed  # noqa: F401

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]

get_rng_state, set_rng_state, initial_seed = weft.get_rng_state, weft.set_rng_state, weft.initial_seed


def manual_seed(seed):
    """Seeds the generators; returns the default one."""
    from weft.torch._top import manual_seed as apply

    return apply(seed)


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, device_type="cuda"):
    """Within it draws do not move the generator that is there afterwards."""
    state = weft.get_rng_state()
    try:
        yield
    finally:
        if enabled:
            weft.set_rng_state(state)
