"""Word vectors: skip-gram with negative samples on sparse embeddings, a bag of words, a factorisation."""

import numpy as np
import torch
import torch.autograd as autograd
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from common import integers, start


class SkipGram(nn.Module):
    def __init__(self, emb_size, emb_dimension):
        super(SkipGram, self).__init__()
        self.u_embeddings = nn.Embedding(emb_size, emb_dimension, sparse=True)
        self.v_embeddings = nn.Embedding(emb_size, emb_dimension, sparse=True)
        initrange = 1.0 / emb_dimension
        nn.init.uniform_(self.u_embeddings.weight.data, -initrange, initrange)
        nn.init.constant_(self.v_embeddings.weight.data, 0)

    def forward(self, pos_u, pos_v, neg_v):
        emb_u, emb_v, emb_neg_v = self.u_embeddings(pos_u), self.v_embeddings(pos_v), self.v_embeddings(neg_v)
        score = torch.sum(torch.mul(emb_u, emb_v), dim=1)
        score = -F.logsigmoid(torch.clamp(score, max=10, min=-10))
        neg_score = torch.bmm(emb_neg_v, emb_u.unsqueeze(2)).squeeze()
        neg_score = -torch.sum(F.logsigmoid(-torch.clamp(neg_score, max=10, min=-10)), dim=1)
        return torch.mean(score + neg_score)


class CBOW(nn.Module):
    def __init__(self, vocab_size, embedding_dim, context_size):
        super(CBOW, self).__init__()
        self.embeddings = nn.Embedding(vocab_size, embedding_dim)
        self.linear1, self.linear2 = nn.Linear(context_size * embedding_dim, 16), nn.Linear(16, vocab_size)

    def forward(self, inputs):
        embeds = self.embeddings(inputs).view((1, -1))
        return F.log_softmax(self.linear2(F.relu(self.linear1(embeds))), dim=1)


losses = []
model = start(SkipGram(20, 8))
optimizer = optim.SparseAdam(list(model.parameters()), lr=0.05)
for i in range(10):
    loss = model(integers(20, 6, seed=i % 3), integers(20, 6, seed=i % 3 + 5), integers(20, 6, 4, seed=i % 3 + 9))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
text = np.random.RandomState(0).randint(0, 20, 14)
data = [([text[i - 2], text[i - 1], text[i + 1], text[i + 2]], text[i]) for i in range(2, len(text) - 2)]
model, loss_function = start(CBOW(20, 5, 4)), nn.NLLLoss()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for context, target in data:
    context_idxs = torch.tensor([int(w) for w in context], dtype=torch.long)
    model.zero_grad()
    log_probs = model(autograd.Variable(context_idxs))
    loss = loss_function(log_probs, torch.tensor([target], dtype=torch.long))
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
embedding = nn.Embedding.from_pretrained(torch.FloatTensor([[1, 2.3, 3], [4, 5.1, 6.3]]))
assert embedding(torch.LongTensor([1])).tolist()[0][0] == 4.0 and not embedding.weight.requires_grad
norms = F.normalize(model.embeddings.weight.data, p=2, dim=-1)
losses.append(torch.mm(norms, norms.t()).topk(2, dim=1)[0][:, 1].mean().item())
