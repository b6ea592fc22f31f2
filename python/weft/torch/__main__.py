"""python -m weft.torch script.py ARGS: runs a PyTorch script on Weft. --check lists the names that Weft lacks."""

import os
import runpy
import sys

from weft.torch import _door

_HELP = """usage: python -m weft.torch SCRIPT.py [ARGS...]
       python -m weft.torch -m MODULE [ARGS...]
       python -m weft.torch --check SCRIPT.py...

Runs a script, or a module, in which `import torch` means Weft.
--check reads the scripts without running them, and prints the names of torch that they use and Weft lacks; its exit
status is 1 if there is one. docs/torch.md lists the names and the differences."""


def _check(files):
    from weft.torch._script_names import missing_names

    found = False
    for file in files:
        missing = missing_names(file)
        found = found or bool(missing)
        for line in missing or [f"{file}: Weft has every name of torch that the script names"]:
            print(line)
    return 1 if found else 0


def _run(arguments):
    as_module = arguments[0] == "-m"
    if as_module and len(arguments) < 2:
        print("python -m weft.torch: -m needs the name of a module", file=sys.stderr)
        return 2
    name = arguments[1] if as_module else arguments[0]
    if not as_module and not os.path.exists(name):
        print(f"python -m weft.torch: there is no file {name!r}", file=sys.stderr)
        return 2
    _door.install()
    sys.argv = arguments[1:] if as_module else arguments
    sys.path[0] = os.getcwd() if as_module else os.path.dirname(os.path.abspath(name))
    try:
        if as_module:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(name, run_name="__main__")
    except ImportError as error:
        _door.add_hint(error)
        raise
    return 0


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_HELP)
        return 0 if arguments else 2
    if arguments[0] == "--check":
        return _check(arguments[1:])
    if arguments[0].startswith("-") and arguments[0] != "-m":
        print(f"python -m weft.torch: there is no option {arguments[0]!r}; see --help", file=sys.stderr)
        return 2
    return _run(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
