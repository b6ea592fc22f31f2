"""Neural style transfer: gram matrices, losses as layers, L-BFGS on the picture."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from common import start, uniform


class ContentLoss(nn.Module):
    def __init__(self, target):
        super(ContentLoss, self).__init__()
        self.target = target.detach()

    def forward(self, input):
        self.loss = F.mse_loss(input, self.target)
        return input


def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    G = torch.mm(features, features.t())
    return G.div(a * b * c * d)


class StyleLoss(nn.Module):
    def __init__(self, target_feature):
        super(StyleLoss, self).__init__()
        self.target = gram_matrix(target_feature).detach()

    def forward(self, input):
        self.loss = F.mse_loss(gram_matrix(input), self.target)
        return input


class Normalization(nn.Module):
    def __init__(self, mean, std):
        super(Normalization, self).__init__()
        self.mean = torch.tensor(mean).view(-1, 1, 1)
        self.std = torch.tensor(std).view(-1, 1, 1)

    def forward(self, img):
        return (img - self.mean) / self.std


cnn = start(nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1), nn.ReLU(),
                          nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, padding=1))).eval().requires_grad_(False)


def get_style_model_and_losses(cnn, style_img, content_img):
    cnn = copy.deepcopy(cnn)
    content_losses, style_losses = [], []
    model = nn.Sequential(Normalization([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    i = 0
    for layer in cnn.children():
        if isinstance(layer, nn.Conv2d):
            i += 1
            name = "conv_{}".format(i)
        elif isinstance(layer, nn.ReLU):
            name = "relu_{}".format(i)
            layer = nn.ReLU(inplace=False)
        elif isinstance(layer, nn.MaxPool2d):
            name = "pool_{}".format(i)
        else:
            raise RuntimeError("Unrecognized layer: {}".format(layer.__class__.__name__))
        model.add_module(name, layer)
        if name in ["conv_2"]:
            content_losses.append(ContentLoss(model(content_img).detach()))
            model.add_module("content_loss_{}".format(i), content_losses[-1])
        if name in ["conv_1", "conv_2", "conv_3"]:
            style_losses.append(StyleLoss(model(style_img).detach()))
            model.add_module("style_loss_{}".format(i), style_losses[-1])
    for i in range(len(model) - 1, -1, -1):
        if isinstance(model[i], ContentLoss) or isinstance(model[i], StyleLoss):
            break
    return model[:(i + 1)], style_losses, content_losses


style_img, content_img = uniform(1, 3, 10, 10, seed=1), uniform(1, 3, 10, 10, seed=2)
input_img = content_img.clone()
model, style_losses, content_losses = get_style_model_and_losses(cnn, style_img, content_img)
input_img.requires_grad_(True)
model.eval()
model.requires_grad_(False)
optimizer, losses, run = optim.LBFGS([input_img], lr=0.5, max_iter=5), [], [0]
while run[0] < 20:
    def closure():
        with torch.no_grad():
            input_img.clamp_(0, 1)
        optimizer.zero_grad()
        model(input_img)
        style_score, content_score = 0, 0
        for sl in style_losses:
            style_score += sl.loss
        for cl in content_losses:
            content_score += cl.loss
        style_score *= 1000
        loss = style_score + content_score
        loss.backward()
        run[0] += 1
        losses.append(loss.item())
        return style_score + content_score

    optimizer.step(closure)
losses = losses[:20]
