#!/usr/bin/env bash
# The program writes with what `./weft train --save` left, the same text by the same seed, and with a checkpoint.
# usage: generate_program.sh FOLDER_OF_PROGRAMS CHECKPOINTS
set -euo pipefail
programs=$1 checkpoints=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$programs/weft-train" --preset tiny --steps 20 --save run --out out > /dev/null
write() { "$programs/weft-generate" "$@" 2> figures; }
one=$(write run --tokens 120 --seed 3)
[[ ${#one} -ge 100 && $(write run --tokens 120 --seed 3) == "$one" && $(write run --tokens 120 --seed 4) != "$one" ]]
grep -q '120 tokens behind 1 in' figures
[[ $(write run --tokens 40 --prompt 'const int' --echo) == 'const int'* ]]
[[ $(write run --tokens 120 --seed 3 --draft run) == "$one" ]]
[[ $(write run --tokens 120 --seed 3 --stop "${one:20:3}") == "${one:0:20}" ]]
if "$programs/weft-generate" nowhere 2> error; then exit 1; fi
[[ $(wc -l < error) -le 3 ]]

# A checkpoint whose tokens are 20 letters.
cp -r "$checkpoints/llama" model
python3 - <<'EOF'
import json
vocabulary = {chr(ord("a") + i): i for i in range(20)}
json.dump({"version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None,
           "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
           "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
           "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}, open("model/tokenizer.json", "w"))
EOF
greedy=$(write model --prompt deaf --tokens 10 --temperature 0)
[[ ${#greedy} -ge 1 && $(write model --prompt deaf --tokens 10 --temperature 0 --draft model) == "$greedy" ]]
write model --prompt deaf --tokens 10 --dtype bfloat16 --top-k 5 --repetition-penalty 1.2 > /dev/null
write model --prompt deaf --tokens 4 --temperature 1 --beams 3 > /dev/null
echo "both write"
