"""The softmax over many classes of which few are frequent (Grave et al. 2017)."""

import collections
import itertools
from numbers import Integral

from weft._core import _ops
from weft.errors import ValueError
from weft.nn import functional as F
from weft.nn.containers import ModuleList, Sequential
from weft.nn.layers import Linear
from weft.nn.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_Output = collections.namedtuple("_Output", "output loss")


class AdaptiveLogSoftmaxWithLoss(Module):
    """(output, loss): the log-probabilities of the targets, classes by falling frequency, and the mean of their negatives.
    The head has the classes below the first cutoff and one number for each cluster between two cutoffs, whose layers are
    ever narrower, div_value times each."""

    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None):
        super().__init__()
        cutoffs = list(cutoffs)
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*cutoffs, n_classes]
        rising = all(isinstance(high, Integral) and low < high for low, high in itertools.pairwise([0, *self.cutoffs]))
        if not cutoffs or not rising:
            raise ValueError(f"AdaptiveLogSoftmaxWithLoss(): argument 'cutoffs': expected integers that rise between 1 and "
                             f"{n_classes - 1}, got {cutoffs}")
        if not div_value > 0:
            raise ValueError(f"AdaptiveLogSoftmaxWithLoss(): argument 'div_value': expected a number above 0, got {div_value}")
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(itertools.pairwise(self.cutoffs), 1):
            width = int(in_features // div_value**i)
            self.tail.append(Sequential(Linear(in_features, width, False, device, dtype),
                                        Linear(width, high - low, False, device, dtype)))

    def reset_parameters(self):
        """Draws all anew."""
        for layer in (self.head, *itertools.chain.from_iterable(self.tail)):
            layer.reset_parameters()

    def forward(self, input, target):
        if target.ndim > 1 or input.ndim != target.ndim + 1 or input.shape[:-1] != target.shape:
            raise ValueError(f"AdaptiveLogSoftmaxWithLoss(): input {tuple(input.shape)} and target {tuple(target.shape)} "
                             "are not [N, in_features] and [N], or without N")
        if not target.ndim:
            output, loss = self.forward(input.unsqueeze(0), target.unsqueeze(0))
            return _Output(output.squeeze(0), loss)
        if ((target < 0) | (target >= self.n_classes)).any():
            raise ValueError(f"AdaptiveLogSoftmaxWithLoss(): a target is not in [0, {self.n_classes})")
        head, places = F.log_softmax(self.head(input), 1), target
        output = head.new_zeros(len(target))
        for i, (low, high) in enumerate(itertools.pairwise(self.cutoffs)):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel():
                cluster = F.log_softmax(self.tail[i](input.index_select(0, rows)), 1)
                inside = cluster.gather(1, (target.index_select(0, rows) - low).unsqueeze(1))
                output = output.index_copy(0, rows, inside.squeeze(1))
                places = places.index_fill(0, rows, self.shortlist_size + i)
        output = output + head.gather(1, places.unsqueeze(1)).squeeze(1)
        return _Output(output, (-output).mean())

    def log_prob(self, input):
        """The log-probabilities [N, n_classes] of all classes."""
        head = F.log_softmax(self.head(input), 1)
        clusters = [F.log_softmax(layer(input), 1) + head[:, self.shortlist_size + i].unsqueeze(1)
                    for i, layer in enumerate(self.tail)]
        return _ops["cat"]([head[:, :self.shortlist_size], *clusters], 1)

    def predict(self, input):
        """The class of the highest probability in each row."""
        best = self.head(input).argmax(1)
        rows = (best >= self.shortlist_size).nonzero().squeeze(1)
        if not rows.numel():
            return best
        return best.index_copy(0, rows, self.log_prob(input.index_select(0, rows)).argmax(1))
