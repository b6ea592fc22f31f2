"""`torch.cuda.amp`: autocast and GradScaler without an argument for the device."""

from weft.torch import _amp

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

custom_fwd, custom_bwd = _amp.custom_fwd, _amp.custom_bwd


class autocast(_amp.autocast):
    """torch.amp.autocast("cuda")."""

    def __init__(self, enabled=True, dtype=None, cache_enabled=True):
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(_amp.GradScaler):
    """torch.amp.GradScaler("cuda")."""

    def __init__(self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
