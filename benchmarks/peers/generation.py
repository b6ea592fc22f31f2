"""One token and a prompt with Llama-shaped models in PyTorch: the cases gen.decode.* and gen.prefill.* of ./weft bench.

    taskset -c 0 python benchmarks/peers/generation.py [--threads N]
"""

import argparse
import time

import torch
import torch.nn.functional as F
from generation_sizes import CONTEXT, PROMPT, SIZES


class Model:
    """A static cache of keys and values of up to 2048 tokens."""

    def __init__(self, dtype, vocabulary, width, layers, heads, kv_heads, hidden):
        def matrix(*shape):
            return torch.randn(*shape).mul_(0.02).to(dtype)

        self.depth = width // heads
        kv = kv_heads * self.depth
        self.norm = torch.ones(width, dtype=dtype)
        self.embedding, self.head = matrix(vocabulary, width), matrix(vocabulary, width)
        self.layers = [
            {"q": matrix(width, width), "k": matrix(kv, width), "v": matrix(kv, width), "o": matrix(width, width),
             "gate": matrix(hidden, width), "up": matrix(hidden, width), "down": matrix(width, hidden),
             "keys": torch.zeros(1, kv_heads, 2048, self.depth, dtype=dtype),
             "values": torch.zeros(1, kv_heads, 2048, self.depth, dtype=dtype)}
            for _ in range(layers)
        ]
        angles = torch.outer(torch.arange(2048), 10000.0 ** (-torch.arange(0, self.depth, 2) / self.depth))
        self.cos, self.sin = torch.cos(angles).repeat(1, 2).to(dtype), torch.sin(angles).repeat(1, 2).to(dtype)

    def rotate(self, x, begin):
        n, half = x.shape[2], self.depth // 2
        turned = torch.cat([-x[..., half:], x[..., :half]], -1)
        return x * self.cos[begin : begin + n] + turned * self.sin[begin : begin + n]

    def read(self, tokens, begin):
        """Logits after the last of `tokens`, which follow `begin` cached tokens."""
        n = tokens.numel()
        x = self.embedding[tokens].unsqueeze(0)
        for w in self.layers:
            h = F.rms_norm(x, self.norm.shape, self.norm, 1e-5)
            q, k, v = (F.linear(h, w[name]).view(1, n, -1, self.depth).transpose(1, 2) for name in "qkv")
            w["keys"][:, :, begin : begin + n] = self.rotate(k, begin)
            w["values"][:, :, begin : begin + n] = v
            k, v = w["keys"][:, :, : begin + n], w["values"][:, :, : begin + n]
            mixed = F.scaled_dot_product_attention(self.rotate(q, begin), k, v, is_causal=n > 1, enable_gqa=True)
            x = x + F.linear(mixed.transpose(1, 2).reshape(1, n, -1), w["o"])
            h = F.rms_norm(x, self.norm.shape, self.norm, 1e-5)
            x = x + F.linear(F.silu(F.linear(h, w["gate"])) * F.linear(h, w["up"]), w["down"])
        return F.linear(F.rms_norm(x[:, -1], self.norm.shape, self.norm, 1e-5), self.head)


def median_ms(run, seconds=2.0):
    run()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2] * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    with torch.inference_mode():
        for name, size in SIZES.items():
            for dtype, short in ((torch.float32, "f32"), (torch.bfloat16, "bf16"), (torch.float16, "f16")):
                model = Model(dtype, **size)
                prompt = torch.randint(0, size["vocabulary"], (PROMPT,))
                model.read(prompt[:CONTEXT], 0)
                print(f"gen.decode.{name}.{short} {median_ms(lambda: model.read(prompt[:1], CONTEXT)):.2f} ms")
                print(f"gen.prefill.{name}.{short} {median_ms(lambda: model.read(prompt, 0)):.1f} ms", flush=True)


if __name__ == "__main__":
    main()
