"""A conditional GAN with an auxiliary classifier: embeddings of labels, LongTensor targets, numpy draws."""

import numpy as np
import torch
import torch.nn as nn
from torch.autograd import Variable
from common import start, uniform

FloatTensor, LongTensor = torch.FloatTensor, torch.LongTensor
rng = np.random.RandomState(0)


class Generator(nn.Module):
    def __init__(self):
        super(Generator, self).__init__()
        self.label_emb = nn.Embedding(4, 6)
        self.init_size = 8 // 4
        self.l1 = nn.Sequential(nn.Linear(6, 8 * self.init_size ** 2))
        self.conv_blocks = nn.Sequential(
            nn.BatchNorm2d(8), nn.Upsample(scale_factor=2), nn.Conv2d(8, 8, 3, stride=1, padding=1),
            nn.BatchNorm2d(8, 0.8), nn.LeakyReLU(0.2, inplace=True), nn.Upsample(scale_factor=2),
            nn.Conv2d(8, 1, 3, stride=1, padding=1), nn.Tanh())

    def forward(self, noise, labels):
        gen_input = torch.mul(self.label_emb(labels), noise)
        out = self.l1(gen_input)
        out = out.view(out.shape[0], 8, self.init_size, self.init_size)
        return self.conv_blocks(out)


class Discriminator(nn.Module):
    def __init__(self):
        super(Discriminator, self).__init__()

        def discriminator_block(in_filters, out_filters, bn=True):
            block = [nn.Conv2d(in_filters, out_filters, 3, 2, 1), nn.LeakyReLU(0.2, inplace=True), nn.Dropout2d(0.0)]
            if bn:
                block.append(nn.BatchNorm2d(out_filters, 0.8))
            return block

        self.conv_blocks = nn.Sequential(*discriminator_block(1, 4, bn=False), *discriminator_block(4, 8))
        self.adv_layer = nn.Sequential(nn.Linear(8 * 2 ** 2, 1), nn.Sigmoid())
        self.aux_layer = nn.Sequential(nn.Linear(8 * 2 ** 2, 4), nn.Softmax(dim=1))

    def forward(self, img):
        out = self.conv_blocks(img)
        out = out.view(out.shape[0], -1)
        return self.adv_layer(out), self.aux_layer(out)


adversarial_loss, auxiliary_loss = torch.nn.BCELoss(), torch.nn.CrossEntropyLoss()
generator, discriminator = start(Generator(), "g."), start(Discriminator(), "d.")
optimizer_G = torch.optim.Adam(generator.parameters(), lr=0.002, betas=(0.5, 0.999))
optimizer_D = torch.optim.Adam(discriminator.parameters(), lr=0.002, betas=(0.5, 0.999))
losses = []
for i in range(10):
    imgs, labels = uniform(6, 1, 8, 8, seed=i), torch.from_numpy(rng.randint(0, 4, 6))
    batch_size = imgs.shape[0]
    valid = Variable(FloatTensor(batch_size, 1).fill_(1.0), requires_grad=False)
    fake = Variable(FloatTensor(batch_size, 1).fill_(0.0), requires_grad=False)
    real_imgs, labels = Variable(imgs.type(FloatTensor)), Variable(labels.type(LongTensor))
    optimizer_G.zero_grad()
    z = Variable(FloatTensor(rng.normal(0, 1, (batch_size, 6))))
    gen_labels = Variable(LongTensor(rng.randint(0, 4, batch_size)))
    gen_imgs = generator(z, gen_labels)
    validity, pred_label = discriminator(gen_imgs)
    g_loss = 0.5 * (adversarial_loss(validity, valid) + auxiliary_loss(pred_label, gen_labels))
    g_loss.backward()
    optimizer_G.step()
    optimizer_D.zero_grad()
    real_pred, real_aux = discriminator(real_imgs)
    d_real_loss = (adversarial_loss(real_pred, valid) + auxiliary_loss(real_aux, labels)) / 2
    fake_pred, fake_aux = discriminator(gen_imgs.detach())
    d_loss = (d_real_loss + (adversarial_loss(fake_pred, fake) + auxiliary_loss(fake_aux, gen_labels)) / 2) / 2
    pred = np.concatenate([real_aux.data.cpu().numpy(), fake_aux.data.cpu().numpy()], axis=0)
    gt = np.concatenate([labels.data.cpu().numpy(), gen_labels.data.cpu().numpy()], axis=0)
    d_acc = np.mean(np.argmax(pred, axis=1) == gt)
    d_loss.backward()
    optimizer_D.step()
    print("[Batch %d] [D loss: %f, acc: %d%%] [G loss: %f]" % (i, d_loss.item(), 100 * d_acc, g_loss.item()))
    losses += [d_loss.item(), g_loss.item()]
