"""A summary of a model's modules and of the cost of a call."""

import copy
import json
import shutil
from numbers import Integral

import weft
from weft import _core


class Summary:
    """`layers` has a dict for each module, with what belongs to it alone: name, class, depth, shapes of its outputs,
    numbers of trainable and frozen parameters, bytes of parameters and outputs, multiply-adds. `total` has the sums."""

    def __init__(self, run):
        self._run = run
        self.__dict__.update(json.loads(run.json()))

    def text(self, width=100):
        """A table of that width, as far as names and shapes can be shortened."""
        return self._run.text(width)

    def json(self):
        return self._run.json()

    def __str__(self):
        return self.text(shutil.get_terminal_size((100, 24)).columns)

    __repr__ = __str__


def _tensors(results):
    if isinstance(results, _core.Tensor):
        return [results]
    if isinstance(results, dict):
        results = results.values()
    return [t for result in results for t in _tensors(result)] if isinstance(results, (tuple, list)) else []


def summary(model, *inputs, **options):
    """Runs a copy of the model on the device meta, where nothing is computed, with the inputs (tensors, or shapes of
    float32 tensors) and keywords of a call; print what it returns."""
    twin = copy.deepcopy(model).to("meta")
    arguments = [x.to("meta") if isinstance(x, _core.Tensor) else weft.empty(x, device="meta")
                 if isinstance(x, (tuple, list)) and all(isinstance(n, Integral) for n in x) else x for x in inputs]
    run = _core._SummaryRun(twin._state)
    try:
        for i, (_, module) in enumerate(twin.named_modules()):
            module.register_forward_pre_hook(lambda module, args, i=i: run.enter(i))
            module.register_forward_hook(lambda module, args, result, i=i: run.leave(i, _tensors(result)))
        with weft.no_grad():
            twin(*arguments, **options)
    finally:
        run.finish()
    return Summary(run)
