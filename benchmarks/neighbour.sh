#!/bin/bash
# Measures the cost of a busy neighbour: runs cases on THREADS threads, alternating between alone and with a foreign
# process spinning on one of the cores. Prints the median times and their ratio.
usage() {
  cat <<'EOF'
usage: benchmarks/neighbour.sh [--threads N] [--rounds N] [--bench PROGRAM] [REGEX]
Runs the benchmarks that match REGEX (train.mlp) on the first N cores (2) with N threads: alone, then beside a process
that spins on the last of these cores; so many rounds (5) in turn. PROGRAM is build/release/benchmarks/weft_bench.
Prints a line for each case: the median time alone, the median time beside the neighbour, and their ratio.
EOF
}
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
threads=2 rounds=5 bench=$root/build/release/benchmarks/weft_bench regex='^train\.mlp$'
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage && exit ;;
    --threads) threads=$2 && shift 2 ;;
    --rounds) rounds=$2 && shift 2 ;;
    --bench) bench=$2 && shift 2 ;;
    -*) usage >&2 && exit 2 ;;
    *) regex=$1 && shift ;;
  esac
done
[ -x "$bench" ] || { echo "no program $bench: ./weft bench builds it" >&2; exit 2; }
results=$(mktemp -d)
neighbour=
trap '[ -z "$neighbour" ] || kill "$neighbour"; rm -rf "$results"' EXIT
run() {  # NAME
  WEFT_NUM_THREADS=$threads taskset -c "0-$((threads - 1))" "$bench" --benchmark_filter="$regex" \
    --benchmark_format=json >"$results/$1" 2>/dev/null
}
for round in $(seq "$rounds"); do
  run "alone.$round"
  taskset -c "$((threads - 1))" sh -c 'while :; do :; done' &
  neighbour=$!
  run "beside.$round"
  kill "$neighbour" && wait "$neighbour" 2>/dev/null || true
  neighbour=
done
python3 - "$results" <<'EOF'
import glob, json, statistics, sys
unit = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}
def medians(kind):
    times = {}
    for path in glob.glob(f"{sys.argv[1]}/{kind}.*"):
        for b in json.load(open(path))["benchmarks"]:
            times.setdefault(b["name"], []).append(b["real_time"] * unit[b["time_unit"]])
    return {name: statistics.median(t) for name, t in times.items()}
alone, beside = medians("alone"), medians("beside")
for name in alone:
    print(f"{name}: alone {alone[name]:.1f} us, beside a busy neighbour {beside[name]:.1f} us, {beside[name] / alone[name]:.2f}x")
EOF
