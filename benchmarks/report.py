#!/usr/bin/env python3
"""Writes the results of a run of both libraries: the complete table, and families of cases with their goals.

  benchmarks/report.py libtorch.jsonl build/release/bench.json --name zen4-1t --machine "2-core AMD EPYC guest (Zen 4)"

Reads the files that compare.py reads; several runs of one library are merged. Writes benchmarks/results/NAME.md, and the
family table into docs/performance.md between its marks, so that no figure is copied by hand. --dry-run prints both.
With --threads 2 the files must also contain runs of Weft on one thread: the table shows the speedup from the second
thread. The goals are defined below, one line for each group of cases.
"""
import argparse
import pathlib
import re

import compare

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Groups of cases (regular expression for the whole name), minimum ratio to libtorch of each case, minimum geometric
# mean.
GOALS = [
    ("ovh.*", r"ovh\.(?!handle_copy).*", 6, 18),
    ("thr.*", r"thr\..*", 1, 3),
    ("gemm.*", r"gemm\.(?!\w+\.16$).*", 1.05, None),
    ("gemm.*, tiny sizes", r"gemm\.\w+\.16", 5, None),
    ("conv.*, 3×3", r"conv\.3x3_fwd\.8x(64|128|256)x.*", 1.05, None),
    ("conv.*, small channels", r"conv\.3x3_fwd\.8x3x.*", 1.5, None),
    ("conv.max_pool*", r"conv\.max_pool.*", 15, None),
    ("attn.fwd", r"attn\.fwd\..*", 1.3, None),
    ("attn.causal_fwd", r"attn\.causal_fwd\..*", 2.2, None),
    ("grad.attn", r"grad\.attn\..*", 1.5, None),
    ("grad.*, the others", r"grad\.(?!attn\.).*", None, 2.5),
    ("opt.adamw, against libtorch's fused one", r"opt\.adamw\.100x1e4", 1.2, None),
    ("opt.adamw, tiny parameters", r"opt\.adamw\.100x4", 20, None),
    ("opt.*, the others", r"opt\.(?!adamw).*", 1, None),
    ("train.mlp", r"train\.mlp", 1.35, None),
    ("train.lenet", r"train\.lenet", 3, None),
    ("train.chargpt", r"train\.chargpt(_fwd)?", 1.5, None),
    ("train.xor", r"train\.xor", 20, None),
]
# Cases that are compared with a libtorch case of another name.
RIVALS = {"opt.adamw.100x1e4": "opt.adamw_fused.100x1e4"}
MARKS = {1: ("<!-- families: written by benchmarks/report.py -->", "<!-- families end -->"),
         2: ("<!-- two threads: written by benchmarks/report.py -->", "<!-- two threads end -->")}
# Goals for the speedup from a second thread.
SCALING = [
    ("products: gemm, attn and their gradients", r"gemm\..*|attn\..*|grad\.(matmul|attn)\..*", 1.7),
    ("elementwise and rows, 2e6 elements and more", r"thr\.(?!gather|scatter)\w+\.(1e7|20\d\dx\d+)", None),
    ("indexing, 1e6 elements and more", r"thr\.(index|mask|nonzero|gather|scatter|embedding|bincount|unique)\w*\..*", None),
    ("gradients", r"grad\.(?!matmul|attn).*", None),
    ("training", r"train\.\w+", None),
]
# Bytes per element of compulsory traffic, for memory-bound cases of 1e7 elements and for their roofs.
STREAMS = {"thr.copy.1e7": 8, "thr.add_out.1e7": 12, "thr.add_inplace.1e7": 12, "thr.exp_out.1e7": 8, "thr.sum_all.1e7": 4}
ROOFS = {"roof.memcpy.1e7": 8, "roof.stream.1e7": 8, "roof.read.1e7": 4}


def ratios(runs, pattern, threads):
    """{case: libtorch's time / Weft's time} for common cases, and the names of cases that only one library has."""
    found, absent = {}, []
    for case in runs.cases:
        if not re.fullmatch(pattern, case):
            continue
        ours, theirs = runs.of(case, "weft", threads), runs.of(RIVALS.get(case, case), "torch", threads)
        if ours and theirs and runs.is_time(case, "weft", threads):
            found[case] = theirs / ours
        elif theirs and runs.is_time(case, "torch", threads) and case not in RIVALS.values():
            absent.append(case)
    return found, absent


def goal_text(least, mean):
    parts = ([f"each ≥ {least:g}"] if least else []) + ([f"mean ≥ {mean:g}"] if mean else [])
    return ", ".join(parts)


def families(runs, threads):
    """The family table, then the goals that are not reached."""
    lines = ["| family | goal against libtorch | cases | geometric mean | least | met |", "|---|---|---|---|---|---|"]
    missed, missing, met_cases = [], [], 0
    for family, pattern, least, mean in GOALS:
        found, absent = ratios(runs, pattern, threads)
        missing += absent
        if not found:
            lines.append(f"| `{family}` | {goal_text(least, mean)} | 0 | | | not measured |")
            continue
        low = [case for case, ratio in found.items() if ratio < (least or 0)]
        met_cases += len(found) - len(low)
        missed += [(case, found[case], least) for case in low]
        average, worst = compare.geometric_mean(found.values()), min(found, key=found.get)
        met = "yes" if not low and average >= (mean or 0) else f"no, {len(low)} below" if low else "no, the mean"
        lines.append(f"| `{family}` | {goal_text(least, mean)} | {len(found)} | {average:.2f}× | "
                     f"{found[worst]:.2f}× `{worst}` | {met} |")
    below = ", ".join(f"`{case}` {ratio:.2f} of {least:g}" for case, ratio, least in sorted(missed, key=lambda m: m[1] / m[2]))
    lines.append(f"\nCases below their goal, farthest first ({len(missed)}): {below}." if missed
                 else "\nNo case is below its goal.")
    if missing:
        lines.append("\nMeasured in libtorch alone: " + ", ".join(f"`{case}`" for case in missing) + ".")
    return lines


def scaling(runs):
    """Speedup from the second thread for cases of a millisecond or more on one thread."""
    least_ns = 1e6
    lines = ["| work | cases | one thread's time over two threads', geometric mean | least |", "|---|---|---|---|"]
    for group, pattern, goal in SCALING:
        gains = {}
        for case in runs.cases:
            if not re.fullmatch(pattern, case) or not runs.is_time(case, "weft", 1):
                continue
            one, two = runs.of(case, "weft", 1), runs.of(case, "weft", 2)
            if one and two and one >= least_ns:
                gains[case] = one / two
        if not gains:
            continue
        worst = sorted(gains, key=gains.get)[:3]
        asked = f" (goal {goal})" if goal else ""
        lines.append(f"| {group}{asked} | {len(gains)} | {compare.geometric_mean(gains.values()):.2f}× | "
                     + ", ".join(f"{gains[case]:.2f} `{case}`" for case in worst) + " |")
    return lines


def streams(runs, threads):
    """Fraction of the machine's bandwidth of memory-bound cases (goal 90 %); roofs use the same number of threads."""
    def rate(case, size):
        ns = runs.of(case, "weft", threads)
        return size * 1e7 / ns if ns else 0
    roof = max(rate(case, size) for case, size in ROOFS.items())
    if not roof:
        return []
    rates = {case: rate(case, size) for case, size in STREAMS.items()}
    return (["", f"| bound by memory: {roof:.1f} GB/s on {threads} threads | GB/s | of the roof (goal 90 %) |", "|---|---|---|"]
            + [f"| `{case}` | {rate:.1f} | {rate / roof:.0%} |" for case, rate in rates.items() if rate])


def replaced(text, lines, marks):
    begin, end = marks
    if begin not in text or end not in text:
        raise SystemExit(f"report.py: docs/performance.md has lost the mark {begin}")
    head, tail = text.split(begin)[0], text.split(end)[1]
    return head + begin + "\n" + "\n".join(lines) + "\n" + end + tail


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="results of both libraries")
    parser.add_argument("--name", required=True, help="the file in benchmarks/results/, such as zen4-1t")
    parser.add_argument("--machine", required=True, help="the machine, in a few words")
    parser.add_argument("--threads", type=int, choices=[1, 2], default=1)
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    runs = compare.Runs(options.files, r"^(roof|ovh|thr|gemm|conv|attn|grad|opt|train)\.")
    threads = "one thread" if options.threads == 1 else f"{options.threads} threads"
    source = f"{options.machine}, {threads}; the whole table: [{options.name}](../benchmarks/results/{options.name}.md)."
    summary = [source, ""] + (scaling(runs) + streams(runs, 2) if options.threads == 2 else families(runs, options.threads))
    shown = [1, 2] if options.threads == 2 else [1]
    whole = [f"# {options.machine}, {threads}", ""] + compare.table(runs, threads=shown)
    if options.dry_run:
        print("\n".join(whole + [""] + summary))
        return
    (ROOT / "benchmarks/results" / f"{options.name}.md").write_text("\n".join(whole) + "\n", encoding="utf-8")
    page = ROOT / "docs/performance.md"
    page.write_text(replaced(page.read_text(encoding="utf-8"), summary, MARKS[options.threads]), encoding="utf-8")


if __name__ == "__main__":
    main()
