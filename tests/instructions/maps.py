#!/usr/bin/env python3
"""Instructions per element of weft::map's loops: twelve formulas in one file, at several levels of optimisation,
against the limits in formulas.hpp and against the same formulas in files of their own.

usage: maps.py ALONE PROGRAM...    ALONE holds each formula in a file of its own, a PROGRAM all of them in one

valgrind must be there, or the exit status is 77. It knows AVX2 and no AVX-512, so AVX2's loops are counted.
"""
import shutil, sys, tempfile
from count import dumps, total

room_beside_alone = 1.10


def counts(program):
    """{case: instructions per element}, {case: limit}"""
    with tempfile.TemporaryDirectory() as folder:
        lines, found = dumps(program, folder, cpu_target=None)
    elements, level = int(lines[0].split()[0]), lines[0].split()[-1]
    if level != "1":
        print(f"SIMD level {level} instead of AVX2's: no instructions were counted")
        sys.exit(77)
    limits = {name: float(limit) for name, limit in (line.split() for line in lines[1:])}
    return {name: total(found[name]) / elements for name in limits}, limits


def main(alone, *programs):
    if shutil.which("valgrind") is None:
        print("valgrind is missing: no instructions were counted (./weft setup installs it)")
        return 77
    base, limits = counts(alone)
    failed = not limits
    for program in programs:
        together, _ = counts(program)
        print(f"{program}: instructions an element, and alone in a file")
        for name in limits:
            bad = together[name] > min(limits[name], base[name] * room_beside_alone)
            failed |= bad
            print(f"  {name:24} {together[name]:7.1f}  {base[name]:7.1f}  limit {limits[name]:5.0f}  {'TOO MANY' if bad else 'ok'}")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
