"""Compiles, links and runs each of PyTorch's C++ test files, and prints passed, failed and not compiled per file.

A test that does not compile is removed from a copy of its file, so that the others of the file run.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

TEST = re.compile(r"^TEST(?:_F)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.M)
# Tests of CUDA, TorchScript, the dispatcher and other devices' backends do not count.
UNCOUNTED_FILES = {"jit", "dispatch", "tensor_cuda", "tensor_options_cuda", "parallel", "parallel_benchmark",
                   "support", "nested", "meta_tensor"}
UNCOUNTED = re.compile(r"CUDA|MultiGPU|_Multi|Jit|TorchScript|Dispatch|Kernel|Boxed|Autocast|Quantized|MKLDNN|"
                       # They use the dispatcher, private headers of autograd, or an op of libtorch for this test alone.
                       r"NotImplementedFallback|TLSState|AutoNonVariableType|MaterializeGrads|AmbiguousOperatorDefaults")
# Private headers of libtorch, which programs do not include.
PRIVATE = re.compile(r"#include <(ATen/core/(boxing|op_registration)|torch/csrc/autograd/(FunctionsManual|functions/)|"
                     r"ATen/native/)[^>]*>")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--expected", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--syntax", action="store_true")
    parser.add_argument("--list-failures", action="store_true")
    return parser.parse_args()


def expected_differences(path):
    """Lines "file.Suite.Test  reason"."""
    found = {}
    if path.exists():
        for line in path.read_text().splitlines():
            name, _, reason = line.partition(" ")
            if name and not name.startswith("#"):
                found[name] = reason.strip()
    return found


def end_of_block(lines, first):
    """The line of the brace that closes the first block from line `first` on."""
    depth = 0
    for i in range(first, len(lines)):
        code = re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|//.*', "", lines[i])
        for brace in re.findall(r"[{}]", code):
            depth += 1 if brace == "{" else -1
            if depth == 0 and brace == "}":
                return i
    return len(lines) - 1


class Source:
    """A copy of a test file from which tests can be removed. Line numbers stay those of the original."""

    def __init__(self, path):
        text = PRIVATE.sub("// private header", path.read_text())
        self.lines = text.split("\n")
        self.name = path.stem
        self.tests = {}
        for match in TEST.finditer(text):
            first = text.count("\n", 0, match.start())
            last = end_of_block(self.lines, first)
            name = match.group(1) + "." + match.group(2)
            if UNCOUNTED.search(name):
                self.blank(first, last)
            else:
                self.tests[name] = (first, last)
        self.removed = {}

    def remove_at(self, line, message):
        """Removes the test, or the smallest function, that contains the line. Returns False if there is none."""
        for test, (first, last) in self.tests.items():
            if first <= line <= last:
                if test in self.removed:
                    return True
                self.removed[test] = message
                self.blank(first, last)
                return True
        first = line
        while first > 0 and self.lines[first] and not self.lines[first - 1] in ("", "}"):
            first -= 1
        last = next((i for i in range(line, len(self.lines)) if re.match(r"}", self.lines[i])), None)
        if last is None or last - first > 120:
            return False
        self.blank(first, last)
        return True

    def hits(self, lines, target):
        """(line, message) of each error: the line in a test that led to it, else another line of the file."""
        found, near = [], []
        place = re.compile(re.escape(target) + r":(\d+):")
        for line in lines:
            match = place.match(line)
            if match:
                near.append(int(match.group(1)) - 1)
            if "error:" not in line:
                continue
            in_tests = [n for n in near if any(first <= n <= last for first, last in self.tests.values())]
            if near:
                found.append(((in_tests or near)[-1], line.split("error:", 1)[1].strip()))
            near = []
        return found

    def blank(self, first, last):
        for i in range(first, last + 1):
            self.lines[i] = ""

    def text(self):
        return "\n".join(self.lines)


def compile_file(source, work, cxx, syntax):
    """Removes what does not compile. Returns the object, or None."""
    target = work / (source.name + ".cpp")
    out = work / (source.name + ".o")
    first_errors = []
    for _ in range(12):
        target.write_text(source.text())
        action = ["-fsyntax-only"] if syntax else ["-c", "-o", str(out)]
        flags = ["-O0", "-w", "-fmax-errors=400", "-fdiagnostics-color=never"]
        result = subprocess.run(cxx + flags + [str(target)] + action, capture_output=True, text=True)
        if result.returncode == 0:
            return out, first_errors
        lines = result.stderr.splitlines()
        hits = source.hits(lines, str(target))
        first_errors = first_errors or [f"{n + 1}: {m}" for n, m in hits] or [l for l in lines if "error" in l][:3]
        if not hits or not any([source.remove_at(n, m) for n, m in hits]):
            return None, first_errors
    return None, first_errors


def compile_support(tests, work, cxx):
    """The object of support.cpp, which the tests share."""
    out = work / "support.o"
    subprocess.run(cxx + ["-O0", "-w", "-c", str(tests / "support.cpp"), "-o", str(out)], check=True)
    return out


def run(program, work, name):
    report = work / (name + ".json")
    report.unlink(missing_ok=True)
    done, passed, failed = set(), set(), {}
    # A crash ends the program: the others run in further calls.
    for _ in range(20):
        skip = ":".join(sorted(done))
        try:
            result = subprocess.run([str(program), "--gtest_filter=-" + skip, f"--gtest_output=json:{report}"],
                                    capture_output=True, text=True, timeout=600, cwd=work, errors="replace")
            output = result.stdout
        except subprocess.TimeoutExpired as error:
            output = (error.stdout or b"").decode(errors="replace")
        running = None
        for line in output.splitlines():
            if line.startswith("[ RUN      ]"):
                running = line.split("]", 1)[1].strip()
            elif line.startswith("[       OK ]") and running:
                passed.add(running), done.add(running)
                running = None
            elif line.startswith("[  FAILED  ]") and running:
                failed[running] = "failed"
                done.add(running)
                running = None
        if running is None:
            break
        failed[running] = "crashed or timed out"
        done.add(running)
    (work / (name + ".txt")).write_text(output)
    return passed, failed


def main():
    args = arguments()
    cxx = shlex.split(os.environ["WEFT_TORCH_CXX"]) + [f"-I{args.cache}/pytorch"]
    libraries = shlex.split(os.environ.get("WEFT_TORCH_LIBS", ""))
    expected = expected_differences(args.expected)
    work = args.cache / "work"
    work.mkdir(exist_ok=True)
    only = set(args.only.split(",")) if args.only else None
    rows, unexpected = [], []
    tests = args.cache / "pytorch/test/cpp/api"
    support = None if args.syntax else compile_support(tests, work, cxx)
    for path in sorted(tests.glob("*.cpp")):
        if path.stem in UNCOUNTED_FILES or (only and path.stem not in only):
            continue
        source = Source(path)
        counted = list(source.tests)
        obj, errors = compile_file(source, work, cxx, args.syntax)
        missing = [t for t in counted if obj is None or t in source.removed]
        passed, failed = set(), {}
        if obj and not args.syntax:
            program = work / (path.stem + ".bin")
            objects = [str(obj), str(support), "-lgtest", "-lgtest_main"]
            link = subprocess.run(cxx + objects + libraries + ["-lpthread", "-o", str(program)],
                                  capture_output=True, text=True)
            if link.returncode != 0:
                missing = counted
                errors = [l for l in link.stderr.splitlines() if "undefined" in l][:40]
                (work / (path.stem + ".link")).write_text(link.stderr)
            else:
                passed, failed = run(program, work, path.stem)
        rows.append((path.stem, len(counted), len(passed), len(failed), len(missing)))
        print(f"{path.stem:20} {len(counted):4} tests {len(passed):4} passed {len(failed):4} failed "
              f"{len(missing):4} not compiled", flush=True)
        if args.list_failures:
            for test, why in sorted(failed.items()):
                print(f"    {why}: {test}")
            for test in missing:
                print(f"    not compiled: {test}: {source.removed.get(test, '')[:150]}")
            if obj is None or (missing and not source.removed):
                for error in errors[:25]:
                    print("    ", error[:200])
        for test in list(failed) + missing:
            if f"{path.stem}.{test}" not in expected:
                unexpected.append(f"{path.stem}.{test}")
    total = [sum(r[i] for r in rows) for i in range(1, 5)]
    print(f"{'all':20} {total[0]:4} tests {total[1]:4} passed {total[2]:4} failed {total[3]:4} not compiled")
    (work / "unexpected.txt").write_text("\n".join(unexpected) + "\n")
    if args.syntax:
        return 0
    print(f"{len(unexpected)} differences are not in {args.expected.name}; {work}/unexpected.txt lists them")
    return 1 if unexpected else 0


sys.exit(main())
