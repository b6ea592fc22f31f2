"""Convolutions and the norms of channels as layers, with PyTorch's arguments and first values."""

from weft import _core
from weft.errors import ValueError
from weft.nn import functional as F
from weft.nn.described import _WithTensors, described

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "BatchNorm1d",
           "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _Convolution(_WithTensors):
    dims, switches = 0, {"bias": ("bias",)}

    def _edges(self):
        """The padding as F.pad takes it: the last dimension first; of 'same' the high side has the odd one."""
        edges = []
        for d in reversed(range(self.dims)):
            if self.padding == "same":
                reach = self.dilation[d] * (self.kernel_size[d] - 1)
                edges += [reach // 2, reach - reach // 2]
            else:
                edges += [0, 0] if self.padding == "valid" else [self.padding[d]] * 2
        return edges

    def forward(self, input):
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._edges(), self.padding_mode), 0
        return type(self).function(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self):
        text = super().extra_repr()  # C++ has no word for a padding of 0
        return text if self.padding != "valid" else text.replace(shown := f"stride={self.stride}", shown + ", padding=valid")


class _TransposedConvolution(_WithTensors):
    dims, switches = 0, {"bias": ("bias",)}

    def _set_options(self, **options):
        if options["padding_mode"] != "zeros":
            raise ValueError(f"{type(self).__name__}(): argument 'padding_mode': expected 'zeros', got {options['padding_mode']!r}")
        super()._set_options(**options)

    def forward(self, input, output_size=None):
        added = self.output_padding if output_size is None else self._output_padding(input, output_size)
        return type(self).function(input, self.weight, self.bias, self.stride, self.padding, added, self.groups,
                                   self.dilation)

    def _output_padding(self, input, output_size):
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in
                 zip(input.shape[-self.dims:], self.stride, self.padding, self.dilation, self.kernel_size)]
        return tuple(wanted - size for wanted, size in zip(tuple(output_size)[-self.dims:], least))


class _ChannelNorm(_WithTensors):
    ranks = ()
    switches = {"affine": ("weight", "bias"), "track_running_stats": ("running_mean", "running_var", "num_batches_tracked")}

    def _check(self, input):
        if input.dim() not in self.ranks:
            raise ValueError(f"{type(self).__name__}(): input: expected "
                             f"{' or '.join(map(str, self.ranks))} dimensions, got {input.dim()}")

    def _normalize(self, function, input):
        """By function, which moves the running statistics; a call that it refuses counts nothing."""
        counts = self.training and self.track_running_stats and not _core._recomputing()
        momentum = self.momentum
        if momentum is None:
            momentum = 1 / (self.num_batches_tracked.item() + 1) if counts else 0.0
        own = self.training or self.running_mean is None
        result = function(input, self.running_mean, self.running_var, self.weight, self.bias, own, momentum, self.eps)
        if counts:
            self.num_batches_tracked.add_(1)
        return result


class _BatchNorm(_ChannelNorm):
    def forward(self, input):
        self._check(input)
        return self._normalize(F.batch_norm, input)


class _InstanceNorm(_ChannelNorm):
    def forward(self, input):
        self._check(input)
        batched = input.dim() == self.ranks[-1]
        result = self._normalize(F.instance_norm, input if batched else input.unsqueeze(0))
        return result if batched else result.squeeze(0)


def _layer(name, base, document, **facts):
    globals()[name] = described(type(name, (base,), {"__doc__": document, "__module__": __name__, **facts}))


for _n, _sizes in ((1, "L"), (2, "H, W"), (3, "D, H, W")):
    _layer(f"Conv{_n}d", _Convolution, f"weft.conv{_n}d with weight [out_channels, in_channels / groups, *kernel_size].",
           dims=_n, function=staticmethod(getattr(F, f"conv{_n}d")))
    _layer(f"ConvTranspose{_n}d", _TransposedConvolution,
           f"weft.conv_transpose{_n}d with weight [in_channels, out_channels / groups, *kernel_size].",
           dims=_n, function=staticmethod(getattr(F, f"conv_transpose{_n}d")))
    _layer(f"BatchNorm{_n}d", _BatchNorm, ranks=(2, 3) if _n == 1 else (_n + 2,), document=
           f"weft.batch_norm of {'[N, C] or ' * (_n == 1)}[N, C, {_sizes}], with running statistics for evaluation.")
    _layer(f"InstanceNorm{_n}d", _InstanceNorm, f"weft.instance_norm of [N, C, {_sizes}] or [C, {_sizes}].",
           ranks=(_n + 1, _n + 2))


@described
class GroupNorm(_WithTensors):
    """weft.group_norm of [N, C, ...]."""

    switches = {"affine": ("weight", "bias")}

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)
