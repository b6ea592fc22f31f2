#!/usr/bin/env bash
# How long the test driver takes to build the first pointwise kernel that is called, with the rows as they are and four
# times as many, beside the time for all kernels of the module; and a process from its start to the first result of three
# ops, where no kernel was built before and where native code was kept: first_op.sh [BUILD [process]]. Medians, in
# seconds; `process` leaves the kernels out, which take minutes.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$root/build/release}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The wall and processor time of one process whose driver has translated nothing yet, with Weft's kept code in FOLDER.
first_result() { # DEVICE FOLDER
  local TIMEFORMAT='%R s (%U + %S s of a core)' && {
    time ZE_ENABLE_ALT_DRIVERS="$build/hpu/libze_weft_test_driver.so" WEFT_ZE_CACHE=$(mktemp -d -p "$work") \
      WEFT_CACHE_DIR=$2 "$build/benchmarks/weft_startup" on "$1" >"$work/result"
  } 2>&1
}
median_of_five() { for _ in 1 2 3 4 5; do "$@"; done | sort -n | sed -n 3p; }
cold() { first_result hpu "$(mktemp -d -p "$work")"; }
first_result hpu "$work/kept" >"$work/log"
echo "a process to its first result: nothing kept $(median_of_five cold)"
echo "                               kept         $(median_of_five first_result hpu "$work/kept")"
echo "                               on the CPU   $(median_of_five first_result cpu "")"
[[ ${2:-} == process ]] && exit
compile() { # SOURCES NAME: pointwise_f32.spv by the build's own commands
  ninja -C "$build" -t commands hpu/pointwise_f32.spv | tail -1 |
    sed "s#$root/backends#$1/backends#g; s#$build/hpu/pointwise_f32#$work/$2#g; s#-MD -MF [^ ]* -MT [^ ]*##" | (cd "$build" && bash -e)
}
median() { # command
  for _ in 1 2 3; do /usr/bin/time -f %e "$@" 2>&1 | tail -1; done | sort -n | sed -n 2p
}
report() { # NAME
  printf '%-11s %6d bytes of SPIR-V; the first kernel %s, all kernels %s\n' "$1" "$(stat -c %s "$work/$1.spv")" \
    "$(median "$build/hpu/weft_spv2so" "$build/hpu/builtins.bc" "$work/$1.spv" "$work/x.so" --kernel unary_exp_f32)" \
    "$(median "$build/hpu/weft_spv2so" "$build/hpu/builtins.bc" "$work/$1.spv" "$work/x.so")"
}

cp -r "$root/backends" "$root/tensor" "$work"
compile "$root" rows
# Each row three times more, under other names.
python3 - "$work/backends/functors/rows.hpp" <<'PY'
import re, sys
text = open(sys.argv[1]).read()
row = re.compile(r"^  X\((\w+),(.*?)(?= \\$|$)", re.M)
def copies(m):
    return " \\\n".join(f"  X({m[1]}{suffix},{m[2]}" for suffix in ("", "_b", "_c", "_d"))
open(sys.argv[1], "w").write(row.sub(copies, text))
PY
compile "$work" four_times
report rows
report four_times
