"""Modules, in PyTorch's shape."""

from weft.nn import functional, init, utils  # noqa: F401
from weft.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential  # noqa: F401
from weft.nn.module import Buffer, Module, NativeModule, Parameter  # noqa: F401
from weft.nn.functions import *  # noqa: F401, F403
from weft.nn.layers import *  # noqa: F401, F403
from weft.nn.adaptive_softmax import *  # noqa: F401, F403
from weft.nn.convolution import *  # noqa: F401, F403
from weft.nn.lazy import *  # noqa: F401, F403
from weft.nn.recurrent import *  # noqa: F401, F403
from weft.nn.transformer import *  # noqa: F401, F403
from weft.nn.moe import *  # noqa: F401, F403
from weft.nn.causal_lm import *  # noqa: F401, F403
from weft.nn._summary import Summary, summary  # noqa: F401
from weft.nn import lora  # noqa: F401
from weft.nn.lora import LoRALinear  # noqa: F401
from weft.nn.quantize import Fp8Linear, QuantizedLinear, convert_to_fp8, quantize  # noqa: F401
from weft.nn.sync_norm import *  # noqa: F401, F403
from weft.nn.checkpointing import checkpoint_module, is_checkpointed, set_checkpointing  # noqa: F401
