"""Graph attention over a dense adjacency matrix, with heads added as modules by name."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from common import integers, normal, start


class GraphAttentionLayer(nn.Module):
    def __init__(self, in_features, out_features, dropout, alpha, concat=True):
        super(GraphAttentionLayer, self).__init__()
        self.dropout, self.in_features, self.out_features = dropout, in_features, out_features
        self.alpha, self.concat = alpha, concat
        self.W = nn.Parameter(torch.empty(size=(in_features, out_features)))
        nn.init.xavier_uniform_(self.W.data, gain=1.414)
        self.a = nn.Parameter(torch.empty(size=(2 * out_features, 1)))
        nn.init.xavier_uniform_(self.a.data, gain=1.414)
        self.leakyrelu = nn.LeakyReLU(self.alpha)

    def forward(self, h, adj):
        Wh = torch.mm(h, self.W)
        e = self._prepare_attentional_mechanism_input(Wh)
        zero_vec = -9e15 * torch.ones_like(e)
        attention = torch.where(adj > 0, e, zero_vec)
        attention = F.softmax(attention, dim=1)
        attention = F.dropout(attention, self.dropout, training=self.training)
        h_prime = torch.matmul(attention, Wh)
        return F.elu(h_prime) if self.concat else h_prime

    def _prepare_attentional_mechanism_input(self, Wh):
        Wh1 = torch.matmul(Wh, self.a[:self.out_features, :])
        Wh2 = torch.matmul(Wh, self.a[self.out_features:, :])
        return self.leakyrelu(Wh1 + Wh2.T)


class GAT(nn.Module):
    def __init__(self, nfeat, nhid, nclass, dropout, alpha, nheads):
        super(GAT, self).__init__()
        self.dropout = dropout
        self.attentions = [GraphAttentionLayer(nfeat, nhid, dropout=dropout, alpha=alpha, concat=True) for _ in range(nheads)]
        for i, attention in enumerate(self.attentions):
            self.add_module("attention_{}".format(i), attention)
        self.out_att = GraphAttentionLayer(nhid * nheads, nclass, dropout=dropout, alpha=alpha, concat=False)

    def forward(self, x, adj):
        x = F.dropout(x, self.dropout, training=self.training)
        x = torch.cat([att(x, adj) for att in self.attentions], dim=1)
        x = F.elu(self.out_att(x, adj))
        return F.log_softmax(x, dim=1)


adj = torch.from_numpy((np.random.RandomState(1).rand(24, 24) < 0.15).astype(np.float32)) + torch.eye(24)
features, labels = normal(24, 10), integers(3, 24)
model = start(GAT(nfeat=features.shape[1], nhid=4, nclass=int(labels.max()) + 1, dropout=0.0, nheads=3, alpha=0.2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
losses, best = [], float("inf")
for epoch in range(20):
    model.train()
    optimizer.zero_grad()
    output = model(features, adj)
    loss = F.nll_loss(output[:16], labels[:16])
    loss.backward()
    optimizer.step()
    losses.append(loss.data.item())
    if losses[-1] < best:
        best, state = losses[-1], {k: v.clone() for k, v in model.state_dict().items()}
model.load_state_dict(state)
losses.append(F.nll_loss(model.eval()(features, adj), labels).item())
