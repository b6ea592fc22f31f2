"""Mappings: models of other programs, in their names and shapes, agree with NumPy."""

import json
import pathlib

import numpy as np
import pytest

import weft
from weft import nn
from weft.nn import functional as F

reference = pytest.importorskip("safetensors.numpy")
mappings = pathlib.Path(__file__).parent / "mappings"

LAYERS, WIDTH, HEADS, WORDS, LENGTH = 2, 16, 4, 11, 6
WORD_IDS = np.array([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])


def draw(shapes):
    random = np.random.default_rng(5)
    return {name: random.normal(size=shape, scale=0.4).astype(np.float32) for name, shape in shapes.items()}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v):
    """Causal, of [batch, heads, length, width]."""
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    return softmax(np.where(np.tri(q.shape[-2], dtype=bool), scores, -np.inf)) @ v


def heads(x, count):
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


def merged(x):
    x = x.swapaxes(1, 2)
    return x.reshape(*x.shape[:2], -1)


def weft_attention(q, k, v):
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    hidden = weft.triu(weft.ones(q.shape[-2], q.shape[-2]), 1) > 0
    return weft.softmax(weft.masked_fill(scores, hidden, float("-inf")), dim=-1) @ v


def weft_heads(x, count):
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


def weft_merged(x):
    x = x.transpose(1, 2)
    return x.reshape(x.shape[0], x.shape[1], -1)


# ---- GPT-2 ----------------------------------------------------------------------------------------------------------

def gpt2_weights():
    shapes = {"wte.weight": (WORDS, WIDTH), "wpe.weight": (LENGTH, WIDTH), "ln_f.weight": (WIDTH,), "ln_f.bias": (WIDTH,)}
    for i in range(LAYERS):
        for name, shape in {"ln_1": (WIDTH,), "ln_2": (WIDTH,), "attn.c_attn": (WIDTH, 3 * WIDTH),
                            "attn.c_proj": (WIDTH, WIDTH), "mlp.c_fc": (WIDTH, 4 * WIDTH),
                            "mlp.c_proj": (4 * WIDTH, WIDTH)}.items():
            shapes[f"h.{i}.{name}.weight"] = shape
            shapes[f"h.{i}.{name}.bias"] = shape[-1:]
        shapes[f"h.{i}.attn.bias"] = (1, 1, LENGTH, LENGTH)
    return draw(shapes)


def gpt2_in_numpy(weights, words):
    w = {name: array.astype(np.float64) for name, array in weights.items()}

    def norm(x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * w[name + ".weight"] + w[name + ".bias"]

    def conv1d(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    x = w["wte.weight"][words] + w["wpe.weight"]
    for i in range(LAYERS):
        q, k, v = np.split(conv1d(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn"), 3, -1)
        x = x + conv1d(merged(attention(heads(q, HEADS), heads(k, HEADS), heads(v, HEADS))), f"h.{i}.attn.c_proj")
        y = conv1d(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
        y = 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))
        x = x + conv1d(y, f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


class Gpt2Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.norm_1(x)
        x = x + self.out(weft_merged(weft_attention(*(weft_heads(f(y), HEADS) for f in (self.q, self.k, self.v)))))
        return x + self.narrow(F.gelu(self.wide(self.norm_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Gpt2Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words):
        x = self.embedding(words) + self.positions(weft.arange(LENGTH))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def test_gpt2_with_transposed_and_fused_weights(tmp_path):
    weights = gpt2_weights()
    reference.save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    mapping = weft.io.Mapping.read(mappings / "gpt2.map")
    net = Gpt2()
    net.load_state_dict(weft.io.load_file(tmp_path / "model.safetensors", mapping=mapping))
    expected = gpt2_in_numpy(weights, WORD_IDS)
    with weft.no_grad():
        assert np.abs(net(weft.tensor(WORD_IDS)).numpy() - expected).max() < 1e-4 * np.abs(expected).max()
    net = Gpt2().to(weft.float64)
    net.load_state_dict(weft.io.load_sharded(tmp_path, mapping=mapping))
    with weft.no_grad():
        assert np.abs(net(weft.tensor(WORD_IDS)).numpy() - expected).max() < 1e-11 * np.abs(expected).max()


# ---- Llama ----------------------------------------------------------------------------------------------------------

KV_HEADS, INNER = 2, 24
HEAD = WIDTH // HEADS


def llama_weights():
    shapes = {"model.embed_tokens.weight": (WORDS, WIDTH), "model.norm.weight": (WIDTH,), "lm_head.weight": (WORDS, WIDTH)}
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        for name, shape in {"self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (KV_HEADS * HEAD, WIDTH),
                            "self_attn.v_proj": (KV_HEADS * HEAD, WIDTH), "self_attn.o_proj": (WIDTH, WIDTH),
                            "mlp.gate_proj": (INNER, WIDTH), "mlp.up_proj": (INNER, WIDTH),
                            "mlp.down_proj": (WIDTH, INNER), "input_layernorm": (WIDTH,),
                            "post_attention_layernorm": (WIDTH,)}.items():
            shapes[f"{at}{name}.weight"] = shape
        shapes[f"{at}self_attn.rotary_emb.inv_freq"] = (HEAD // 2,)
    return draw(shapes)


def angles():
    return np.outer(np.arange(LENGTH), 10000.0 ** (-np.arange(0, HEAD, 2) / HEAD))


def llama_in_numpy(weights, words):
    w = {name: array.astype(np.float64) for name, array in weights.items()}

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w[name + ".weight"]

    def rotated(x):
        cos, sin = (np.concatenate([f(angles())] * 2, -1) for f in (np.cos, np.sin))
        a, b = np.split(x, 2, -1)
        return x * cos + np.concatenate([-b, a], -1) * sin

    x = w["model.embed_tokens.weight"][words]
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        y = norm(x, at + "input_layernorm")
        q, k, v = (y @ w[f"{at}self_attn.{name}_proj.weight"].T for name in "qkv")
        k, v = (np.repeat(heads(t, KV_HEADS), HEADS // KV_HEADS, 1) for t in (k, v))
        y = merged(attention(rotated(heads(q, HEADS)), rotated(k), v))
        x = x + y @ w[at + "self_attn.o_proj.weight"].T
        y = norm(x, at + "post_attention_layernorm")
        gate, up = y @ w[at + "mlp.gate_proj.weight"].T, y @ w[at + "mlp.up_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[at + "mlp.down_proj.weight"].T
    return norm(x, "model.norm") @ w["lm_head.weight"].T


class LlamaBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.RMSNorm(WIDTH, eps=1e-6), nn.RMSNorm(WIDTH, eps=1e-6)
        self.qkv = nn.Linear(WIDTH, WIDTH + 2 * KV_HEADS * HEAD, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate_up, self.down = nn.Linear(WIDTH, 2 * INNER, bias=False), nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x, cos, sin):
        def rotated(t):
            a, b = t[..., :HEAD // 2], t[..., HEAD // 2:]
            return t * cos + weft.cat([-b, a], dim=-1) * sin

        y = self.qkv(self.norm_1(x))
        q, k, v = y[..., :WIDTH], y[..., WIDTH:WIDTH + KV_HEADS * HEAD], y[..., WIDTH + KV_HEADS * HEAD:]
        k, v = (weft.repeat_interleave(weft_heads(t, KV_HEADS), HEADS // KV_HEADS, dim=1) for t in (k, v))
        x = x + self.out(weft_merged(weft_attention(rotated(weft_heads(q, HEADS)), rotated(k), v)))
        y = self.gate_up(self.norm_2(x))
        return x + self.down(F.silu(y[..., :INNER]) * y[..., INNER:])


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList([LlamaBlock() for _ in range(LAYERS)])
        self.norm, self.head = nn.RMSNorm(WIDTH, eps=1e-6), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words):
        x = self.embedding(words)
        cos, sin = (weft.tensor(np.concatenate([f(angles())] * 2, -1)).to(x.dtype) for f in (np.cos, np.sin))
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


def test_llama_in_two_files_with_joined_weights(tmp_path):
    weights = llama_weights()
    files = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    homes = {name: files[n % 2] for n, name in enumerate(sorted(weights))}
    for file in files:
        reference.save_file({n: a for n, a in weights.items() if homes[n] == file}, tmp_path / file, {"format": "pt"})
    index = {"metadata": {"total_size": sum(a.nbytes for a in weights.values())}, "weight_map": homes}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    net = Llama().to(weft.float64)
    net.load_state_dict(weft.io.load_sharded(tmp_path, mapping=weft.io.Mapping.read(mappings / "llama.map")))
    expected = llama_in_numpy(weights, WORD_IDS)
    with weft.no_grad():
        assert np.abs(net(weft.tensor(WORD_IDS)).numpy() - expected).max() < 1e-11 * np.abs(expected).max()


# ---- the functions --------------------------------------------------------------------------------------------------

def test_a_file_is_read_in_mapped_parts(tmp_path):
    weft.io.save_file({"q": weft.arange(8).reshape(2, 4), "k": weft.arange(4).reshape(1, 4)}, tmp_path / "f", {"a": "b"})
    text = "q, k -> qk, axis=0\nqk -> w, permute=[1,0]"
    with weft.io.SafeFile(tmp_path / "f", mapping=text) as file:
        assert file.keys() == ["w"] and "q" not in file and file.metadata() == {"a": "b"}
        assert file.get_slice("w").shape == (4, 3)
        assert file.get_slice("w")[1:3, -1].tolist() == [1, 2]
        assert file.get_tensor("w").tolist() == [[0, 4, 0], [1, 5, 1], [2, 6, 2], [3, 7, 3]]
    with pytest.raises(ValueError, match="closed"):
        file.metadata()
    assert weft.io.load_file(tmp_path / "f", names=["w"], mapping=text)["w"].shape == (4, 3)
    with pytest.raises(KeyError, match="no tensor .*q"):
        weft.io.load_file(tmp_path / "f", names=["q"], mapping=text)


def test_dictionaries_and_optimizer_states():
    mapping = weft.io.Mapping("w -> a, b, axis=0, dtype=\"float64\"\n_ -> c.$I")
    out = mapping({"w": weft.arange(4, dtype=weft.float32), "x": weft.ones(1)})
    assert {n: t.tolist() for n, t in out.items()} == {"a": [0, 1], "b": [2, 3], "x": [1]}
    kept = mapping.optimizer({"w.exp_avg": weft.ones(4), "w.step": weft.tensor(3), "group.0.lr": weft.tensor(0.1)})
    assert sorted(kept) == ["a.exp_avg", "a.step", "b.exp_avg", "b.step", "group.0.lr"]
    assert kept["b.exp_avg"].dtype == weft.float32 and kept["b.step"].item() == 3
    assert mapping.leaves("c.7") and not mapping.leaves("c")


def test_states_in_shards_are_saved_loaded_and_merged(tmp_path):
    shard, w = weft.io.ShardedTensor, weft.arange(16, dtype=weft.float32).reshape(4, 4)
    ranks = [{"w": shard(w[:2], (4, 4), (0, 0)), "b": w[0]},
             {"w": shard(w[2:].reshape(-1), (4, 4), (2, 0), (0, 8), (2, 4)), "b": w[0]}]
    assert weft.io.save_state_dict(ranks, tmp_path, nested_names={"w": ["model", "w"]}) == 1
    assert weft.io.save_state_dict({"later": w}, tmp_path) == 2 and weft.io.state_ids(tmp_path) == [1, 2]
    columns = {"w": shard(weft.zeros(4, 2), (4, 4), (0, 2))}
    weft.io.load_state_dict(columns, tmp_path, id=1)
    assert columns["w"].local.tolist() == w[:, 2:].tolist()
    net = nn.Linear(4, 4)
    weft.io.load_state_dict(net.state_dict(), tmp_path, id=1, mapping="w -> weight, permute=[]\nb -> bias")
    assert net.weight.tolist() == w.T.tolist() and net.bias.tolist() == [0, 1, 2, 3]
    for offload in (False, True):
        files = weft.io.merge_sharded(tmp_path, tmp_path / "merged", id=1, prefix="model", offload=offload)
        assert files == ["model.safetensors"] and weft.io.load_sharded(tmp_path / "merged")["w"].tolist() == w.tolist()
    with pytest.raises(ValueError, match="no rank has"):
        weft.io.save_state_dict(ranks[:1], tmp_path)
    with pytest.raises(KeyError, match="nothing is loaded into: v"):
        weft.io.load_state_dict({"v": w}, tmp_path)


def test_errors_are_pythons_and_name_the_place(tmp_path):
    with pytest.raises(ValueError, match="line 2, column 5"):
        weft.io.Mapping("a -> b\nx ->")
    with pytest.raises(KeyError, match="no tensor is named"):
        weft.io.Mapping("a -> b")({})
    with pytest.raises(TypeError, match="float32 and float64"):
        weft.io.Mapping("a, b -> c, axis=0")({"a": weft.ones(1), "b": weft.ones(1, dtype=weft.float64)})
    with pytest.raises(OSError):
        weft.io.Mapping.read(tmp_path / "none")
    with pytest.raises(OSError):
        weft.io.merge_sharded(tmp_path, tmp_path)
