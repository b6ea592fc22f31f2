"""Runs one of PyTorch's test files and writes a line of JSON at the start and the end of each test."""
import argparse
import json
import os
import pathlib
import re
import resource
import signal
import sys
import warnings

os.environ.update(PYTORCH_TESTING_DEVICE_ONLY_FOR="cpu", PYTORCH_TEST_WITH_SLOW="0")
import pytest  # noqa: E402

import stand_ins  # noqa: E402


class Timeout(BaseException):
    """A test ran too long."""


class Report:
    """The plugin of pytest that writes the lines."""

    def __init__(self, out, done, match, seconds):
        self.out, self.done, self.match, self.seconds = out, done, match, seconds

    def write(self, **fields):
        self.out.write(json.dumps(fields) + "\n")
        self.out.flush()

    def pytest_collection_modifyitems(self, items):
        stand_ins.finish_loading()
        items[:] = [item for item in items if re.search(self.match, item.nodeid) and name_of(item.nodeid) not in self.done]
        self.write(event="collected", count=len(items))

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(event="broken", text=str(report.longrepr))

    def pytest_runtest_logstart(self, nodeid, location):
        self.write(event="start", name=name_of(nodeid))
        signal.alarm(self.seconds)

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            signal.alarm(0)
            text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr or "")
            crash = getattr(getattr(report.longrepr, "reprcrash", None), "message", "")
            self.write(event="end", name=name_of(report.nodeid), outcome=report.outcome, text=text, crash=crash,
                       other_texts=stand_ins.noted_texts[:])
            stand_ins.noted_texts.clear()


def name_of(nodeid):
    return nodeid.split("::", 1)[1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--sources", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--done", type=pathlib.Path, required=True)
    parser.add_argument("--match", default="")
    parser.add_argument("--seconds", type=int, required=True)
    options = parser.parse_args()
    sys.argv[1:] = []
    resource.setrlimit(resource.RLIMIT_DATA, (10 << 30, 10 << 30))

    def expire(*_):
        raise Timeout(f"longer than {options.seconds} s")

    signal.signal(signal.SIGALRM, expire)
    warnings.simplefilter("default")  # as unittest does
    stand_ins.install(options.sources)
    done = set(json.loads(options.done.read_text()))
    with open(options.out, "w") as out:
        report = Report(out, done, options.match, options.seconds)
        pytest.main(["-p", "no:cacheprovider", "-p", "no:warnings", "-p", "no:faulthandler", "--noconftest", "-c", os.devnull,
                     "--rootdir", str(options.file.parent), "-q", "--tb=short", str(options.file)], [report])


if __name__ == "__main__":
    main()
