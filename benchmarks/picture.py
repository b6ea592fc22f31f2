#!/usr/bin/env python3
"""Pictures and tables from Weft's benchmark: cost by size, and the machine's roofline with the kernels' rates.

  ./weft bench '^grow' --json grow.json
  benchmarks/picture.py growth grow.json --svg docs/images/growth.svg
  ./weft bench '^(roof|thr|gemm|attn)' --json roof.json
  benchmarks/picture.py roofline roof.json --svg docs/images/roofline.svg

Files are Google Benchmark's JSON of one thread. Uses the thread's CPU time, as the rates there, and the median of several
runs of a case. Prints the table to standard output. The SVG is readable on light and dark backgrounds.
"""
import argparse
import json
import math
import re
import statistics

UNIT = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
COLOURS = ["#3b82c4", "#e0752b", "#3f9b57", "#b0569f", "#a08500"]
STYLE = """<style>
  text { font: 13px system-ui, sans-serif; fill: #24292f; }
  .title { font-size: 15px; font-weight: 600; } .small { font-size: 11px; }
  .ground { fill: #ffffff; } .grid { stroke: #d8dee4; } .axis { stroke: #6e7781; } .roof { stroke: #57606a; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .ground { fill: #0d1117; } .grid { stroke: #30363d; } .axis { stroke: #8b949e; } .roof { stroke: #9ea7b3; }
  }
</style>
"""


class Case:
    """One case of a run: the median time of its repetitions, and its rates."""

    def __init__(self, runs):
        self.ns = statistics.median(r["cpu_time"] * UNIT[r["time_unit"]] for r in runs)
        self.rate = {unit: statistics.median(r[unit] for r in runs) for unit in ("GB/s", "GFLOP/s") if unit in runs[0]}
        self.elements = runs[0].get("elements")


def read(paths):
    runs, context = {}, {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        context = document["context"]
        for run in document["benchmarks"]:
            if run.get("run_type", "iteration") == "iteration" and not run.get("error_occurred"):
                runs.setdefault(run.get("run_name", run["name"]).split("/")[0], []).append(run)
    return {name: Case(list_) for name, list_ in runs.items()}, context


class Panel:
    """A rectangle with logarithmic axes."""

    def __init__(self, box, x_range, y_range, title, x_label, y_label):
        self.left, self.top, self.right, self.bottom = box
        self.x_range, self.y_range = x_range, y_range
        self.out = []
        self.frame(title, x_label, y_label)

    def across(self, x):
        low, high = map(math.log10, self.x_range)
        return self.left + (math.log10(x) - low) / (high - low) * (self.right - self.left)

    def down(self, y):
        low, high = map(math.log10, self.y_range)
        return self.bottom - (math.log10(y) - low) / (high - low) * (self.bottom - self.top)

    def text(self, x, y, words, anchor="start", kind=""):
        words = words.replace("&", "&amp;").replace("<", "&lt;")
        self.out.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>')

    def frame(self, title, x_label, y_label):
        for value in ticks(self.y_range):
            y = self.down(value)
            self.out.append(f'<line class="grid" x1="{self.left}" y1="{y:.1f}" x2="{self.right}" y2="{y:.1f}"/>')
            self.text(self.left - 8, y + 4, f"{value:g}", "end")
        for value in ticks(self.x_range):
            x = self.across(value)
            self.out.append(f'<line class="grid" x1="{x:.1f}" y1="{self.top}" x2="{x:.1f}" y2="{self.bottom}"/>')
            self.text(x, self.bottom + 20, f"{value:g}" if value < 1e4 else f"1e{round(math.log10(value))}", "middle")
        self.out.append(f'<line class="axis" x1="{self.left}" y1="{self.bottom}" x2="{self.right}" y2="{self.bottom}"/>')
        self.text(self.left, self.top - 18, title, kind="title")
        self.text((self.left + self.right) / 2, self.bottom + 42, x_label, "middle")
        middle = (self.top + self.bottom) / 2
        self.out.append(f'<text x="{self.left - 50}" y="{middle}" text-anchor="middle" '
                        f'transform="rotate(-90 {self.left - 50} {middle})">{y_label}</text>')

    def line(self, points, colour=None, dashed=False):
        path = " ".join(f"{self.across(x):.1f},{self.down(y):.1f}" for x, y in points)
        look = f'stroke="{colour}" stroke-width="1.8"' if colour else 'class="roof" stroke-width="1.5"'
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.out.append(f'<polyline points="{path}" fill="none" {look}{dash} stroke-linejoin="round"/>')

    def dot(self, x, y, colour):
        self.out.append(f'<circle cx="{self.across(x):.1f}" cy="{self.down(y):.1f}" r="3.5" fill="{colour}"/>')

    def legend(self, names):
        for i, name in enumerate(names):
            y = self.top + 14 + 18 * i
            self.out.append(f'<rect x="{self.right - 96}" y="{y - 6}" width="18" height="4" fill="{COLOURS[i]}"/>')
            self.text(self.right - 72, y, name)


def ticks(limits):
    low, high = (math.log10(v) for v in limits)
    return [10.0 ** e for e in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)]


def powers_around(values):
    return 10.0 ** math.floor(math.log10(min(values))), 10.0 ** math.ceil(math.log10(max(values)))


def document(width, height, panels):
    body = "\n".join(line for panel in panels for line in panel.out)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}">\n{STYLE}<rect class="ground" width="{width}" height="{height}"/>\n{body}\n</svg>\n')


def time_text(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


def growth(cases):
    """Time per element, or per operation if operations grow faster than elements."""
    curves = {}
    for name, case in cases.items():
        match = re.fullmatch(r"grow\.(\w+)\.\d+e\d+", name)
        if match:
            work = case.rate["GFLOP/s"] * case.ns if "GFLOP/s" in case.rate else case.elements
            curves.setdefault(match[1], []).append((case.elements, case.ns / work, case.ns, "GFLOP/s" in case.rate))
    if not curves:
        raise SystemExit("picture.py: no case grow.* in these files")
    print("| case | elements | time | ns per element | ns per operation |\n|---|---|---|---|---|")
    for name, points in curves.items():
        points.sort()
        for elements, cost, ns, by_operation in points:
            print(f"| {name} | {elements:.3g} | {time_text(ns)} | {ns / elements:.3g} | "
                  f"{f'{cost:.3g}' if by_operation else ''} |")
    print("\nThe steepest step between two sizes, in time per element (per operation for matmul and attention):")
    for name, points in curves.items():
        (a, b) = max(zip(points, points[1:]), key=lambda pair: pair[1][1] / pair[0][1])
        print(f"- {name}: {b[1] / a[1]:.2f}x from {a[0]:.3g} to {b[0]:.3g} elements")
    panels = []
    for i, (by_operation, title, label) in enumerate(((False, "Time per element", "ns"),
                                                      (True, "Time per operation", "ns"))):
        chosen = {name: points for name, points in curves.items() if points[0][3] == by_operation}
        values = [cost for points in chosen.values() for _, cost, _, _ in points]
        left = 76 + 480 * i
        panel = Panel((left, 56, left + 370, 360), (1e2, 1e8), powers_around(values), title, "elements", label)
        for j, points in enumerate(chosen.values()):
            panel.line([(x, y) for x, y, _, _ in points], COLOURS[j])
            for x, y, _, _ in points:
                panel.dot(x, y, COLOURS[j])
        panel.legend(chosen)
        panels.append(panel)
    return document(960, 420, panels)


# Cases on the roofline: label, operations per byte of compulsory traffic (each operand read once, each result written
# once; an exponential counts as one operation), memory level of the operands, and position of the label.
ROOFLINE = {
    "thr.add.1e7": ("add", 1 / 12, "memory", "right"),
    "thr.exp.1e7": ("exp", 1 / 8, "memory", "right"),
    "thr.sum_all.1e7": ("sum", 1 / 4, "memory", "right"),
    "gemm.mv_f32.1024": ("matrix · vector", 2 / 4, "cache", "right"),
    "thr.softmax.2000x2000": ("softmax", 5 / 8, "memory", "right"),
    "thr.layer_norm.2048x1024": ("layer_norm", 8 / 8, "memory", "right"),
    "gemm.linear_f32.64x784x256": ("linear", 2 * 64 * 784 * 256 / (4 * (64 * 784 + 784 * 256 + 64 * 256)),
                                   "cache", "below"),
    "gemm.f32.64": ("64", 64 / 6, "cache", "below"),
    "gemm.f32.256": ("256", 256 / 6, "cache", "below"),
    "gemm.f32.1024": ("matmul 1024", 1024 / 6, "memory", "below"),
    "gemm.f32.2048": ("2048", 2048 / 6, "memory", "right"),
    "gemm.bf16.1024": ("bf16 1024", 1024 / 3, "memory", "right"),
    "attn.fwd.4x8x512x64": ("attention", 512 / 4, "memory", "left"),
}
PLACES = {"right": (7, 13, "start"), "left": (-8, 4, "end"), "below": (0, 18, "middle")}


def roofs(cases):
    """GFLOP/s of multiply-adds in f32 and bf16, GB/s of memory (the best of copying, streaming, reading) and of cache."""
    bandwidth = {size: max((case.rate["GB/s"] for name, case in cases.items()
                            if re.fullmatch(rf"roof\.(memcpy|stream|read)\.{size}", name)), default=None)
                 for size in ("1e5", "1e7")}
    if "roof.fma_f32" not in cases or None in bandwidth.values():
        raise SystemExit("picture.py: the roof.* cases are not in these files")
    bf16 = cases["roof.dot_bf16"].rate["GFLOP/s"] if "roof.dot_bf16" in cases else None
    return cases["roof.fma_f32"].rate["GFLOP/s"], bf16, bandwidth["1e7"], bandwidth["1e5"]


def roofline(cases):
    """Rates over operations per byte, with the machine's measured roofs."""
    peak, peak_bf16, memory, cache = roofs(cases)
    print(f"Peak {peak:.0f} GFLOP/s in f32" + (f", {peak_bf16:.0f} in bf16" if peak_bf16 else "") +
          f"; {memory:.1f} GB/s from memory, {cache:.0f} GB/s from cache (400 kB).\n")
    print("| case | operations per byte | GFLOP/s | of its roof |\n|---|---|---|---|")
    left, right, low = 0.03, 1000, 0.3
    panel = Panel((76, 56, 900, 440), (left, right), (low, 10.0 ** math.ceil(math.log10(peak_bf16 or peak))),
                  "Roofline of one core", "operations per byte", "GFLOP/s")
    for bandwidth, words, dashed, at in ((cache, "cache", True, 0.2), (memory, "memory", False, 2.2)):
        start = max(left, low / bandwidth)
        panel.line([(start, bandwidth * start), (peak / bandwidth, peak)], dashed=dashed)
        side = (-6, "end") if dashed else (22, "start")
        panel.text(panel.across(at), panel.down(bandwidth * at) + side[0], f"{words} {bandwidth:.3g} GB/s", side[1], "small")
    for rate, words, dashed in ((peak, "f32", False), (peak_bf16, "bf16", True)):
        if rate:
            panel.line([(rate / cache, rate), (right, rate)], dashed=dashed)
            panel.text(panel.across(3), panel.down(rate) - 6, f"{words} {rate:.0f} GFLOP/s", kind="small")
    for name, (words, intensity, where, place) in ROOFLINE.items():
        if name not in cases:
            continue
        rate = cases[name].rate
        reached = rate.get("GFLOP/s", rate.get("GB/s", 0) * intensity)
        roof = min(peak_bf16 if "bf16" in name and peak_bf16 else peak, (cache if where == "cache" else memory) * intensity)
        print(f"| `{name}` | {intensity:.3g} | {reached:.3g} | {reached / roof:.0%} of {where if roof < peak else 'peak'} |")
        panel.dot(intensity, reached, COLOURS[1 if "bf16" in name else 0])
        dx, dy, anchor = PLACES[place]
        panel.text(panel.across(intensity) + dx, panel.down(reached) + dy, words, anchor, "small")
    return document(960, 500, [panel])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", choices=("growth", "roofline"))
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--svg", help="where the picture goes; without it only the table is printed")
    options = parser.parse_args()
    cases, _ = read(options.files)
    svg = {"growth": growth, "roofline": roofline}[options.picture](cases)
    if options.svg:
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(svg)


if __name__ == "__main__":
    main()
