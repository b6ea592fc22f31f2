"""`weft.cuda` and `weft.hpu`: PyTorch's module of a device type, for this build's devices of that type."""

from numbers import Integral

from weft import _core


class Accelerator:
    """Functions for one device type; a device is an index, a name, or None for the first one."""

    def __init__(self, kind):
        self._kind = kind

    def __repr__(self):
        return f"weft.{self._kind}"

    def _device(self, device):
        if device is None:
            return _core.device(f"{self._kind}:0")
        return _core.device(f"{self._kind}:{device}" if isinstance(device, Integral) else device)

    def is_available(self):
        """Whether there is a device of this type."""
        return self.device_count() > 0

    def device_count(self):
        return _core.device_count(self._kind)

    def synchronize(self, device=None):
        """Waits for all work on the device."""
        _core.synchronize(self._device(device))

    def empty_cache(self):
        """Returns cached memory to the devices."""
        for i in range(self.device_count()):
            _core.empty_cache(self._device(i))

    def memory_allocated(self, device=None):
        """Bytes held by tensors."""
        return _core.memory_stats(self._device(device))["allocated"]

    def max_memory_allocated(self, device=None):
        """Peak of the bytes held by tensors."""
        return _core.memory_stats(self._device(device))["peak_allocated"]

    def memory_reserved(self, device=None):
        """Bytes allocated from the device, including the cache."""
        return _core.memory_stats(self._device(device))["reserved"]

    def manual_seed(self, seed):
        """Seeds every generator, as weft.manual_seed does."""
        _core.manual_seed(seed)

    manual_seed_all = manual_seed

    def current_stream(self, device=None):
        return _core.current_stream(self._device(device))
