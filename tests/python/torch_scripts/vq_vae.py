"""A VQ-VAE whose codebook is a moving average; straight-through gradients."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import normal, start, uniform


class VectorQuantizerEMA(nn.Module):
    def __init__(self, num_embeddings, embedding_dim, commitment_cost, decay, epsilon=1e-5):
        super(VectorQuantizerEMA, self).__init__()
        self._embedding_dim, self._num_embeddings = embedding_dim, num_embeddings
        self._embedding = nn.Embedding(self._num_embeddings, self._embedding_dim)
        self._embedding.weight.data.normal_()
        self._commitment_cost = commitment_cost
        self.register_buffer("_ema_cluster_size", torch.zeros(num_embeddings))
        self._ema_w = nn.Parameter(torch.Tensor(num_embeddings, self._embedding_dim))
        self._ema_w.data.normal_()
        self._decay, self._epsilon = decay, epsilon

    def forward(self, inputs):
        inputs = inputs.permute(0, 2, 3, 1).contiguous()
        input_shape = inputs.shape
        flat_input = inputs.view(-1, self._embedding_dim)
        distances = (torch.sum(flat_input ** 2, dim=1, keepdim=True) + torch.sum(self._embedding.weight ** 2, dim=1)
                     - 2 * torch.matmul(flat_input, self._embedding.weight.t()))
        encoding_indices = torch.argmin(distances, dim=1).unsqueeze(1)
        encodings = torch.zeros(encoding_indices.shape[0], self._num_embeddings, device=inputs.device)
        encodings.scatter_(1, encoding_indices, 1)
        quantized = torch.matmul(encodings, self._embedding.weight).view(input_shape)
        if self.training:
            self._ema_cluster_size = self._ema_cluster_size * self._decay + (1 - self._decay) * torch.sum(encodings, 0)
            n = torch.sum(self._ema_cluster_size.data)
            self._ema_cluster_size = ((self._ema_cluster_size + self._epsilon) / (n + self._num_embeddings * self._epsilon) * n)
            dw = torch.matmul(encodings.t(), flat_input)
            self._ema_w = nn.Parameter(self._ema_w * self._decay + (1 - self._decay) * dw)
            self._embedding.weight = nn.Parameter(self._ema_w / self._ema_cluster_size.unsqueeze(1))
        e_latent_loss = F.mse_loss(quantized.detach(), inputs)
        loss = self._commitment_cost * e_latent_loss
        quantized = inputs + (quantized - inputs).detach()
        avg_probs = torch.mean(encodings, dim=0)
        perplexity = torch.exp(-torch.sum(avg_probs * torch.log(avg_probs + 1e-10)))
        return loss, quantized.permute(0, 3, 1, 2).contiguous(), perplexity, encodings


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self._block = nn.Sequential(nn.ReLU(True), nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False),
                                    nn.ReLU(True), nn.Conv2d(channels, channels, kernel_size=1, bias=False))

    def forward(self, x):
        return x + self._block(x.clone())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self._encoder = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), Residual(8))
        self._pre_vq_conv = nn.Conv2d(in_channels=8, out_channels=4, kernel_size=1, stride=1)
        self._vq_vae = VectorQuantizerEMA(8, 4, 0.25, 0.99)
        self._decoder = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), Residual(8), nn.ConvTranspose2d(8, 3, 4, 2, 1))

    def forward(self, x):
        loss, quantized, perplexity, _ = self._vq_vae(self._pre_vq_conv(self._encoder(x)))
        return loss, self._decoder(quantized), perplexity


model = start(Model())
model._vq_vae._ema_w.data.copy_(normal(8, 4, seed=5))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, amsgrad=False)
model.train()
losses, perplexities = [], []
for i in range(20):
    data = uniform(4, 3, 8, 8, seed=i % 4) - 0.5
    optimizer.zero_grad()
    vq_loss, data_recon, perplexity = model(data)
    recon_error = F.mse_loss(data_recon, data) / 0.08
    loss = recon_error + vq_loss
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    perplexities.append(perplexity.item())
losses.append(sum(perplexities) / len(perplexities))
