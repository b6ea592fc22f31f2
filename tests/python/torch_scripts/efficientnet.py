"""EfficientNet: swish with its own backward, squeeze and excitation, paddings of the input size, rounded widths."""

import collections
import math
import re
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F
from common import integers, normal, start

GlobalParams = collections.namedtuple("GlobalParams", ["width_coefficient", "depth_divisor", "num_classes", "drop_connect_rate"])
BlockArgs = collections.namedtuple("BlockArgs", ["num_repeat", "kernel_size", "stride", "expand_ratio", "input_filters",
                                                 "output_filters", "se_ratio", "id_skip"])
GlobalParams.__new__.__defaults__ = (None,) * len(GlobalParams._fields)


class SwishImplementation(torch.autograd.Function):
    @staticmethod
    def forward(ctx, i):
        result = i * torch.sigmoid(i)
        ctx.save_for_backward(i)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        i = ctx.saved_tensors[0]
        sigmoid_i = torch.sigmoid(i)
        return grad_output * (sigmoid_i * (1 + i * (1 - sigmoid_i)))


class MemoryEfficientSwish(nn.Module):
    def forward(self, x):
        return SwishImplementation.apply(x)


def round_filters(filters, global_params):
    multiplier, divisor = global_params.width_coefficient, global_params.depth_divisor
    filters *= multiplier
    new_filters = max(divisor, int(filters + divisor / 2) // divisor * divisor)
    if new_filters < 0.9 * filters:
        new_filters += divisor
    return int(new_filters)


def drop_connect(inputs, p, training):
    if not training:
        return inputs
    batch_size = inputs.shape[0]
    keep_prob = 1 - p
    random_tensor = keep_prob
    random_tensor += torch.rand([batch_size, 1, 1, 1], dtype=inputs.dtype, device=inputs.device)
    return inputs / keep_prob * torch.floor(random_tensor)


class Conv2dStaticSamePadding(nn.Conv2d):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, image_size=None, **kwargs):
        super().__init__(in_channels, out_channels, kernel_size, stride, **kwargs)
        self.stride = self.stride if len(self.stride) == 2 else [self.stride[0]] * 2
        assert image_size is not None
        ih, iw = (image_size, image_size) if isinstance(image_size, int) else image_size
        kh, kw = self.weight.size()[-2:]
        sh, sw = self.stride
        oh, ow = math.ceil(ih / sh), math.ceil(iw / sw)
        pad_h = max((oh - 1) * self.stride[0] + (kh - 1) * self.dilation[0] + 1 - ih, 0)
        pad_w = max((ow - 1) * self.stride[1] + (kw - 1) * self.dilation[1] + 1 - iw, 0)
        if pad_h > 0 or pad_w > 0:
            self.static_padding = nn.ZeroPad2d((pad_w // 2, pad_w - pad_w // 2, pad_h // 2, pad_h - pad_h // 2))
        else:
            self.static_padding = nn.Identity()

    def forward(self, x):
        x = self.static_padding(x)
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


def get_same_padding_conv2d(image_size=None):
    return partial(Conv2dStaticSamePadding, image_size=image_size)


class MBConvBlock(nn.Module):
    def __init__(self, block_args, global_params, image_size=None):
        super().__init__()
        self._block_args = block_args
        self.has_se = (self._block_args.se_ratio is not None) and (0 < self._block_args.se_ratio <= 1)
        self.id_skip = block_args.id_skip
        inp, oup = self._block_args.input_filters, self._block_args.input_filters * self._block_args.expand_ratio
        bn_mom, bn_eps = 1 - 0.99, 1e-3
        Conv2d = get_same_padding_conv2d(image_size=image_size)
        if self._block_args.expand_ratio != 1:
            self._expand_conv = Conv2d(in_channels=inp, out_channels=oup, kernel_size=1, bias=False)
            self._bn0 = nn.BatchNorm2d(num_features=oup, momentum=bn_mom, eps=bn_eps)
        k, s = self._block_args.kernel_size, self._block_args.stride
        self._depthwise_conv = Conv2d(in_channels=oup, out_channels=oup, groups=oup, kernel_size=k, stride=s, bias=False)
        self._bn1 = nn.BatchNorm2d(num_features=oup, momentum=bn_mom, eps=bn_eps)
        if self.has_se:
            num_squeezed_channels = max(1, int(inp * self._block_args.se_ratio))
            one = get_same_padding_conv2d(image_size=(1, 1))
            self._se_reduce = one(in_channels=oup, out_channels=num_squeezed_channels, kernel_size=1)
            self._se_expand = one(in_channels=num_squeezed_channels, out_channels=oup, kernel_size=1)
        final_oup = self._block_args.output_filters
        self._project_conv = Conv2d(in_channels=oup, out_channels=final_oup, kernel_size=1, bias=False)
        self._bn2 = nn.BatchNorm2d(num_features=final_oup, momentum=bn_mom, eps=bn_eps)
        self._swish = MemoryEfficientSwish()

    def forward(self, inputs, drop_connect_rate=None):
        x = inputs
        if self._block_args.expand_ratio != 1:
            x = self._swish(self._bn0(self._expand_conv(inputs)))
        x = self._swish(self._bn1(self._depthwise_conv(x)))
        if self.has_se:
            x_squeezed = F.adaptive_avg_pool2d(x, 1)
            x_squeezed = self._se_expand(self._swish(self._se_reduce(x_squeezed)))
            x = torch.sigmoid(x_squeezed) * x
        x = self._bn2(self._project_conv(x))
        if self.id_skip and self._block_args.stride == 1 and self._block_args.input_filters == self._block_args.output_filters:
            if drop_connect_rate:
                x = drop_connect(x, p=drop_connect_rate, training=self.training)
            x = x + inputs
        return x


def decode(block_string):
    options = {}
    for op in block_string.split("_"):
        splits = re.split(r"(\d.*)", op)
        if len(splits) >= 2:
            options[splits[0]] = splits[1]
    return BlockArgs(num_repeat=int(options["r"]), kernel_size=int(options["k"]), stride=[int(options["s"][0])],
                     expand_ratio=int(options["e"]), input_filters=int(options["i"]), output_filters=int(options["o"]),
                     se_ratio=float(options["se"]), id_skip=("noskip" not in block_string))


class EfficientNet(nn.Module):
    def __init__(self, blocks_args, global_params):
        super().__init__()
        self._global_params, image_size = global_params, 16
        self._conv_stem = get_same_padding_conv2d(image_size)(3, round_filters(8, global_params), kernel_size=3, stride=2,
                                                              bias=False)
        self._bn0 = nn.BatchNorm2d(num_features=8, momentum=0.01, eps=1e-3)
        image_size = math.ceil(image_size / 2)
        self._blocks = nn.ModuleList([])
        for block_args in blocks_args:
            block_args = block_args._replace(input_filters=round_filters(block_args.input_filters, global_params),
                                             output_filters=round_filters(block_args.output_filters, global_params))
            self._blocks.append(MBConvBlock(block_args, global_params, image_size=image_size))
            image_size = math.ceil(image_size / block_args.stride[0])
        self._avg_pooling, self._dropout = nn.AdaptiveAvgPool2d(1), nn.Dropout(0.0)
        self._fc, self._swish = nn.Linear(16, global_params.num_classes), MemoryEfficientSwish()

    def forward(self, inputs):
        x = self._swish(self._bn0(self._conv_stem(inputs)))
        for idx, block in enumerate(self._blocks):
            rate = self._global_params.drop_connect_rate
            x = block(x, drop_connect_rate=rate * float(idx) / len(self._blocks) if rate else rate)
        x = self._avg_pooling(x).flatten(start_dim=1)
        return self._fc(self._dropout(x))


args = [decode(s) for s in ("r1_k3_s11_e1_i8_o8_se0.25", "r1_k5_s22_e6_i8_o16_se0.25", "r1_k3_s11_e3_i16_o16_se0.25")]
model, losses = start(EfficientNet(args, GlobalParams(1.0, 8, 4, 0.0))), []
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.002, alpha=0.9, eps=1e-3, momentum=0.9, weight_decay=1e-5)
for i in range(20):
    loss = F.cross_entropy(model(normal(4, 3, 16, 16, seed=i % 3)), integers(4, 4, seed=i % 3))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert drop_connect(torch.ones(2, 1, 1, 1), 0.5, True).shape == (2, 1, 1, 1)
