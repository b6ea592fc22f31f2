"""Compares the programs of this folder, compiled with Weft, with what libtorch computes.

  programs.py compare PROGRAM EXPECTED          Runs the program and compares its numbers with the recorded ones.
  programs.py check TORCH [--weft-files F]      Compiles the programs with libtorch and compares with the recorded ones.
                                                With F, the program files of Weft, both read the files of the other.
  programs.py record TORCH                      The same, but writes expected/.

TORCH is the folder of an installed PyTorch, <site-packages>/torch.
"""
import argparse
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
EXPECTED = HERE / "expected"
TOLERANCE = 1e-4


def output_of(command, environment=None):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600, env=environment)
    if result.returncode != 0:
        sys.exit(f"{command[0]} failed with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


def numbers_differ(a, b):
    try:
        a, b = float(a), float(b)
    except ValueError:
        return a != b
    return not math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def compare(name, found, expected):
    found, expected = found.splitlines(), expected.splitlines()
    if len(found) != len(expected):
        sys.exit(f"{name}: {len(found)} lines, expected {len(expected)}")
    for number, (a, b) in enumerate(zip(found, expected), 1):
        left, right = a.split(), b.split()
        if len(left) != len(right) or any(map(numbers_differ, left, right)):
            sys.exit(f"{name}, line {number}: {a}, expected {b}")
    print(f"{name}: {len(found)} lines agree")


class Libtorch:
    def __init__(self, torch, compiler, folder):
        self.torch, self.folder = torch, folder
        include = torch / "include"
        self.command = [compiler, "-std=c++20", "-O0", "-w", f"-I{folder}", f"-I{include}",
                        f"-I{include}/torch/csrc/api/include"]
        cuda = pathlib.Path("/usr/local/cuda")
        self.command += [f"-I{cuda}/include"] if cuda.exists() else []
        self.environment = dict(os.environ, LD_LIBRARY_PATH=f"{torch}/lib:{cuda}/lib64")
        (folder / "torch").mkdir()
        output_of(self.command + ["-x", "c++-header", include / "torch/csrc/api/include/torch/torch.h", "-o",
                                  folder / "torch/torch.h.gch"])

    def program(self, name):
        out = self.folder / name
        output_of(self.command + [HERE / f"{name}.cpp", "-o", out, f"-L{self.torch}/lib",
                                  "-Wl,--unresolved-symbols=ignore-in-shared-libs", "-ltorch", "-ltorch_cpu", "-lc10",
                                  "-lpthread"])
        return out

    def run(self, *command):
        return output_of(command, self.environment)


def exchange_files(libtorch, program, weft_program):
    with tempfile.TemporaryDirectory() as folder:
        libtorch.run(program, "write", folder)
        print("Weft reads libtorch's files:", output_of([weft_program, "read", folder]).strip())
    with tempfile.TemporaryDirectory() as folder:
        output_of([weft_program, "write", folder])
        print("libtorch reads Weft's files:", libtorch.run(program, "read", folder).strip())


def with_libtorch(args):
    record = args.action == "record"
    with tempfile.TemporaryDirectory() as folder:
        libtorch = Libtorch(args.torch.resolve(), args.compiler, pathlib.Path(folder))
        for source in sorted(HERE.glob("*.cpp")):
            name, program = source.stem, libtorch.program(source.stem)
            if name == "files":
                if record:
                    shutil.rmtree(EXPECTED / "files", ignore_errors=True)
                    (EXPECTED / "files").mkdir(parents=True)
                    libtorch.run(program, "write", EXPECTED / "files")
                if args.weft_files:
                    exchange_files(libtorch, program, args.weft_files)
                continue
            printed = libtorch.run(program)
            if record:
                (EXPECTED / f"{name}.txt").write_text(printed)
            else:
                compare(name, printed, (EXPECTED / f"{name}.txt").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    one = actions.add_parser("compare")
    one.add_argument("program", type=pathlib.Path)
    one.add_argument("expected", type=pathlib.Path)
    for name in ("check", "record"):
        both = actions.add_parser(name)
        both.add_argument("torch", type=pathlib.Path)
        both.add_argument("--compiler", default="g++")
        both.add_argument("--weft-files", type=pathlib.Path)
    args = parser.parse_args()
    if args.action == "compare":
        compare(args.expected.stem, output_of([args.program]), args.expected.read_text())
    else:
        with_libtorch(args)


main()
