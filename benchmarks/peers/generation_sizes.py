"""The models of generation.cpp."""

CONTEXT, PROMPT = 128, 512

SIZES = {
    "llama4": {"vocabulary": 8192, "width": 512, "layers": 4, "heads": 8, "kv_heads": 4, "hidden": 1408},
    "llama100m": {"vocabulary": 32000, "width": 768, "layers": 12, "heads": 12, "kv_heads": 12, "hidden": 2048},
}
