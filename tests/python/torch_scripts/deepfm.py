"""A factorisation machine with a deep part: one table for all fields, offsets by NumPy, early stopping."""

import numpy as np
import torch
from common import integers, normal, start


class FeaturesLinear(torch.nn.Module):
    def __init__(self, field_dims, output_dim=1):
        super().__init__()
        self.fc = torch.nn.Embedding(sum(field_dims), output_dim)
        self.bias = torch.nn.Parameter(torch.zeros((output_dim,)))
        self.offsets = np.array((0, *np.cumsum(field_dims)[:-1]), dtype=np.int64)

    def forward(self, x):
        x = x + x.new_tensor(self.offsets).unsqueeze(0)
        return torch.sum(self.fc(x), dim=1) + self.bias


class FactorizationMachine(torch.nn.Module):
    def __init__(self, reduce_sum=True):
        super().__init__()
        self.reduce_sum = reduce_sum

    def forward(self, x):
        square_of_sum = torch.sum(x, dim=1) ** 2
        sum_of_square = torch.sum(x ** 2, dim=1)
        ix = square_of_sum - sum_of_square
        if self.reduce_sum:
            ix = torch.sum(ix, dim=1, keepdim=True)
        return 0.5 * ix


class MultiLayerPerceptron(torch.nn.Module):
    def __init__(self, input_dim, embed_dims, dropout):
        super().__init__()
        layers = list()
        for embed_dim in embed_dims:
            layers.append(torch.nn.Linear(input_dim, embed_dim))
            layers.append(torch.nn.BatchNorm1d(embed_dim))
            layers.append(torch.nn.ReLU())
            layers.append(torch.nn.Dropout(p=dropout))
            input_dim = embed_dim
        layers.append(torch.nn.Linear(input_dim, 1))
        self.mlp = torch.nn.Sequential(*layers)

    def forward(self, x):
        return self.mlp(x)


class DeepFM(torch.nn.Module):
    def __init__(self, field_dims, embed_dim, mlp_dims):
        super().__init__()
        self.linear, self.fm = FeaturesLinear(field_dims), FactorizationMachine(reduce_sum=True)
        self.embedding = torch.nn.Embedding(sum(field_dims), embed_dim)
        self.offsets = np.array((0, *np.cumsum(field_dims)[:-1]), dtype=np.int64)
        torch.nn.init.xavier_uniform_(self.embedding.weight.data)
        self.mlp = MultiLayerPerceptron(np.int64(len(field_dims)) * embed_dim, mlp_dims, 0.0)

    def forward(self, x):
        embed_x = self.embedding(x + x.new_tensor(self.offsets).unsqueeze(0))
        x = self.linear(x) + self.fm(embed_x) + self.mlp(embed_x.view(-1, embed_x.size(1) * embed_x.size(2)))
        return torch.sigmoid(x.squeeze(1))


field_dims = np.array([5, 7, 3])
model = start(DeepFM(field_dims, 4, (np.int32(8), 8)))
criterion = torch.nn.BCELoss()
optimizer = torch.optim.Adam(params=model.parameters(), lr=0.01, weight_decay=1e-6)
losses = []
for step in range(20):
    fields = torch.stack([integers(int(n), 16, seed=step % 4 + n) for n in field_dims], dim=1)
    target = (normal(16, seed=step % 4) > 0)
    y = model(fields)
    loss = criterion(y, target.float())
    model.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
