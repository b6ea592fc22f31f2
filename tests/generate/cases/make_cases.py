"""Records outputs of the package transformers for random weights, so that the tests need neither it nor PyTorch.

usage: python make_cases.py     (with torch and transformers; written for 2.15 and 5.24)

Each folder is a checkpoint as transformers saves it, config.json and model.safetensors; logits.json holds tokens
[batch][length], the logits behind each, and the tokens that a greedy continuation of each row has."""

import json
import pathlib
import shutil

import torch
import transformers as t

FOLDER = pathlib.Path(__file__).parent
SIZES = {"vocab_size": 20, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": 1,
         "pad_token_id": None, "initializer_range": 0.4, "attn_implementation": "eager"}


def rope(**parameters):
    return {"rope_parameters": {"rope_theta": 10000.0, **parameters}}


CASES = {
    "llama": t.LlamaConfig(**SIZES, rms_norm_eps=1e-5),
    "llama_linear": t.LlamaConfig(**SIZES, **rope(rope_type="linear", factor=4.0)),
    "llama_dynamic": t.LlamaConfig(**SIZES | {"max_position_embeddings": 8}, **rope(rope_type="dynamic", factor=2.0)),
    "llama_yarn": t.LlamaConfig(**SIZES, **rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)),
    "llama3": t.LlamaConfig(**SIZES | {"tie_word_embeddings": True},
                            **rope(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                   original_max_position_embeddings=16)),
    "mistral": t.MistralConfig(**SIZES, sliding_window=5),
    "qwen2": t.Qwen2Config(**SIZES, tie_word_embeddings=True),
    "qwen3": t.Qwen3Config(**SIZES, head_dim=6, tie_word_embeddings=False),
    "gpt2": t.GPT2Config(vocab_size=20, n_positions=64, n_embd=16, n_layer=2, n_head=4, initializer_range=0.4,
                         bos_token_id=0, eos_token_id=1, attn_implementation="eager"),
}


def record(name, config):
    torch.manual_seed(sum(name.encode()))
    model = t.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            if key.endswith("bias") or "norm" in key or ".ln_" in key:
                p.add_(torch.randn_like(p) * 0.2)
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    for extra in folder.glob("generation_config.json"):
        extra.unlink()
    tokens = torch.randint(0, 20, (2, 12))
    with torch.no_grad():
        logits = model.double()(tokens).logits
        greedy = model.generate(tokens, attention_mask=torch.ones_like(tokens), do_sample=False, max_new_tokens=10,
                                eos_token_id=None, pad_token_id=0)[:, 12:]
    (folder / "logits.json").write_text(json.dumps({
        "tokens": tokens.tolist(), "greedy": greedy.tolist(),
        "logits": [[[round(x, 7) for x in row] for row in rows] for rows in logits.tolist()]}) + "\n")


if __name__ == "__main__":
    for name, config in CASES.items():
        record(name, config)
