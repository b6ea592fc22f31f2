#!/usr/bin/env python3
"""Cost of a complete process: start-up, memory, size of the library, compile time.

  ./weft build release weft_startup weft_chargpt
  benchmarks/process.py                       # or: benchmarks/process.py --build FOLDER

Prints a table of measurements and goals. Times are medians over complete processes, from exec to exit, pinned to one
core, with the CPU time, which depends little on other load. Memory is the process's peak (VmHWM). The library's size is
that of all of libweft.a linked into a shared object and stripped: Weft's own code, without the libraries that it uses.
Compile times are wall times of the compiler at -O2, without ccache.
"""
import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = """#include <cstdio>
#include <weft/nn/layers.hpp>
#include <weft/optim/optim.hpp>
#include <weft/ops/loss.hpp>
#include <weft/ops/random.hpp>
int main() {
  weft::nn::Linear layer(4, 1);
  weft::optim::SGD optimizer(layer.parameters(), {.lr = 0.1});
  const weft::Tensor x = weft::randn({32, 4}), y = x.sum({1}, true);
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    const weft::Tensor loss = mse_loss(layer(x), y);
    loss.backward();
    optimizer.step();
    if (step % 10 == 0) std::printf("%g\\n", loss.item<float>());
  }
}
"""


def timed(command):
    """Wall and CPU time of one process from exec to exit, in milliseconds; its output is discarded."""
    begin = time.perf_counter()
    process = os.posix_spawnp(command[0], command, os.environ,
                              file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(process, 0)
    if status != 0:
        raise SystemExit(f"process.py: {command[0]} failed with status {status}")
    return (time.perf_counter() - begin) * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3


def times(command, runs):
    """The medians of wall and CPU time."""
    timed(command)  # the first run only warms the page cache
    wall, core = zip(*(timed(command) for _ in range(runs)))
    return statistics.median(wall), statistics.median(core)


def peak_mebibytes(command):
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return int(output.split("peak_kb")[1]) / 1024


def library_mebibytes(build, compiler, folder):
    shared = folder / "weft.so"
    subprocess.run([compiler, "-shared", "-o", shared, "-Wl,--whole-archive", build / "libweft.a", "-Wl,--no-whole-archive",
                    "-Wl,--gc-sections", "-Wl,-Bsymbolic-functions", "-Wl,-z,pack-relative-relocs",
                    f"-Wl,--version-script={build / 'exports.map'}"], check=True)
    subprocess.run(["strip", shared], check=True)
    return shared.stat().st_size / 2**20


def compile_seconds(build, compiler, folder, source, runs):
    file = folder / "program.cpp"
    file.write_text(source, encoding="utf-8")
    command = [compiler, "-std=c++20", "-O2", "-I", str(build / "include"), "-c", str(file), "-o", str(file) + ".o"]
    return [ms / 1e3 for ms in times(command, runs)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="the build tree")
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--compiler", default=os.environ.get("CXX", "g++"))
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    build = options.build.resolve()
    startup, chargpt = build / "benchmarks/weft_startup", build / "benchmarks/weft_chargpt"
    if not startup.exists() or not chargpt.exists():
        raise SystemExit(f"process.py: {build} has no weft_startup or weft_chargpt; ./weft build release makes them")
    os.sched_setaffinity(0, {options.core})
    compiler = shutil.which(options.compiler) or sys.exit(f"process.py: there is no {options.compiler}")

    def row(name, goal, unit, value, core=None):
        beside = f"{core:.3g} {unit}" if core is not None else ""
        print(f"| {name} | ≤ {goal} {unit} | {value:.3g} {unit} | {beside} | {'yes' if value <= goal else 'no'} |", flush=True)

    print("| figure | goal | measured | of it on a core | met |\n|---|---|---|---|---|")
    for name, arguments in (("start to the first op", []), ("start to the first backward pass", ["backward"])):
        row(name, 10, "ms", *times([str(startup)] + arguments, options.runs))
    row("peak memory of the first op", 20, "MiB", peak_mebibytes([startup, "peak"]))
    row("peak memory of training the character GPT", 120, "MiB", peak_mebibytes([chargpt, "10"]))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        row("own library, stripped", 16, "MiB", library_mebibytes(build, compiler, folder))
        for what, goal, source in ((f"compile a program of {PROGRAM.count(chr(10))} lines", 2, PROGRAM),
                                   ("compile `#include <weft/weft.hpp>`", 1, "#include <weft/weft.hpp>\n")):
            row(what, goal, "s", *compile_seconds(build, compiler, folder, source, max(3, options.runs // 5)))


if __name__ == "__main__":
    main()
