"""Recognition of lines: convolutions, a bidirectional LSTM in two directions, CTC, greedy decoding."""

import torch
import torch.nn as nn
from common import integers, normal, start


class BidirectionalLSTM(nn.Module):
    def __init__(self, nIn, nHidden, nOut):
        super(BidirectionalLSTM, self).__init__()
        self.rnn = nn.LSTM(nIn, nHidden, bidirectional=True)
        self.embedding = nn.Linear(nHidden * 2, nOut)

    def forward(self, input):
        self.rnn.flatten_parameters()
        recurrent, _ = self.rnn(input)
        T, b, h = recurrent.size()
        t_rec = recurrent.view(T * b, h)
        output = self.embedding(t_rec)
        return output.view(T, b, -1)


class CRNN(nn.Module):
    def __init__(self, nclass, nh):
        super(CRNN, self).__init__()
        cnn = nn.Sequential()
        for i, (n_in, n_out) in enumerate(((1, 4), (4, 8))):
            cnn.add_module("conv{0}".format(i), nn.Conv2d(n_in, n_out, 3, 1, 1))
            if i:
                cnn.add_module("batchnorm{0}".format(i), nn.BatchNorm2d(n_out))
            cnn.add_module("relu{0}".format(i), nn.ReLU(True))
            cnn.add_module("pooling{0}".format(i), nn.MaxPool2d((2, 2), (2, 1), (0, 1)))
        self.cnn = cnn
        self.rnn = nn.Sequential(BidirectionalLSTM(16, nh, nh), BidirectionalLSTM(nh, nh, nclass))

    def forward(self, input):
        conv = self.cnn(input)
        b, c, h, w = conv.size()
        conv = conv.view(b, c * h, w).permute(2, 0, 1)
        return self.rnn(conv)


model, criterion, losses = start(CRNN(6, 8)), nn.CTCLoss(blank=0, zero_infinity=True), []
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for step in range(20):
    image, batch_size = normal(3, 1, 8, 10, seed=step % 2), 3
    length = torch.IntTensor([3, 2, 4])
    text = integers(5, int(length.sum()), seed=step % 2) + 1
    preds = model(image)
    preds_size = torch.IntTensor([preds.size(0)] * batch_size)
    cost = criterion(preds.log_softmax(2), text, preds_size, length) / batch_size
    model.zero_grad()
    cost.backward()
    optimizer.step()
    losses.append(cost.item())
_, decoded = preds.max(2)
decoded = decoded.transpose(1, 0).contiguous().view(-1)
assert decoded.shape == (preds.size(0) * 3,)
