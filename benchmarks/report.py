#!/usr/bin/env python3
"""Writes what a run of both libraries says: the whole table, and the families with their goals.

  benchmarks/report.py libtorch.jsonl build/release/bench.json --name zen4-1t --machine "2-core AMD EPYC guest (Zen 4)"

Reads what compare.py reads; several runs of one library are merged. Writes benchmarks/results/NAME.md, and the family
table into docs/performance.md between its marks, so that documents hold no figure by hand. --dry-run prints both.
The goals stand below, one line for each group of cases.
"""
import argparse
import pathlib
import re

import compare

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Cases (a regular expression on the whole name), the least ratio to libtorch of each, the least geometric mean of all.
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
# Cases that libtorch answers with another one.
RIVALS = {"opt.adamw.100x1e4": "opt.adamw_fused.100x1e4"}
BEGIN, END = "<!-- families: written by benchmarks/report.py -->", "<!-- families end -->"


def ratios(runs, pattern, threads):
    """{case: libtorch's time over Weft's} of the cases that both have, and the names of those that only one has."""
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
    """The family table, then what it leaves open."""
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


def replaced(text, lines):
    if BEGIN not in text or END not in text:
        raise SystemExit("report.py: docs/performance.md has lost the marks around its family table")
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    return head + BEGIN + "\n" + "\n".join(lines) + "\n" + END + tail


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="results of both libraries")
    parser.add_argument("--name", required=True, help="the file in benchmarks/results/, such as zen4-1t")
    parser.add_argument("--machine", required=True, help="what was measured on, in a few words")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    runs = compare.Runs(options.files, r"^(ovh|thr|gemm|conv|attn|grad|opt|train)\.")
    threads = "one thread" if options.threads == 1 else f"{options.threads} threads"
    source = f"{options.machine}, {threads}; the whole table: [{options.name}](../benchmarks/results/{options.name}.md)."
    summary = [source, ""] + families(runs, options.threads)
    whole = [f"# {options.machine}, {threads}", ""] + compare.table(runs, threads=[options.threads])
    if options.dry_run:
        print("\n".join(whole + [""] + summary))
        return
    (ROOT / "benchmarks/results" / f"{options.name}.md").write_text("\n".join(whole) + "\n", encoding="utf-8")
    page = ROOT / "docs/performance.md"
    page.write_text(replaced(page.read_text(encoding="utf-8"), summary), encoding="utf-8")


if __name__ == "__main__":
    main()
