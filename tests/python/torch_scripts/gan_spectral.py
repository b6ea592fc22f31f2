"""A hinge GAN with spectral norm in the discriminator and self-attention in the generator."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn import Parameter
from torch.nn.utils import spectral_norm
from common import normal, start, uniform


class SelfAttention(nn.Module):
    def __init__(self, in_dim):
        super().__init__()
        self.query_conv = nn.Conv2d(in_dim, in_dim // 4, 1)
        self.key_conv = nn.Conv2d(in_channels=in_dim, out_channels=in_dim // 4, kernel_size=1)
        self.value_conv = nn.Conv2d(in_channels=in_dim, out_channels=in_dim, kernel_size=1)
        self.gamma = Parameter(torch.zeros(1))
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x):
        m_batchsize, C, width, height = x.size()
        proj_query = self.query_conv(x).view(m_batchsize, -1, width * height).permute(0, 2, 1)
        proj_key = self.key_conv(x).view(m_batchsize, -1, width * height)
        attention = self.softmax(torch.bmm(proj_query, proj_key))
        proj_value = self.value_conv(x).view(m_batchsize, -1, width * height)
        out = torch.bmm(proj_value, attention.permute(0, 2, 1))
        return self.gamma * out.view(m_batchsize, C, width, height) + x, attention


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(8, 4 * 4 * 8)
        self.final = nn.Conv2d(8, 3, 3, stride=1, padding=1)
        nn.init.xavier_uniform_(self.dense.weight.data, 1.0)
        nn.init.xavier_uniform_(self.final.weight.data, 1.0)
        self.model = nn.Sequential(nn.BatchNorm2d(8), nn.ReLU())
        self.attn = SelfAttention(8)

    def forward(self, z):
        x = self.model(self.dense(z).view(-1, 8, 4, 4))
        x, p = self.attn(x)
        return torch.tanh(self.final(F.interpolate(x, scale_factor=2)))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = spectral_norm(nn.Conv2d(3, 8, 3, stride=1, padding=(1, 1)))
        self.conv2 = spectral_norm(nn.Conv2d(8, 8, 4, stride=2, padding=(1, 1)))
        self.fc = spectral_norm(nn.Linear(4 * 4 * 8, 1))

    def forward(self, x):
        m = nn.LeakyReLU(0.1)(self.conv1(x))
        m = nn.LeakyReLU(0.1)(self.conv2(m))
        return self.fc(m.view(-1, 4 * 4 * 8))


discriminator, generator = start(Discriminator(), "d."), start(Generator(), "g.")
for name, buffer in discriminator.named_buffers():
    if name.endswith("_u"):
        buffer.copy_(F.normalize(normal(*buffer.shape, seed=1), dim=0, eps=1e-12))
optim_disc = torch.optim.Adam(filter(lambda p: p.requires_grad, discriminator.parameters()), lr=2e-3, betas=(0.0, 0.9))
optim_gen = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.0, 0.9))
scheduler_d = torch.optim.lr_scheduler.ExponentialLR(optim_disc, gamma=0.99)
losses = []
for i in range(10):
    data, z = uniform(4, 3, 8, 8, seed=i), normal(4, 8, seed=i)
    optim_disc.zero_grad()
    optim_gen.zero_grad()
    disc_loss = nn.ReLU()(1.0 - discriminator(data)).mean() + nn.ReLU()(1.0 + discriminator(generator(z))).mean()
    disc_loss.backward()
    optim_disc.step()
    optim_disc.zero_grad()
    optim_gen.zero_grad()
    gen_loss = -discriminator(generator(z)).mean()
    gen_loss.backward()
    optim_gen.step()
    scheduler_d.step()
    losses += [disc_loss.item(), gen_loss.item()]
assert sorted(discriminator.state_dict())[:4] == ["conv1.bias", "conv1.weight_orig", "conv1.weight_u", "conv1.weight_v"]
