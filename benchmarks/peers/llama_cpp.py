"""One token and a prompt with Llama-shaped models in llama.cpp: the cases gen.decode.* and gen.prefill.* of ./weft bench.

    taskset -c 0 python benchmarks/peers/llama_cpp.py LLAMA_BENCH [--threads N]

LLAMA_BENCH is llama.cpp's program of this name, built for this machine; see README.md. Requires the packages gguf and
numpy. Models with random weights are written to a temporary folder.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import gguf
import numpy as np
from generation_sizes import CONTEXT, PROMPT, SIZES

FORMATS = {
    "f32": gguf.GGMLQuantizationType.F32,
    "bf16": gguf.GGMLQuantizationType.BF16,
    "f16": gguf.GGMLQuantizationType.F16,
    "int8": gguf.GGMLQuantizationType.Q8_0,
    "int4": gguf.GGMLQuantizationType.Q4_0,
}


def write_model(path, format, vocabulary, width, layers, heads, kv_heads, hidden):
    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(width // heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(vocabulary)
    writer.add_tokenizer_model("none")

    def add_matrix(name, rows, columns):
        weights = random.standard_normal((rows, columns), dtype=np.float32) * 0.02
        writer.add_tensor(name, gguf.quants.quantize(weights, format), raw_dtype=format)

    def add_norm(name):
        writer.add_tensor(name, np.ones(width, dtype=np.float32))

    kv = kv_heads * (width // heads)
    add_matrix("token_embd.weight", vocabulary, width)
    add_matrix("output.weight", vocabulary, width)
    add_norm("output_norm.weight")
    for i in range(layers):
        add_norm(f"blk.{i}.attn_norm.weight")
        add_norm(f"blk.{i}.ffn_norm.weight")
        for name, rows, columns in (("attn_q", width, width), ("attn_k", kv, width), ("attn_v", kv, width),
                                    ("attn_output", width, width), ("ffn_gate", hidden, width),
                                    ("ffn_up", hidden, width), ("ffn_down", width, hidden)):
            add_matrix(f"blk.{i}.{name}.weight", rows, columns)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def median_ms(program, model, threads, *arguments):
    """Total time of the tokens of one measured call."""
    command = [program, "-m", model, "-t", str(threads), "-r", "9", "-o", "json", *arguments]
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    samples = json.loads(ran.stdout)[0]["samples_ns"]
    return sorted(samples)[len(samples) // 2] / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llama_bench", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="cases with this text in their name")
    given = parser.parse_args()
    tokens = 16
    with tempfile.TemporaryDirectory() as folder:
        for size, shape in SIZES.items():
            for name, format in FORMATS.items():
                case = f"{size}.{name}"
                if given.only not in case:
                    continue
                model = Path(folder) / f"{case}.gguf"
                write_model(model, format, **shape)
                decode = median_ms(given.llama_bench, model, given.threads, "-p", 0, "-n", tokens, "-d", CONTEXT)
                prefill = median_ms(given.llama_bench, model, given.threads, "-p", PROMPT, "-n", 0)
                print(f"gen.decode.{case} {decode / tokens:.2f} ms\ngen.prefill.{case} {prefill:.1f} ms", flush=True)
                model.unlink()


if __name__ == "__main__":
    main()
