"""Training states from which a run can resume: one folder per state, either complete or absent."""

import json as _json
import os as _os
from dataclasses import dataclass as _dataclass
from dataclasses import field as _field

from weft import _core
from weft._mapping import core_of as _core_of
from weft._model import _tell_configs


@_dataclass
class RunState:
    """Position of a run. `documents` are JSON values by name: "config", "scheduler", …; `tensors` are additional
    tensors by name, which must not share memory."""

    step: int = 0
    epoch: int = 0
    samples: int = 0
    best_metric: float | None = None
    accumulated: int = 0
    documents: dict = _field(default_factory=dict)
    tensors: dict = _field(default_factory=dict)

    def _fields(self):
        documents = {name: _json.dumps(value, allow_nan=False) for name, value in self.documents.items()}
        return self.step, self.epoch, self.samples, self.best_metric, self.accumulated, documents, self.tensors


def _run(module, optimizer, generators, masters):
    _tell_configs(module, strict=False)
    optimizer, masters = (None if part is None else part._core for part in (optimizer, masters))
    return module._state, optimizer, dict(generators or {}), masters


def _state(fields):
    *numbers, documents, tensors = fields
    return RunState(*numbers, {name: _json.loads(text) for name, text in documents.items()}, tensors)


def save_training_state(folder, module, optimizer=None, state=None, *, generators=None, masters=None, keep_last=0):
    """Writes a state of the run and returns its folder, FOLDER/step-00001000. Keeps the last keep_last states; 0 keeps
    all.

    A run that loads it resumes bit for bit: weights, the optimizer's state, `masters` (MasterWeights) if given, random
    generators, `state`, and gradients if `accumulated` is above 0. If saving fails, older states are kept.
    """
    run, fields = _run(module, optimizer, generators, masters), (state or RunState())._fields()
    return _core._save_training_state(_os.fspath(folder), run, fields, keep_last)


def load_training_state(folder, module, optimizer=None, *, generators=None, masters=None, weights_only=False,
                        mapping=None):
    """Loads the newest complete state in a folder, or the state in the given folder itself; returns its RunState.

    `mapping`, a Mapping or its text, converts the saved weights to those of this module, including the optimizer's
    state and accumulated gradients; excluded tensors keep their values.
    """
    run = _run(module, optimizer, generators, masters)
    return _state(_core._load_training_state(_os.fspath(folder), run, weights_only, _core_of(mapping)))


def read_run_state(folder):
    """Only the RunState, for example to build the module from its "config"."""
    return _state(_core._read_run_state(_os.fspath(folder)))


def training_states(folder):
    """The folders of the complete states, by step."""
    return _core._training_states(_os.fspath(folder))


class BackgroundSaver:
    """Saves in the background: `save` returns once everything is copied; training may then continue."""

    def __init__(self, folder, *, keep_last=0):
        self._saver = _core._BackgroundSaver(_os.fspath(folder), keep_last)

    def save(self, module, optimizer=None, state=None, *, generators=None, masters=None):
        """Saves a state. Raises the error of the previous save."""
        self._saver.save(_run(module, optimizer, generators, masters), (state or RunState())._fields())

    def wait(self):
        """Waits for the running save, and raises its error; returns the last state's folder."""
        return self._saver.wait()
