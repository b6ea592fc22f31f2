"""MobileNetV3 in the style of torchvision: layers by partials, divisible widths, squeeze layers, annotations."""

from collections import OrderedDict
from functools import partial
from typing import Any, Callable, List, Optional, Sequence

import torch
from torch import Tensor, nn
from common import integers, normal, start


def _make_divisible(v: float, divisor: int, min_value: Optional[int] = None) -> int:
    if min_value is None:
        min_value = divisor
    new_v = max(min_value, int(v + divisor / 2) // divisor * divisor)
    if new_v < 0.9 * v:
        new_v += divisor
    return new_v


class ConvNormActivation(torch.nn.Sequential):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int = 3, stride: int = 1,
                 padding: Optional[int] = None, groups: int = 1,
                 norm_layer: Optional[Callable[..., torch.nn.Module]] = torch.nn.BatchNorm2d,
                 activation_layer: Optional[Callable[..., torch.nn.Module]] = torch.nn.ReLU, inplace: Optional[bool] = True) -> None:
        if padding is None:
            padding = (kernel_size - 1) // 2
        layers = [torch.nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding, groups=groups, bias=norm_layer is None)]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer(**({} if inplace is None else {"inplace": inplace})))
        super().__init__(*layers)
        self.out_channels = out_channels


class SqueezeExcitation(torch.nn.Module):
    def __init__(self, input_channels: int, squeeze_channels: int, scale_activation: Callable[..., torch.nn.Module]) -> None:
        super().__init__()
        self.avgpool = torch.nn.AdaptiveAvgPool2d(1)
        self.fc1 = torch.nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = torch.nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation, self.scale_activation = torch.nn.ReLU(), scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        scale = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(input)))))
        return scale * input


class InvertedResidual(nn.Module):
    def __init__(self, inp, kernel, expanded, out, use_se, activation, stride, norm_layer: Callable[..., nn.Module],
                 se_layer: Callable[..., nn.Module] = partial(SqueezeExcitation, scale_activation=nn.Hardsigmoid)):
        super().__init__()
        if not (1 <= stride <= 2):
            raise ValueError("illegal stride value")
        self.use_res_connect = stride == 1 and inp == out
        layers: List[nn.Module] = []
        activation_layer = nn.Hardswish if activation == "HS" else nn.ReLU
        if expanded != inp:
            layers.append(ConvNormActivation(inp, expanded, 1, norm_layer=norm_layer, activation_layer=activation_layer))
        layers.append(ConvNormActivation(expanded, expanded, kernel, stride, groups=expanded, norm_layer=norm_layer,
                                         activation_layer=activation_layer))
        if use_se:
            layers.append(se_layer(expanded, _make_divisible(expanded // 4, 8)))
        layers.append(ConvNormActivation(expanded, out, 1, norm_layer=norm_layer, activation_layer=None))
        self.block = nn.Sequential(*layers)

    def forward(self, input: Tensor) -> Tensor:
        result = self.block(input)
        if self.use_res_connect:
            result += input
        return result


class MobileNetV3(nn.Module):
    def __init__(self, settings: Sequence[Any], last_channel: int, num_classes: int = 4) -> None:
        super().__init__()
        norm_layer = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        self.features = nn.Sequential(OrderedDict(
            [("stem", ConvNormActivation(3, 8, 3, 2, norm_layer=norm_layer, activation_layer=nn.Hardswish))] +
            [(f"block{i}", InvertedResidual(*s, norm_layer=norm_layer)) for i, s in enumerate(settings)]))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Linear(settings[-1][3], last_channel), nn.Hardswish(inplace=True),
                                        nn.Dropout(p=0.0, inplace=True), nn.Linear(last_channel, num_classes))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.ones_(m.weight)
                nn.init.zeros_(m.bias)
            elif isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0, 0.01)
                nn.init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


model = start(MobileNetV3([(8, 3, 16, 8, True, "RE", 1), (8, 3, 24, 16, False, "HS", 2), (16, 5, 32, 16, True, "HS", 1)], 24))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=4)
main = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=16, eta_min=0.0)
scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, schedulers=[warmup, main], milestones=[4])
losses = []
for i in range(20):
    loss = nn.functional.cross_entropy(model(normal(4, 3, 16, 16, seed=i % 3)), integers(4, 4, seed=i % 3))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
losses.append(scheduler.get_last_lr()[0])
