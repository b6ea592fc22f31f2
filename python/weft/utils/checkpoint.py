"""Checkpointing: what a function saves for backward is dropped, and computed again when backward needs it."""

from weft import _core
from weft._core import Tensor


def checkpoint(function, *args, use_reentrant=None, preserve_rng_state=True, context_fn=None, determinism_check="default",
               debug=False, early_stop=True, **kwargs):
    """function(*args, **kwargs), keeping only the tensors among args for backward, which runs the function again from
    the same random state. Gradients have the same bits. The function must do the same both times; running statistics
    move the first time alone. The keywords before kwargs change nothing: gradients flow to whatever the function uses, and
    the random state is always preserved."""
    if context_fn is not None:
        raise NotImplementedError("checkpoint(): 'context_fn' is there with its default alone")
    places = [i for i, argument in enumerate(args) if isinstance(argument, Tensor)]
    rest = [None if isinstance(argument, Tensor) else argument for argument in args]

    def run(*tensors):
        arguments = list(rest)
        for place, tensor in zip(places, tensors):
            arguments[place] = tensor
        return function(*arguments, **kwargs)

    return _core._checkpoint(run, [args[i] for i in places])


def checkpoint_sequential(functions, segments, input, use_reentrant=None, preserve_rng_state=True, **kwargs):
    """The functions one after the other, in so many checkpointed segments, the last of which is not."""
    functions = list(functions)
    if not 1 <= segments <= len(functions):
        raise ValueError(f"checkpoint_sequential(): {len(functions)} functions have no {segments} segments")
    size = len(functions) // segments

    def run(part):
        def forward(x):
            for function in part:
                x = function(x)
            return x

        return forward

    for start in range(0, size * (segments - 1), size):
        input = checkpoint(run(functions[start:start + size]), input, **kwargs)
    return run(functions[size * (segments - 1):])(input)
