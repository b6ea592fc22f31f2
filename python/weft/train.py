"""A training loop and what stands around it: metrics, early stopping, and the folder of a run with its page."""

import json
import os

from weft._core import _train
from weft._trainer import Checkpoints, Evaluation, FitResult, SavedState, Trainer, TrainEvent, _words_of

Accuracy = _train.Accuracy
ClassScores = _train.ClassScores
ConfusionMatrix = _train.ConfusionMatrix
EarlyStopping = _train.EarlyStopping
MeanStd = _train.MeanStd
Perplexity = _train.Perplexity
Regression = _train.Regression
RocAuc = _train.RocAuc
TopK = _train.TopK

__all__ = ["Accuracy", "Checkpoints", "ClassScores", "ConfusionMatrix", "EarlyStopping", "Evaluation", "FitResult", "MeanStd",
           "Perplexity", "Regression", "RocAuc", "RunFolder", "SavedState", "TopK", "TrainEvent", "Trainer"]


class RunFolder(_train._RunFolder):
    """The folder of a run: its metrics, samples, machine and configuration, and a page that shows them while it trains.

    with weft.train.RunFolder("runs/first", config=vars(args)) as run:
        run.begin(0, steps)
        for step in range(1, steps + 1):
            ...
            run.record(step, {"train_loss": loss.item()}, {"lr": lr})

    `untold` figures are not shown on the terminal. An error inside the `with` ends the run as "failed", and the
    page says why.
    """

    def __init__(self, folder="", *, title="", config=None, csv=True, tensorboard=False, page=True, page_every=5.0):
        text = "" if config is None else json.dumps(config, default=str, allow_nan=False)
        super().__init__(os.fspath(folder), title, text, csv, tensorboard, page, page_every)

    def record(self, step, figures, untold=None):
        """Adds a line with the figures of a step, a dict of numbers."""
        numbers = ([(name, float(value)) for name, value in (given or {}).items()] for given in (figures, untold))
        super().record(step, *numbers)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        if kind is None:
            self.finish("done")
        else:
            self.fail(_words_of(error))
