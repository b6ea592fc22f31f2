"""WGAN with a gradient penalty, in the style of a collection of GANs."""

import argparse

import torch
import torch.autograd as autograd
import torch.nn as nn
from torch.autograd import Variable
from common import normal, start, uniform

parser = argparse.ArgumentParser()
parser.add_argument("--n_critic", type=int, default=2)
parser.add_argument("--lr", type=float, default=0.001)
parser.add_argument("--latent_dim", type=int, default=10)
opt = parser.parse_args([])
cuda = True if torch.cuda.is_available() and torch.cuda.device_count() > 9 else False
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
lambda_gp = 10


class Generator(nn.Module):
    def __init__(self):
        super().__init__()

        def block(in_feat, out_feat, normalize=True):
            layers = [nn.Linear(in_feat, out_feat)]
            if normalize:
                layers.append(nn.BatchNorm1d(out_feat, 0.8))
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            return layers

        self.model = nn.Sequential(*block(opt.latent_dim, 16, normalize=False), *block(16, 32), nn.Linear(32, 64), nn.Tanh())

    def forward(self, z):
        img = self.model(z)
        return img.view(img.shape[0], *(1, 8, 8))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(64, 32), nn.LeakyReLU(0.2, inplace=True), nn.Linear(32, 1))

    def forward(self, img):
        return self.model(img.view(img.shape[0], -1))


generator, discriminator = start(Generator(), "G."), start(Discriminator(), "D.")


def compute_gradient_penalty(D, real_samples, fake_samples, alpha):
    alpha = Tensor(alpha.numpy())
    interpolates = (alpha * real_samples + ((1 - alpha) * fake_samples)).requires_grad_(True)
    d_interpolates = D(interpolates)
    fake = Variable(Tensor(real_samples.shape[0], 1).fill_(1.0), requires_grad=False)
    gradients = autograd.grad(outputs=d_interpolates, inputs=interpolates, grad_outputs=fake, create_graph=True,
                              retain_graph=True, only_inputs=True)[0]
    gradients = gradients.view(gradients.size(0), -1)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


optimizer_G = torch.optim.RMSprop(generator.parameters(), lr=opt.lr)
optimizer_D = torch.optim.RMSprop(discriminator.parameters(), lr=opt.lr)
losses = []
for i in range(16):
    real_imgs = Variable(uniform(8, 1, 8, 8, seed=i).type(Tensor))
    optimizer_D.zero_grad()
    z = Variable(Tensor(normal(8, opt.latent_dim, seed=50 + i).numpy()))
    fake_imgs = generator(z)
    real_validity, fake_validity = discriminator(real_imgs), discriminator(fake_imgs)
    penalty = compute_gradient_penalty(discriminator, real_imgs.data, fake_imgs.data, uniform(8, 1, 1, 1, seed=90 + i))
    d_loss = -torch.mean(real_validity) + torch.mean(fake_validity) + lambda_gp * penalty
    d_loss.backward()
    optimizer_D.step()
    losses.append(d_loss.item())
    optimizer_G.zero_grad()
    if i % opt.n_critic == 0:
        g_loss = -torch.mean(discriminator(generator(z)))
        g_loss.backward()
        optimizer_G.step()
        losses.append(g_loss.item())
