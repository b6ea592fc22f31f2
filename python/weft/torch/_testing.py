"""Names of torch.testing beside weft.testing."""

import random

import weft

__all__ = ["assert_allclose", "make_tensor"]


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """assert_close without a comparison of dtypes."""
    weft.testing.assert_close(weft.as_tensor(actual), weft.as_tensor(expected), rtol=rtol, atol=atol, equal_nan=equal_nan,
                              check_dtype=False, msg=msg or None)


def make_tensor(*shape, dtype, device="cpu", low=None, high=None, requires_grad=False, noncontiguous=False,
                exclude_zero=False, memory_format=None):
    """A tensor of numbers drawn from [low, high)."""
    shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    low, high = -9 if low is None else low, 9 if high is None else high
    low = 0 if dtype in (weft.bool, weft.uint8) else low
    made = weft.rand(tuple(shape)) * (high - low) + low
    made = (made > low + random.random() if dtype is weft.bool else made).to(dtype).to(device)
    if exclude_zero:
        made[made == 0] = 1
    return made.requires_grad_() if requires_grad else made
