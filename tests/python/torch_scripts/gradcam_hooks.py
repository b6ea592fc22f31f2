"""Hooks: features, gradients of activations, Grad-CAM, clipping of single gradients, counts of calls."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import integers, normal, start


class GradCAM:
    def __init__(self, model, target_layer):
        self.model, self.activations, self.gradients = model, None, None
        self.handles = [target_layer.register_forward_hook(self.save_activation),
                        target_layer.register_full_backward_hook(self.save_gradient)]

    def save_activation(self, module, input, output):
        self.activations = output.detach()

    def save_gradient(self, module, grad_input, grad_output):
        self.gradients = grad_output[0].detach()

    def __call__(self, x, class_idx=None):
        logit = self.model(x)
        score = logit[:, logit.max(1)[-1]].squeeze() if class_idx is None else logit[:, class_idx].sum()
        self.model.zero_grad()
        score.backward(retain_graph=False)
        b, k, u, v = self.gradients.size()
        alpha = self.gradients.view(b, k, -1).mean(2)
        saliency_map = F.relu((alpha.view(b, k, 1, 1) * self.activations).sum(1, keepdim=True))
        saliency_map = F.interpolate(saliency_map, size=x.shape[2:], mode="bilinear", align_corners=False)
        low, high = saliency_map.min(), saliency_map.max()
        return (saliency_map - low).div(high - low + 1e-8).data

    def remove(self):
        for handle in self.handles:
            handle.remove()


model = start(nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1), nn.ReLU(),
                            nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(6, 4)))
features, calls = {}, []


def get_activation(name):
    def hook(model, input, output):
        features[name] = output.detach()
    return hook


handle = model[0].register_forward_hook(get_activation("conv"))
pre = model[6].register_forward_pre_hook(lambda module, args: (args[0] * 0.5,))
model.register_forward_hook(lambda m, i, o: calls.append(tuple(o.shape)))
model[6].weight.register_hook(lambda grad: grad.clamp(-0.01, 0.01))
optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.5), []
for i in range(14):
    loss = F.cross_entropy(model(normal(4, 3, 8, 8, seed=i % 3)), integers(4, 4, seed=i % 3))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
losses.append(features["conv"].abs().mean().item())
handle.remove()
pre.remove()
cam = GradCAM(model, model[2])
for class_idx in range(4):
    losses.append(cam(normal(2, 3, 8, 8, seed=9), class_idx).sum().item())
cam.remove()
x = normal(2, 3, 8, 8, seed=4).requires_grad_()
hidden = model[0](x)
hidden.retain_grad()
model[1:](hidden)[:, 0].sum().backward()
losses += [x.grad.data.abs().max().item(), hidden.grad.norm().item(), float(len(calls))]
saliency, _ = torch.max(x.grad.data.abs(), dim=1)
assert saliency.shape == (2, 8, 8)
