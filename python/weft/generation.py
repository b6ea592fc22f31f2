"""Text from language models.

    model = without_cache(net, vocabulary=len(tokenizer))
    for made in generate(model, [tokenizer.encode("Once upon")], temperature=0.8, top_p=0.95, seed=7):
        print(tokenizer.decode(made.tokens))

A model is anything from tokens [batch, length] to logits [batch, length, vocabulary]. docs/generation.md says more.
"""

import math as _math
import os as _os
from typing import NamedTuple as _NamedTuple

from weft import _core

__all__ = ["Generation", "TokenMessage", "TokenQueue", "candidates", "end_tokens", "generate", "language_model", "load_causal_lm",
           "load_language_model",
           "without_cache"]


class Generation(_NamedTuple):
    """What comes of a prompt: tokens without it, the sum of their log-probabilities by the model, and why it ended:
    'length', 'end_token', 'stop_sequence' or 'stopped'. Of `proposed` tokens, by a draft or by the model's own heads, the
    model drew `accepted`."""

    tokens: list
    log_probability: float
    finish: str
    proposed: int
    accepted: int


class TokenMessage(_NamedTuple):
    tokens: "weft.Tensor"  # noqa: F821
    stop: bool


def without_cache(model, vocabulary, window=0):
    """A language model of a causal one that reads all tokens anew for each, or with a window the last so many."""
    return _core._without_cache(model, vocabulary, window)


def load_language_model(folder, *, dtype=None, device="cpu", bits=0):
    """The model of a published checkpoint, config.json and safetensors of GPT-2, Llama, Mistral, Qwen 2 or 3, with a cache
    of keys and values. With `bits` 8 or 4 its weights are held so. NotImplementedError for another architecture."""
    return _core._load_language_model(_os.fspath(folder), dtype, device, bits)


def load_causal_lm(folder, *, dtype=None, device="cpu"):
    """The same checkpoint as a weft.nn.CausalLM, to train it or to look at its parts; not in training."""
    from weft.nn import CausalLM
    return CausalLM._of(_core._load_causal_lm(_os.fspath(folder), dtype, device))


def language_model(model, heads=None):
    """A language model of a weft.nn.CausalLM that keeps keys and values; heads, a weft.nn.DraftHeads, propose tokens."""
    return _core._language_model(model, heads)


def end_tokens(folder):
    """The tokens that end a text, as a checkpoint says."""
    return _core._end_tokens(_os.fspath(folder))


def generate(model, prompts, *, max_new_tokens=128, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0,
             seed=0, end_tokens=(), stop_sequences=(), on_token=None, beams=1, length_penalty=1.0, draft=None, draft_tokens=4):
    """Continues each prompt, a list of tokens. The same prompt gives the same text by the same seed. `on_token(sequence,
    token, log_probability, finish)` sees each as it comes, and ends its sequence by returning False. With beams the
    likeliest text is sought and nothing drawn; a `draft`, a faster model, changes the time alone."""
    sampling = (float(repetition_penalty), float(temperature), int(top_k), float(top_p), float(min_p))
    made = _core._generate(model, [list(p) for p in prompts], max_new_tokens, sampling, seed, list(end_tokens),
                           [list(s) for s in stop_sequences], on_token, beams, float(length_penalty), draft, draft_tokens)
    return [Generation(*fields) for fields in made]


def candidates(logits, sequence=(), *, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0):
    """The tokens that may come next and their probabilities, the likeliest first."""
    sampling = (float(repetition_penalty), float(temperature), int(top_k), float(top_p), float(min_p))
    return _core._candidates(logits, list(sequence), sampling)


class TokenQueue:
    """Messages of tokens between processes that name one number. A full queue waits `send_seconds`, then raises OSError."""

    def __init__(self, queue_id, *, send_seconds=60.0, receive_seconds=_math.inf, capacity_bytes=1 << 20):
        self._core = _core._TokenQueue(queue_id, send_seconds, receive_seconds, capacity_bytes)

    def send(self, tokens, stop=False, rank=0):
        """Rank 0 sends integers [batch] or [batch, 1]; other ranks return at once."""
        self._core.send(tokens, stop, rank)

    def receive(self, block=True):
        """The next TokenMessage, or None if there is none. Raises ValueError for an incomplete message; the next call
        continues with the following one."""
        message = self._core.receive(block)
        return None if message is None else TokenMessage(*message)

    @staticmethod
    def remove(queue_id):
        """Removes the queue's name; processes that have it open can still use it."""
        _core._remove_token_queue(queue_id)
