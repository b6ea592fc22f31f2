"""CycleGAN: generators of residual blocks with instance norms, three losses, a buffer of old pictures."""

import itertools
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Variable
from common import start, uniform

random.seed(3)


def weights_init_normal(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        torch.nn.init.normal_(m.weight.data, 0.0, 0.02)
        if hasattr(m, "bias") and m.bias is not None:
            torch.nn.init.constant_(m.bias.data, 0.0)
    elif classname.find("BatchNorm2d") != -1:
        torch.nn.init.normal_(m.weight.data, 1.0, 0.02)
        torch.nn.init.constant_(m.bias.data, 0.0)


class ResidualBlock(nn.Module):
    def __init__(self, in_features):
        super(ResidualBlock, self).__init__()
        conv_block = [nn.ReflectionPad2d(1), nn.Conv2d(in_features, in_features, 3), nn.InstanceNorm2d(in_features),
                      nn.ReLU(inplace=True), nn.ReflectionPad2d(1), nn.Conv2d(in_features, in_features, 3),
                      nn.InstanceNorm2d(in_features)]
        self.conv_block = nn.Sequential(*conv_block)

    def forward(self, x):
        return x + self.conv_block(x)


class Generator(nn.Module):
    def __init__(self, input_nc, output_nc, n_residual_blocks=1):
        super(Generator, self).__init__()
        model = [nn.ReflectionPad2d(3), nn.Conv2d(input_nc, 4, 7), nn.InstanceNorm2d(4), nn.ReLU(inplace=True)]
        in_features = 4
        out_features = in_features * 2
        model += [nn.Conv2d(in_features, out_features, 3, stride=2, padding=1), nn.InstanceNorm2d(out_features),
                  nn.ReLU(inplace=True)]
        for _ in range(n_residual_blocks):
            model += [ResidualBlock(out_features)]
        model += [nn.ConvTranspose2d(out_features, in_features, 3, stride=2, padding=1, output_padding=1),
                  nn.InstanceNorm2d(in_features), nn.ReLU(inplace=True)]
        model += [nn.ReflectionPad2d(3), nn.Conv2d(4, output_nc, 7), nn.Tanh()]
        self.model = nn.Sequential(*model)

    def forward(self, x):
        return self.model(x)


class Discriminator(nn.Module):
    def __init__(self, input_nc):
        super(Discriminator, self).__init__()
        model = [nn.Conv2d(input_nc, 4, 4, stride=2, padding=1), nn.LeakyReLU(0.2, inplace=True)]
        model += [nn.Conv2d(4, 8, 4, padding=1), nn.InstanceNorm2d(8), nn.LeakyReLU(0.2, inplace=True)]
        model += [nn.Conv2d(8, 1, 4, padding=1)]
        self.model = nn.Sequential(*model)

    def forward(self, x):
        x = self.model(x)
        return F.avg_pool2d(x, x.size()[2:]).view(x.size()[0], -1)


class ReplayBuffer():
    def __init__(self, max_size=3):
        self.max_size, self.data = max_size, []

    def push_and_pop(self, data):
        to_return = []
        for element in data.data:
            element = torch.unsqueeze(element, 0)
            if len(self.data) < self.max_size:
                self.data.append(element)
                to_return.append(element)
            elif random.uniform(0, 1) > 0.5:
                i = random.randint(0, self.max_size - 1)
                to_return.append(self.data[i].clone())
                self.data[i] = element
            else:
                to_return.append(element)
        return Variable(torch.cat(to_return))


class LambdaLR():
    def __init__(self, n_epochs, offset, decay_start_epoch):
        self.n_epochs, self.offset, self.decay_start_epoch = n_epochs, offset, decay_start_epoch

    def step(self, epoch):
        return 1.0 - max(0, epoch + self.offset - self.decay_start_epoch) / (self.n_epochs - self.decay_start_epoch)


netG_A2B, netG_B2A = start(Generator(3, 3), "ab."), start(Generator(3, 3), "ba.")
netD_A, netD_B = Discriminator(3), Discriminator(3)
netD_A.apply(weights_init_normal), netD_B.apply(weights_init_normal)
start(netD_A, "a."), start(netD_B, "b.")
criterion_GAN, criterion_cycle, criterion_identity = nn.MSELoss(), torch.nn.L1Loss(), torch.nn.L1Loss()
optimizer_G = torch.optim.Adam(itertools.chain(netG_A2B.parameters(), netG_B2A.parameters()), lr=2e-3, betas=(0.5, 0.999))
optimizer_D = torch.optim.Adam(itertools.chain(netD_A.parameters(), netD_B.parameters()), lr=2e-3, betas=(0.5, 0.999))
schedules = [torch.optim.lr_scheduler.LambdaLR(o, lr_lambda=LambdaLR(10, 0, 5).step) for o in (optimizer_G, optimizer_D)]
Tensor = torch.FloatTensor
input_A, input_B = Tensor(2, 3, 12, 12), Tensor(2, 3, 12, 12)
target_real = Variable(Tensor(2, 1).fill_(1.0), requires_grad=False)
target_fake = Variable(Tensor(2, 1).fill_(0.0), requires_grad=False)
buffers, losses = (ReplayBuffer(), ReplayBuffer()), []
for i in range(10):
    real_A = Variable(input_A.copy_(uniform(2, 3, 12, 12, seed=i)))
    real_B = Variable(input_B.copy_(uniform(2, 3, 12, 12, seed=30 + i)))
    optimizer_G.zero_grad()
    loss_identity = criterion_identity(netG_A2B(real_B), real_B) * 5.0 + criterion_identity(netG_B2A(real_A), real_A) * 5.0
    fake_B, fake_A = netG_A2B(real_A), netG_B2A(real_B)
    loss_GAN = criterion_GAN(netD_B(fake_B), target_real) + criterion_GAN(netD_A(fake_A), target_real)
    loss_cycle = criterion_cycle(netG_B2A(fake_B), real_A) * 10.0 + criterion_cycle(netG_A2B(fake_A), real_B) * 10.0
    loss_G = loss_identity + loss_GAN + loss_cycle
    loss_G.backward()
    optimizer_G.step()
    optimizer_D.zero_grad()
    loss_D = 0
    for netD, real, fake, memory in ((netD_A, real_A, fake_A, buffers[0]), (netD_B, real_B, fake_B, buffers[1])):
        loss = (criterion_GAN(netD(real), target_real) +
                criterion_GAN(netD(memory.push_and_pop(fake).detach()), target_fake)) * 0.5
        loss.backward()
        loss_D += loss.data.item()
    optimizer_D.step()
    for s in schedules:
        s.step()
    losses += [loss_G.item(), loss_D]
