"""Convolutions and the norms of channels as layers, with PyTorch's arguments and first values."""

from weft import _core
from weft.errors import ValueError
from weft.nn import functional as F
from weft.nn.described import _WithTensors, _each, described
from weft.nn.layers import _Layer

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "BatchNorm1d",
           "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


def _check_counts(layer, **options):
    """Raises ValueError for a list that has neither one size nor one for each dimension."""
    for name, sizes in options.items():
        if len(sizes) != layer.dims:
            raise ValueError(f"{type(layer).__name__}(): argument '{name}': expected 1 or {layer.dims} sizes, got {len(sizes)}")


class _Convolution(_Layer):
    dims = 0
    function = None

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None):
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(f"{type(self).__name__}(): argument 'padding_mode': expected 'zeros', 'reflect', 'replicate' or "
                             f"'circular', got {padding_mode!r}")
        self.in_channels, self.out_channels, self.groups, self.padding_mode = in_channels, out_channels, groups, padding_mode
        sizes = [_each(value, self.dims) for value in (kernel_size, stride, dilation)]
        self.kernel_size, self.stride, self.dilation = sizes
        self.padding = padding if isinstance(padding, str) else _each(padding, self.dims)
        _check_counts(self, kernel_size=self.kernel_size, stride=self.stride, dilation=self.dilation,
                      **({} if isinstance(padding, str) else {"padding": self.padding}))
        super().__init__(_core._conv(in_channels, out_channels, self.kernel_size, self.stride, self.padding,
                                     self.dilation, groups, bias, padding_mode), device, dtype)
        if not bias:
            self.bias = None

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


class Conv1d(_Convolution):
    """weft.conv1d with weight [out_channels, in_channels / groups, kernel_size]."""
    dims, function = 1, staticmethod(F.conv1d)


class Conv2d(_Convolution):
    """weft.conv2d with weight [out_channels, in_channels / groups, *kernel_size]."""
    dims, function = 2, staticmethod(F.conv2d)


class Conv3d(_Convolution):
    """weft.conv3d with weight [out_channels, in_channels / groups, *kernel_size]."""
    dims, function = 3, staticmethod(F.conv3d)


class _TransposedConvolution(_Layer):
    dims = 0
    function = None

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
                 dilation=1, padding_mode="zeros", device=None, dtype=None):
        if padding_mode != "zeros":
            raise ValueError(f"{type(self).__name__}(): argument 'padding_mode': expected 'zeros', got {padding_mode!r}")
        self.in_channels, self.out_channels, self.groups, self.padding_mode = in_channels, out_channels, groups, padding_mode
        sizes = [_each(value, self.dims) for value in (kernel_size, stride, padding, output_padding, dilation)]
        self.kernel_size, self.stride, self.padding, self.output_padding, self.dilation = sizes
        _check_counts(self, kernel_size=self.kernel_size, stride=self.stride, padding=self.padding,
                      output_padding=self.output_padding, dilation=self.dilation)
        super().__init__(_core._conv_transpose(in_channels, out_channels, self.kernel_size, self.stride, self.padding,
                                               self.output_padding, groups, bias, self.dilation), device, dtype)
        if not bias:
            self.bias = None

    def forward(self, input, output_size=None):
        added = self.output_padding if output_size is None else self._output_padding(input, output_size)
        return type(self).function(input, self.weight, self.bias, self.stride, self.padding, added, self.groups,
                                   self.dilation)

    def _output_padding(self, input, output_size):
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in
                 zip(input.shape[-self.dims:], self.stride, self.padding, self.dilation, self.kernel_size)]
        return tuple(wanted - size for wanted, size in zip(tuple(output_size)[-self.dims:], least))


class ConvTranspose1d(_TransposedConvolution):
    """weft.conv_transpose1d with weight [in_channels, out_channels / groups, kernel_size]."""
    dims, function = 1, staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_TransposedConvolution):
    """weft.conv_transpose2d with weight [in_channels, out_channels / groups, *kernel_size]."""
    dims, function = 2, staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_TransposedConvolution):
    """weft.conv_transpose3d with weight [in_channels, out_channels / groups, *kernel_size]."""
    dims, function = 3, staticmethod(F.conv_transpose3d)


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


def _norm(name, base, ranks, document):
    globals()[name] = described(name, base, document)
    globals()[name].ranks = ranks


for _n, _sizes in ((1, "L"), (2, "H, W"), (3, "D, H, W")):
    _norm(f"BatchNorm{_n}d", _BatchNorm, (2, 3) if _n == 1 else (_n + 2,),
          f"weft.batch_norm of {'[N, C] or ' * (_n == 1)}[N, C, {_sizes}], with running statistics for evaluation.")
    _norm(f"InstanceNorm{_n}d", _InstanceNorm, (_n + 1, _n + 2), f"weft.instance_norm of [N, C, {_sizes}] or [C, {_sizes}].")


class _GroupNorm(_WithTensors):
    """weft.group_norm of [N, C, ...]."""

    switches = {"affine": ("weight", "bias")}

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


GroupNorm = described("GroupNorm", _GroupNorm, _GroupNorm.__doc__)
