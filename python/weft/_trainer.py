"""The training loop; C++ implements the order of steps, evaluations, saved states and logs."""

import json
import os
import weakref
from dataclasses import dataclass, field

from weft._core import Tensor, _train
from weft._model import _tell_configs
from weft._training_state import RunState, _run


@dataclass(frozen=True)
class TrainEvent:
    """Position of a run when a listener is called, with the figures of the step or of the evaluation."""

    step: int
    epoch: int
    batch: int
    figures: dict = field(default_factory=dict)


@dataclass(frozen=True)
class FitResult:
    """`best` is that of the metric, `signal` the number of the one that ended the run, or 0."""

    steps: int
    epochs: int
    best: float | None
    stopped_early: bool
    signal: int


@dataclass(frozen=True)
class SavedState:
    path: str
    step: int
    best: bool


class Checkpoints:
    """Saves states of a run during training: the last ones, and the best in `folder`/best. Saves in the background; a
    failed save does not end the run."""

    def __init__(self, folder, *, keep_last=2, keep_best=True):
        self._core = _train._Checkpoints(os.fspath(folder), keep_last, keep_best)

    def save(self, module, optimizer=None, state=None, *, best=False, generators=None, masters=None):
        """Saves a state among the last ones, and also as the best one with best=True; weft.io.load_training_state reads
        both."""
        self._core.save(best, _run(module, optimizer, generators, masters), (state or RunState())._fields())

    def wait(self):
        """Waits for the last save, and raises its error."""
        self._core.wait()


class Evaluation:
    """Figures of one evaluation, collected by name in a loop over validation data."""

    def __init__(self):
        self._metrics = {}

    def metric(self, name, kind, *args, **kwargs):
        """The metric with this name, created as kind(*args, **kwargs) on first use."""
        metric = self._metrics.get(name)
        if metric is None:
            metric = self._metrics[name] = kind(*args, **kwargs)
        elif type(metric) is not kind:
            raise ValueError(f"metric \"{name}\": expected {kind.__name__}, got {type(metric).__name__}")
        return metric

    def mean(self, name):
        return self.metric(name, _train.MeanStd)

    def set(self, name, value):
        """Sets a figure to a known value."""
        self.mean(name).update(float(value))

    def figures(self):
        """The value of every metric without a picture, in order of first use."""
        return {name: metric.compute() for name, metric in self._metrics.items() if not hasattr(metric, "svg")}

    def pictures(self):
        """SVG pictures of metrics that have one, such as a confusion matrix."""
        return {name: metric.svg() for name, metric in self._metrics.items() if hasattr(metric, "svg")}


def _words_of(error):
    """The message of an error, with its notes."""
    return "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])


def _samples_in(batch):
    """Number of samples in a batch: the length of a list of tuples or dicts; else the first size of the first tensor in
    it, or in an object's first attribute."""
    if isinstance(batch, list) and batch and all(isinstance(sample, (tuple, dict)) for sample in batch):
        return len(batch)
    for _ in range(8):  # limited, as an object may contain itself
        if isinstance(batch, Tensor):
            return batch.shape[0] if batch.dim() > 0 else 1
        if not isinstance(batch, (dict, tuple, list)):
            batch = getattr(batch, "__dict__", None)
        if isinstance(batch, dict):
            batch = list(batch.values())
        if not isinstance(batch, (tuple, list)) or not batch:
            return 1
        batch = batch[0]
    return 1


_TENSOR = "weft.tensor"


def _told(state):
    """A state as JSON text, in which names replace tensors; and the tensors by name."""
    tensors, names = {}, {}

    def name_of(tensor, path):
        place = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype) if tensor.numel() else path
        if place not in names:
            name = names[place] = path if path not in tensors else f"{path}.{len(tensors)}"
            tensors[name] = tensor.detach()
        return names[place]

    def plain(value, path):
        if isinstance(value, Tensor):
            return {_TENSOR: name_of(value, ".".join(path) or "state")}
        if isinstance(value, dict):
            if _TENSOR in value:
                raise ValueError(f"a state that is kept has no key {_TENSOR!r}")
            return {key: plain(item, (*path, str(key))) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(item, (*path, str(i))) for i, item in enumerate(value)]
        return value

    return json.dumps(plain(state, ()), allow_nan=False), tensors


def _state_in(text, tensors):
    """Inverse of _told."""
    return json.loads(text, object_hook=lambda found: tensors[found[_TENSOR]] if set(found) == {_TENSOR} else found)


def _saved_part(name, part):
    """Functions that save and restore the state of a part."""
    def restore(text, tensors):
        try:
            part.load_state_dict(_state_in(text, tensors))
        except Exception as error:
            error.add_note(f"weft.train.Trainer: \"{name}\" of the state that is resumed")
            raise

    return (lambda: _told(part.state_dict())), restore


def _place_of(loader):
    """Functions that save and restore a loader's position; (None, None) if it has no state_dict."""
    has_place = hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")
    return _saved_part("loader", loader) if has_place else (None, None)


class Trainer:
    """A training loop: steps, evaluations, saved states, logs, and resuming.

    with weft.train.RunFolder("runs/a") as run:
        trainer = weft.train.Trainer(model, optimizer, epochs=10, clip_norm=1.0, save="runs/a/states", resume=True, log=run)
        trainer.schedule(scheduler)
        trainer.fit(loader, lambda batch: loss_of(model(batch[0]), batch[1]), validation, evaluate)

    A step runs forward and backward of `accumulate` batches, then `reduce`, unscaling, clipping, the optimizer, the
    scheduler, and zero_grad; then on_step_end, and evaluation and saving if they are due. Batches count by their
    samples, or by the weights that loss_of returns. Steps count optimizer updates only.

    reduce: averages gradients over processes. mean_weight: with it, maps this process's weight of a step to the mean
    over processes: weft.distributed.mean_weight. epochs, steps: the run ends at the first one reached. autocast: a
    dtype for the forward passes. masters: the MasterWeights from which the optimizer was created, if it steps these
    instead of the model's 16-bit weights. evaluate_every: in steps; 0 means each epoch.

    metric: the figure that selects the best state (the largest with maximize); after `patience` evaluations without
    improvement the run ends. Raises ValueError if an evaluation lacks it. The default is val_loss, if evaluations have
    it.

    save: a folder for states, one every save_every steps (0: each epoch); the last keep_last are kept, and the best as
    it was evaluated. generators: the program's own generators, by name. log: a RunFolder. unit: the name of a sample in
    the logged speed. end_by_signal: SIGINT, SIGTERM and SIGHUP end the run after the current step, with a saved state.
    """

    def __init__(self, model, optimizer, *, epochs=0, steps=0, accumulate=1, clip_norm=0.0, autocast=None, scaler=None,
                 masters=None, halt_on_nan=True, offload_optimizer=False, reduce=None, mean_weight=None, rank=0, evaluate_every=0, metric=None,
                 maximize=False, patience=0, min_delta=0.0, save=None, save_every=0, keep_last=2, keep_best=True,
                 generators=None, resume=False, empty_cache_every=0, end_by_signal=True, log=None, unit="samples"):
        from weft.optim import NativeOptimizer

        if type(optimizer).step is not NativeOptimizer.step:
            raise TypeError(f"the Trainer's steps are those of weft.optim; {type(optimizer).__name__} has its own")
        options = {"epochs": epochs, "steps": steps, "accumulate": accumulate, "clip_norm": float(clip_norm),
                   "halt_on_nan": halt_on_nan, "offload_optimizer": offload_optimizer, "rank": rank,
                   "evaluate_every": evaluate_every, "maximize": maximize, "patience": patience,
                   "min_delta": float(min_delta), "save_every": save_every, "keep_last": keep_last, "keep_best": keep_best,
                   "resume": resume, "empty_cache_every": empty_cache_every, "end_by_signal": end_by_signal, "unit": unit}
        given = {"save": None if save is None else os.fspath(save), "metric": metric, "autocast": autocast, "reduce": reduce, "mean_weight": mean_weight,
                 "log": log, "scaler": None if scaler is None else scaler._core,
                 "masters": None if masters is None else masters._core, "generators": generators}
        options |= {name: value for name, value in given.items() if value is not None}
        self.model, self.optimizer, self._log, self._rank = model, optimizer, log, rank
        self._listeners = {kind: [] for kind in ("update", "step_end", "epoch_end", "evaluate", "save")}
        reference = weakref.ref(self)
        _tell_configs(model, strict=False)
        self._core = _train._Trainer(model._state, optimizer._core, options,
                                     lambda kind, what: reference()._tell(kind, what), (model, optimizer, *given.values()))

    def _tell(self, kind, what):
        if kind == "update":
            for listener in self._listeners[kind]:
                listener()
            return
        event = SavedState(*what) if kind == "save" else TrainEvent(*what[:3], dict(what[3]))
        try:
            for listener in self._listeners[kind]:
                listener(event)
        except Exception as error:
            error.add_note(f"weft.train.Trainer: on_{kind} of step {event.step}, rank {self._rank}")
            raise

    def _listen(self, kind, listener):
        self._listeners[kind].append(listener)
        return listener

    def on_update(self, listener):
        """Calls listener() after each update, before the gradients are dropped."""
        return self._listen("update", listener)

    def on_step_end(self, listener):
        """Calls listener(TrainEvent) after each step; all on_ methods can be used as decorators."""
        return self._listen("step_end", listener)

    def on_epoch_end(self, listener):
        return self._listen("epoch_end", listener)

    def on_evaluate(self, listener):
        return self._listen("evaluate", listener)

    def on_save(self, listener):
        """Calls listener(SavedState) once a state is complete on disk."""
        return self._listen("save", listener)

    def schedule(self, scheduler):
        """Steps a scheduler after each update, and saves it with the run."""
        self.on_update(scheduler.step)
        self.keep("scheduler", scheduler)

    def keep(self, name, part):
        """Saves and restores an additional object with the run. Its state_dict() contains JSON values and tensors. If
        its load_state_dict raises, all parts of the run are restored to their previous state."""
        self._core.keep(name, *_saved_part(name, part))

    def stop(self):
        """Ends the run after the current step."""
        self._core.stop()

    @property
    def steps(self):
        return self._core.steps()

    def fit(self, loader, loss_of, validation=None, each=None, *, evaluate=None):
        """Trains on the loader's batches; returns a FitResult.

        loss_of(batch) returns the batch's mean loss, or a tuple of it and its weight, such as the number of counted
        tokens: (F.cross_entropy(y, t, reduction="sum") / n, n). Without a weight, a batch counts by its samples. Either
        each(batch, evaluation) collects figures from the batches of `validation`, or evaluate(evaluation) does the
        whole evaluation; both run without gradients and with the model in eval(). The loader must be iterable once for
        each epoch. On resuming, batches of a loader without state_dict are skipped up to the saved position. Errors of
        callbacks are raised unchanged; the last saved state remains.
        """
        if (validation is None) != (each is None) or (each is not None and evaluate is not None):
            raise TypeError("fit() takes validation and each, or evaluate, or neither")
        if self.optimizer._pre_hooks or self.optimizer._post_hooks:
            raise NotImplementedError("the Trainer runs no hooks of optimizers: on_update is called after each update")
        if each is not None:
            def evaluate(evaluation):
                for batch in validation:
                    each(batch, evaluation)

        modes = _Modes(self.model)

        def loss(batch):
            modes.train()
            try:
                return loss_of(batch)
            except Exception as error:
                error.add_note(f"weft.train.Trainer: step {self.steps + 1}, rank {self._rank}")
                raise

        def figures():
            modes.eval()
            evaluation = Evaluation()
            try:
                evaluate(evaluation)
            except Exception as error:
                error.add_note(f"weft.train.Trainer: the evaluation of step {self.steps}, rank {self._rank}")
                raise
            if self._log is not None:
                for name, picture in evaluation.pictures().items():
                    self._log.sample_svg(self.steps, name, picture)
            return list(evaluation.figures().items())

        try:
            return FitResult(*self._core.fit(loader, _samples_in, *_place_of(loader), loss,
                                             None if evaluate is None else figures))
        except BaseException as error:
            if self._log is not None and not self._core.ended():
                self._log.fail(_words_of(error))
            raise


class _Modes:
    """C++ sets the mode of all modules. A train() overridden by the user, which may exclude some of them, is called
    afterwards."""

    def __init__(self, model):
        self._model, self._trains = model, False

    def train(self):
        if not self._trains:
            self._model.train()
        self._trains = True

    def eval(self):
        self._model.eval()
        self._trains = False
