"""weft.nn.lora by a shorter name."""

from weft.nn.lora import *  # noqa: F401, F403
