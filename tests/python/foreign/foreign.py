"""Runs PyTorch's Python test files, each in a process of its own, and prints passed, failed and not counted per file.

A test that hangs or ends its process is a failure; the file's other tests go on in a new process.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
FILES = ("test_indexing test_view_ops test_autograd test_optim test_shape_ops test_reductions test_sort_and_select test_torch "
         "test_nn test_dataloader test_tensor_creation_ops test_type_promotion test_scatter_gather_ops "
         "distributions/test_distributions distributions/test_constraints distributions/test_transforms "
         "distributions/test_utils test_serialization test_modules test_unary_ufuncs test_binary_ufuncs test_linalg "
         "test_spectral_ops test_numpy_interop nn/test_dropout nn/test_embedding nn/test_packed_sequence nn/test_pooling "
         "autograd/test_complex autograd/test_functional").split()
# Tests of CUDA, TorchScript, the dispatcher, code generators and quantised tensors do not count. Nor do those that fail
# where NumPy's arrays mix with tensors correctly: they assert a defect (issue 36363 of PyTorch).
UNCOUNTED = re.compile(r"cuda|cudnn|gpu|_jit|jit_|[Ss]cript|quantiz|mkldnn|xla|_meta\b|_meta_|fake_tensor|dispatch|nvtx|vitals|"
                       r"TestDocs|deploy|logging_tensor|conv_backend|numpy_array_binary_ufunc_promotion", re.I)


class Tally:
    """The results of one file."""

    def __init__(self):
        self.outcomes, self.reasons, self.other_texts, self.broken = {}, {}, {}, ""

    def add(self, name, outcome, text, crash):
        if UNCOUNTED.search(name) or outcome == "skipped":
            outcome = "uncounted"
        self.outcomes[name] = outcome
        self.reasons[name] = text if outcome == "uncounted" else crash or text

    def counts(self):
        found = collections.Counter(self.outcomes.values())
        worded = sum(self.outcomes[name] == "passed" for name in self.other_texts)
        return found["passed"], found["failed"], found["uncounted"], worded


def reason_of(text):
    """The last error in a report, without its numbers, so that like errors group."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return "no message"
    first = lines[0]
    first = re.sub(r"0x[0-9a-f]+", "0x", first)
    first = re.sub(r"\d+(\.\d+)?(e[-+]\d+)?", "N", first)
    first = re.sub(r"\[[N, -]*\]|\([N, -]*\)", "[N]", first)
    return first[:170]


def run_child(file, options, tally):
    """Runs the tests that have no result yet. False where the process ended before its last test."""
    with tempfile.TemporaryDirectory() as folder:
        out, done, log = (pathlib.Path(folder, name) for name in ("out", "done", "log"))
        done.write_text(json.dumps(list(tally.outcomes)))
        command = [sys.executable, str(HERE / "child.py"), str(file), "--sources", str(options.sources), "--out", str(out),
                   "--done", str(done), "--match", options.match, "--seconds", str(options.timeout)]
        with log.open("w") as stream:
            process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True,
                                       env={**os.environ, "PYTHONFAULTHANDLER": "1"})
            running = follow(process, out, options, tally)
            end_group(process)
        if running:
            tally.add(running, "failed", "", f"the process ended: {crash_of(process)}")
        elif process.returncode not in (0, 1, 5) and not tally.outcomes:
            tally.broken = log.read_text()[-3000:]
        return running is None


def crash_of(process):
    code = process.returncode
    return "timeout" if code == -9 else f"signal {-code}" if code < 0 else f"exit code {code}"


def end_group(process):
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        pass
    process.wait()


def follow(process, out, options, tally):
    """Reads the lines of the child. Returns the test that ran when it ended."""
    position, running, since = 0, None, time.monotonic()
    while True:
        ended = process.poll() is not None
        text = ""
        if out.exists():
            with out.open() as stream:
                stream.seek(position)
                text = stream.read()
            whole = text.rfind("\n") + 1
            position += len(text[:whole].encode())
            for line in text[:whole].splitlines():
                fields = json.loads(line)
                since = time.monotonic()
                if fields["event"] == "start":
                    running = fields["name"]
                elif fields["event"] == "end":
                    running = None
                    if fields["outcome"] != "passed" or fields["name"] not in tally.outcomes:
                        tally.add(fields["name"], fields["outcome"], fields["text"], fields["crash"])
                    if fields["other_texts"]:
                        tally.other_texts[fields["name"]] = fields["other_texts"]
                elif fields["event"] == "broken":
                    tally.broken = fields["text"]
        if ended:
            return running
        if running and time.monotonic() - since > options.timeout + 10:
            end_group(process)
        time.sleep(0.2)


def run_file(name, options, save):
    tally = Tally()
    while not run_child(options.sources / "test" / (name + ".py"), options, tally):
        save(name, tally)  # an interrupted run keeps what it has
    save(name, tally)
    return tally


def print_counts(name, passed, failed, uncounted, worded):
    percent = 100 * passed / max(1, passed + failed)
    print(f"{name:32} {passed:6} passed {failed:6} failed {uncounted:6} not counted {percent:6.1f} %"
          f" {worded:5} passed with another error text", flush=True)


def print_tally(name, tally, options):
    print_counts(name, *tally.counts())
    if tally.broken:
        print(tally.broken)
    failures = {test: tally.reasons[test] for test, outcome in tally.outcomes.items() if outcome == "failed"}
    for reason, count in collections.Counter(map(reason_of, failures.values())).most_common(options.groups):
        print(f"    {count:5}  {reason}")
    if options.list_failures:
        for test, text in sorted(failures.items()):
            first = (text.strip().splitlines() or ["no message"])[0]
            print(f"  FAILED {test}: {first[:200]}")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sources", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--match", default="")
    parser.add_argument("--timeout", type=int, default=60)
    parser.add_argument("--groups", type=int, default=10)
    parser.add_argument("--list-failures", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def chosen_files(only):
    """Files by their name or its end; every file without a choice."""
    wanted = [name.removesuffix(".py") for name in only.split(",") if name]
    return [file for file in FILES if not wanted or file in wanted or file.removeprefix("test_") in wanted or
            file.split("/")[0] in wanted]


def main():
    options = arguments()
    results = {}

    def save(name, tally):
        results[name] = {"counts": tally.counts(), "outcomes": tally.outcomes, "reasons": tally.reasons,
                         "other_texts": tally.other_texts, "broken": tally.broken}
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))

    for name in chosen_files(options.only):
        print_tally(name, run_file(name, options, save), options)
    print_counts("all", *(sum(column) for column in zip(*(result["counts"] for result in results.values()))))


if __name__ == "__main__":
    main()
