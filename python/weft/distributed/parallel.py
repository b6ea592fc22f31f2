"""A model written for one process, trained on a mesh of ranks by a plan of a few lines.

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    parallel = parallelize(model, mesh, {"qkv$": ColwiseParallel(blocks=3), "up$": ColwiseParallel(),
                                         "proj$|down$": RowwiseParallel()}, shard_stage=1)
    training = ParallelTraining(parallel, weft.optim.AdamW(parallel.parameters(), lr=1e-3))
    for x, y in batches:                       # this replica's rows
        training.zero_grad()
        loss = training.backward(x, y, loss_function)
        training.clip_grad_norm(1.0)
        training.step()

Losses and updates are those of one process that trains on the whole batch, up to rounding. docs/distributed.md says more.
"""

import contextlib
import os

from weft._core import _distributed as _core
from weft._model import _tell_configs
from weft._training_state import RunState, _state
from weft.nn import lora
from weft.nn.containers import Sequential

__all__ = ["BackgroundSaver", "ColwiseParallel", "ExpertParallel", "HeadParallel", "ParallelModel", "ParallelTraining",
           "RowwiseParallel", "SequenceParallel", "ToSequenceParts", "VocabParallel", "gather_history", "parallelize"]


class _Split:
    _how, _options = "", {}


class ColwiseParallel(_Split):
    """Each rank has some of a Linear's outputs: of each of `blocks` equal blocks, such as queries, keys and values. With
    gather_output the result is whole."""

    _how = "columns"

    def __init__(self, *, blocks=1, gather_output=False):
        self._options = {"blocks": int(blocks), "gather_output": int(gather_output)}


class RowwiseParallel(_Split):
    """Each rank has some of a Linear's inputs, and results are summed. Its input is in parts, as a ColwiseParallel
    layer leaves it, or whole."""

    _how = "rows"

    def __init__(self, *, input_is_parallel=True):
        self._options = {"input_is_parallel": int(input_is_parallel)}


class VocabParallel(_Split):
    """Each rank has some of an Embedding's rows."""

    _how = "vocabulary"


class HeadParallel(_Split):
    """Each rank has some of a MultiheadAttention's heads."""

    _how = "heads"


class SequenceParallel(_Split):
    """Where sequences are in parts: a module that works on this rank's part, such as a norm or a dropout."""

    _how = "sequence"


class ToSequenceParts(_Split):
    """With sequence parallelism: a module with a replicated result, such as an embedding of positions."""

    _how = "to_sequence"


class ExpertParallel(_Split):
    """Each rank along "ep" has some of an nn.MoE's experts, and tokens of its own."""

    _how = "experts"


class ParallelModel:
    """The part of a model that is on this rank."""

    def __init__(self, module, core):
        self.module, self._core = module, core

    def __call__(self, *args, **kwargs):
        if self.pipeline.size() > 1:
            raise ValueError("this rank has a stage of the model alone")
        return self.module(*args, **kwargs)

    def named_parameters(self):
        """This rank's, by their names in the model."""
        return self._core.named_parameters().items()

    def parameters(self):
        return [p for _, p in self.named_parameters()]

    def named_modules(self):
        """The modules that are here, by their names in the model."""
        own = set(self._core.child_names())
        return [(name, m) for name, m in self.module.named_modules() if name and name.split(".")[0] in own]

    data_parallel = property(lambda self: self._core.data_parallel(), doc="The ranks that have the same part.")
    tensor_parallel = property(lambda self: self._core.tensor_parallel(), doc="The ranks that share layers.")
    pipeline = property(lambda self: self._core.pipeline(), doc="The ranks that have the stages.")


def parallelize(model, mesh, splits=None, *, sequence_parallel=False, cuts=(), schedule="1F1B", chunks=1, micro_batches=1,
                shard_stage=0, bucket_bytes=25 << 20):
    """Makes rank 0's model that of all, and leaves on each rank its part, in place. `mesh` has dimensions "dp" (replicas),
    "ep" (replicas with experts of their own), "pp" (stages of a Sequential, which begin at the layers that `cuts` names) and "tp" (ranks that share layers, by
    `splits`: {regular expression of module names: how}), or some of them. `shard_stage` 1 to 3 keeps an optimizer's
    state, gradients and parameters in parts on the ranks along "dp"; 0 keeps them whole. ValueError for what does not
    fit."""
    _tell_configs(model, strict=False)
    layers = list(model) if isinstance(model, Sequential) else []
    given = [(pattern, how._how, how._options) for pattern, how in (splits or {}).items()]
    core = _core.parallelize(model, layers, mesh, given, sequence_parallel, list(cuts), schedule.lower(), chunks,
                             micro_batches, shard_stage, bucket_bytes)
    lora._adopt(model)  # layers compute with their parts
    return ParallelModel(model, core)


def gather_history(recorder, group=None):
    """What the GradientRecorders of all ranks saw, on rank 0 of the group as one History, in which "0.weight @2" is rank
    2's; None on the others. Called by all ranks."""
    from weft.distributed import _group

    group = _group(group)
    history = _core.gather_history(recorder.history(), group)
    return history if group.rank() == 0 else None


class BackgroundSaver:
    """Saves runs in the background, one at a time: training.save_run(folder, state, saver=saver). All ranks make it."""

    def __init__(self, group=None):
        from weft.distributed import _group

        self._core = _core.BackgroundSaver(_group(group))

    def wait(self):
        """Waits until all ranks have saved; raises the error of the save on every rank."""
        self._core.wait()


class ParallelTraining:
    """Steps of a parallel model with an optimizer over its parameters, which it takes over. Every rank makes the same
    calls."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self._core = optimizer._core._train(model._core)
        optimizer._core = self._core.optimizer()  # for schedules

    def backward(self, input, target, loss, *, weight=None):
        """Adds the gradients of the mean of loss(model(input), target) over all replicas and micro-batches, and returns
        that mean, the same on every rank. Each counts by its rows, or by weight(target), the number of samples or tokens
        of which its loss is the mean; one of weight 0 is left out. Auxiliary losses of layers, such as nn.MoE, have the
        factor of their micro-batch's loss."""
        return self._core.backward(input, target, loss, weight)

    def clip_grad_norm(self, max_norm):
        """The norm of the whole model's gradients, each counted once, which then is at most max_norm."""
        return self._core.clip_grad_norm(max_norm)

    def step(self):
        self._core.step()

    def zero_grad(self):
        self._core.zero_grad()

    @contextlib.contextmanager
    def whole_parameters(self):
        """In stage 3, a scope in which this rank's parameters are whole. All ranks enter it."""
        whole = self._core.whole_parameters()
        try:
            yield
        finally:
            del whole

    def save(self, folder, group=None, id=None):
        """Saves model and optimizer, each rank its part, and returns the state's number in the folder."""
        from weft.distributed import _group

        return self._core.save(os.fspath(folder), _group(group), id)

    def save_run(self, folder, state=None, *, generators=None, keep_last=0, group=None, saver=None):
        """Writes what the run needs to go on bit for bit, each rank its part, and returns its folder,
        FOLDER/step-00001000: model, optimizer, random generators and a weft.io.RunState; keeps the last ones, 0 for all.
        With a BackgroundSaver it returns once this rank's parts are copied. All ranks call it."""
        from weft.distributed import _group

        fields = (state or RunState())._fields()
        return self._core.save_run(os.fspath(folder), fields, dict(generators or {}), _group(group), keep_last,
                                   None if saver is None else saver._core)

    def load_run(self, folder, *, generators=None, weights_only=False, group=None):
        """Loads the newest complete state, or the one in the given folder, saved by any plan; returns its RunState."""
        from weft.distributed import _group

        return _state(self._core.load_run(os.fspath(folder), dict(generators or {}), _group(group), weights_only))

    def load(self, folder, id=None):
        """Resumes from a state that `save` wrote on any number of ranks, by any plan."""
        self._core.load(os.fspath(folder), id)
