"""A graph convolutional network over a sparse adjacency matrix."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.modules.module import Module
from torch.nn.parameter import Parameter
from common import integers, numbers, start


def normalize(mx):
    rowsum = np.array(mx.sum(1))
    return mx / rowsum[:, None]


def to_sparse_tensor(matrix):
    rows, columns = matrix.nonzero()
    indices = torch.from_numpy(np.vstack((rows, columns)).astype(np.int64))
    values = torch.from_numpy(matrix[rows, columns])
    return torch.sparse_coo_tensor(indices, values, torch.Size(matrix.shape))


class GraphConvolution(Module):
    def __init__(self, in_features, out_features, bias=True):
        super(GraphConvolution, self).__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(torch.FloatTensor(in_features, out_features))
        if bias:
            self.bias = Parameter(torch.FloatTensor(out_features))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1. / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        if self.bias is not None:
            self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input, adj):
        support = torch.mm(input, self.weight)
        output = torch.spmm(adj, support)
        if self.bias is not None:
            return output + self.bias
        return output

    def __repr__(self):
        return self.__class__.__name__ + " (" + str(self.in_features) + " -> " + str(self.out_features) + ")"


class GCN(nn.Module):
    def __init__(self, nfeat, nhid, nclass, dropout):
        super(GCN, self).__init__()
        self.gc1, self.gc2 = GraphConvolution(nfeat, nhid), GraphConvolution(nhid, nclass)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        return F.log_softmax(self.gc2(x, adj), dim=1)


def accuracy(output, labels):
    preds = output.max(1)[1].type_as(labels)
    correct = preds.eq(labels).double()
    return correct.sum() / len(labels)


edges = (np.random.RandomState(0).rand(30, 30) < 0.1).astype(np.float32)
adj = to_sparse_tensor(normalize(np.maximum(edges, edges.T) + np.eye(30, dtype=np.float32)))
features, labels = torch.FloatTensor(numbers(30, 12)), integers(4, 30)
idx_train, idx_val = torch.LongTensor(range(20)), torch.LongTensor(range(20, 30))
model = start(GCN(nfeat=features.shape[1], nhid=8, nclass=labels.max().item() + 1, dropout=0.0))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
losses = []
for epoch in range(10):
    model.train()
    optimizer.zero_grad()
    output = model(features, adj)
    loss_train = F.nll_loss(output[idx_train], labels[idx_train])
    acc_train = accuracy(output[idx_train], labels[idx_train])
    loss_train.backward()
    optimizer.step()
    model.eval()
    output = model(features, adj)
    loss_val = F.nll_loss(output[idx_val], labels[idx_val])
    print("Epoch: {:04d}".format(epoch + 1), "loss_train: {:.4f}".format(loss_train.item()),
          "acc_train: {:.4f}".format(acc_train.item()), "loss_val: {:.4f}".format(loss_val.item()))
    losses += [loss_train.item(), loss_val.item()]
print(model)
