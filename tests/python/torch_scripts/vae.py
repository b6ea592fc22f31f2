"""The variational autoencoder of the official examples."""

import torch
import torch.utils.data
from torch import nn, optim
from torch.nn import functional as F
from common import normal, start, uniform

torch.manual_seed(1)
device = torch.device("cpu")
kwargs = {"num_workers": 0, "pin_memory": False}


class VAE(nn.Module):
    def __init__(self):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(64, 32)
        self.fc21 = nn.Linear(32, 4)
        self.fc22 = nn.Linear(32, 4)
        self.fc3 = nn.Linear(4, 32)
        self.fc4 = nn.Linear(32, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, eps):
        std = torch.exp(0.5 * logvar)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x, eps):
        mu, logvar = self.encode(x.view(-1, 64))
        return self.decode(self.reparameterize(mu, logvar, eps)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(uniform(80, 1, 8, 8)), batch_size=16, shuffle=False,
                                     **kwargs)
model = start(VAE()).to(device)
optimizer = optim.Adam(model.parameters(), lr=1e-3)
losses = []
for epoch in range(1, 5):
    model.train()
    train_loss = 0
    for batch_idx, (data,) in enumerate(loader):
        data = data.to(device)
        optimizer.zero_grad()
        recon, mu, logvar = model(data, normal(16, 4, seed=batch_idx))
        loss = loss_function(recon, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
        losses.append(loss.item() / len(data))
    print("====> Epoch: {} Average loss: {:.4f}".format(epoch, train_loss / len(loader.dataset)))
