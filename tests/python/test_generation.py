"""weft.generation: text from language models."""

import json
import os
import pathlib
import signal
import threading
import time

import numpy as np
import pytest

import weft
from weft import generation
from weft.generation import TokenQueue, candidates, generate, without_cache

VOCABULARY = 9


def table_model(seed=1):
    table = weft.tensor(np.random.default_rng(seed).normal(size=(VOCABULARY, VOCABULARY)).astype("float32") * 2)
    return without_cache(lambda tokens: table[tokens], VOCABULARY), table


def test_a_greedy_text_is_a_loop():
    model, table = table_model()
    text = [3]
    for _ in range(6):
        text.append(int(table[text[-1]].argmax().item()))
    (made,) = generate(model, [[3]], max_new_tokens=6, temperature=0)
    assert made.tokens == text[1:] and made.finish == "length" and made.log_probability < 0


def test_texts_stream_stop_and_are_the_same_with_a_draft():
    model, _ = table_model()
    draft, _ = table_model(2)
    seen = []
    free = generate(model, [[1, 2], [4]], max_new_tokens=12, seed=5)
    made = generate(model, [[1, 2], [4]], max_new_tokens=12, seed=5, draft=draft,
                    on_token=lambda *event: seen.append(event))
    assert [m.tokens for m in made] == [m.tokens for m in free]
    assert all(m.proposed == m.accepted == 0 for m in free)
    assert all(0 <= m.accepted <= m.proposed and m.proposed > 0 for m in made)
    itself = generate(model, [[1, 2]], max_new_tokens=12, seed=5, draft=model)[0]
    assert itself.accepted == itself.proposed > 0
    assert [e[1] for e in seen if e[0] == 1] == free[1].tokens and seen[-1][3] == "length"
    stopped = generate(model, [[1, 2]], max_new_tokens=12, seed=5, on_token=lambda s, t, p, f: len(seen) < 0)
    assert stopped[0].tokens == free[0].tokens[:1] and stopped[0].finish == "stopped"
    ended = generate(model, [[1, 2]], max_new_tokens=12, seed=5, end_tokens=[free[0].tokens[2]])
    assert ended[0].finish == "end_token"
    best = generate(model, [[1]], max_new_tokens=4, beams=4)
    assert best[0].log_probability >= generate(model, [[1]], max_new_tokens=4, temperature=0)[0].log_probability - 1e-9


def test_candidates_are_those_of_numpy():
    logits = np.random.default_rng(3).normal(size=30).astype("float32") * 3
    p = np.exp(logits.astype("float64") / 0.7)
    p /= p.sum()
    got = candidates(weft.tensor(logits), temperature=0.7)
    assert [t for t, _ in got] == list(np.argsort(-p, kind="stable"))
    np.testing.assert_allclose([q for _, q in got], np.sort(p)[::-1], rtol=1e-10)
    assert len(candidates(weft.tensor(logits), top_k=4)) == 4


def test_exceptions_of_models_and_callbacks_propagate():
    def broken(tokens):
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        generate(without_cache(broken, 3), [[1]])
    with pytest.raises(TypeError, match="logits"):
        generate(without_cache(lambda tokens: 3, 3), [[1]])
    model, _ = table_model()
    with pytest.raises(ZeroDivisionError):
        generate(model, [[1]], on_token=lambda *event: 1 / 0)
    with pytest.raises(ValueError):
        generate(model, [[VOCABULARY]])
    with pytest.raises(ValueError):
        generate(model, [[1]], top_p=0)


@pytest.mark.parametrize("name", ["gpt2", "llama3", "qwen3", "mistral"])
def test_published_models_equal_transformers(name):
    folder = pathlib.Path(__file__).parents[1] / "generate" / "cases" / name
    recorded = json.loads((folder / "logits.json").read_text())
    model = generation.load_language_model(folder)
    made = generate(model, recorded["tokens"], max_new_tokens=10, temperature=0)
    assert [m.tokens for m in made] == recorded["greedy"]
    assert generation.end_tokens(folder) == [1]
    assert len(generate(generation.load_language_model(folder, bits=8, dtype=weft.float32), [[1]], max_new_tokens=3)[0].tokens) == 3
    with pytest.raises(OSError):
        generation.load_language_model("nowhere")


@pytest.mark.parametrize("name", ["gpt2", "llama3"])
def test_a_published_model_is_a_module(name):
    folder = pathlib.Path(__file__).parents[1] / "generate" / "cases" / name
    recorded = json.loads((folder / "logits.json").read_text())
    model = generation.load_causal_lm(folder)
    assert type(model) is weft.nn.CausalLM and not model.training
    logits = model(weft.tensor(recorded["tokens"]))
    assert weft.allclose(logits, weft.tensor(recorded["logits"]), rtol=1e-3, atol=1e-3)
    assert "model.layers.0.self_attn.q_proj.weight" in model.state_dict()
    made = generate(generation.language_model(model), recorded["tokens"], max_new_tokens=10, temperature=0)
    assert [m.tokens for m in made] == recorded["greedy"]


def test_a_causal_lm_trains_and_its_heads_draft():
    weft.manual_seed(0)
    model = weft.nn.CausalLM(17, 16, layers=2, heads=4, kv_heads=2, context=32, rope_scaling="linear", rope_factor=2.0)
    tokens = weft.randint(0, 17, (3, 8))
    assert model(tokens).shape == (3, 8, 17) and model.hidden(tokens).shape == (3, 8, 16)
    weft.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    assert all(p.grad is not None for p in model.parameters())
    heads = weft.nn.DraftHeads(16, 3)
    weft.nn.draft_loss(model, heads, tokens).backward()
    assert all(p.grad is not None for p in heads.parameters())
    alone = generate(generation.language_model(model), [[1, 2]], max_new_tokens=12, seed=3)
    helped = generate(generation.language_model(model, heads), [[1, 2]], max_new_tokens=12, seed=3)
    assert helped[0].tokens == alone[0].tokens
    with pytest.raises(ValueError, match="scaling: expected none"):
        weft.nn.CausalLM(17, 16, 2, 4, rope_scaling="ntk")
    with pytest.raises(ValueError):
        weft.nn.CausalLM(17, 16, 2, 4, positions="none")


def test_tokens_go_to_another_process():
    number = 900000 + os.getpid() % 10000
    queue = TokenQueue(number, receive_seconds=20)
    try:
        child = os.fork()
        if child == 0:
            sender = TokenQueue(number)
            for step in range(3):
                sender.send(weft.tensor([step, 10 * step]), stop=step == 2)
            os._exit(0)
        got = [queue.receive() for _ in range(3)]
        os.waitpid(child, 0)
        assert [m.tokens.tolist() for m in got] == [[0, 0], [1, 10], [2, 20]]
        assert [m.stop for m in got] == [False, False, True] and queue.receive(block=False) is None
        with pytest.raises(TypeError):
            queue.send(weft.ones(2))
    finally:
        TokenQueue.remove(number)
    assert set(generation.__all__) <= set(dir(generation))


def test_a_sender_that_is_killed_within_a_message_ends_the_wait():
    number = 2_000_000 + os.getpid()
    queue, tokens = TokenQueue(number, capacity_bytes=4096), weft.arange(20000)  # more than the pipe holds
    try:
        child = os.fork()
        if child == 0:
            TokenQueue(number, capacity_bytes=4096).send(tokens)
            os._exit(0)
        time.sleep(0.5)
        os.kill(child, signal.SIGSTOP)
        threading.Timer(0.2, os.kill, (child, signal.SIGKILL)).start()
        with pytest.raises(ValueError, match="of 20000 tokens of which .* came: its sender ended"):
            queue.receive()
        os.waitpid(child, 0)
        TokenQueue(number).send(weft.tensor([7]), stop=True)
        assert queue.receive().tokens.tolist() == [7]
    finally:
        TokenQueue.remove(number)
