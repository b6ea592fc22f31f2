"""Runs the scripts with PyTorch and records their losses: python tests/python/torch_scripts/record.py [SCRIPT...]."""

import json
import pathlib
import runpy
import sys
import warnings

FOLDER = pathlib.Path(__file__).parent
RECORDED = FOLDER / "losses.json"
HELPERS = ("common", "record")


def scripts():
    """The names of all scripts."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in HELPERS)


def run(name):
    """The losses that a script collects."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")["losses"]
    return [float(f"{loss:.8g}") for loss in found]


def main(names):
    sys.path.insert(0, str(FOLDER))
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    for name in names or scripts():
        sys.argv = [name]
        recorded[name] = run(name)
        print(name, len(recorded[name]), recorded[name][:2], recorded[name][-1:], file=sys.stderr)
    recorded = {name: recorded[name] for name in scripts() if name in recorded}
    lines = [f"{json.dumps(name)}: {json.dumps(losses)}" for name, losses in recorded.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
