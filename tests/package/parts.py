"""Each part of the library calls only functions of the parts that it needs.

usage: parts.py BUILD, a build tree whose library is compiled. Reads the symbols of its object files with nm."""
import collections
import pathlib
import subprocess
import sys

build = pathlib.Path(sys.argv[1])
needs = {}
for line in (build / "parts.txt").read_text().splitlines():
    part, *needed = line.split()
    needs[part] = {part}.union(*(needs[other] for other in needed))

owner, calls = {}, collections.defaultdict(set)
for part in needs:
    objects = sorted(build.glob(f"CMakeFiles/weft_{part}_*.dir/**/*.o"))
    if not objects:
        sys.exit(f"no object file of the part {part} in {build}")
    listing = subprocess.run(["nm", "-A", "--format=posix", *objects], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        path, _, entry = line.partition(": ")
        symbol, letter, *_ = entry.split()
        if letter in "TDBR":
            owner[symbol] = part
        elif letter == "U":
            calls[symbol].add((part, pathlib.Path(path).stem))

wrong = sorted((symbol, part, file) for symbol, callers in calls.items() for part, file in callers
               if symbol in owner and owner[symbol] not in needs[part])
for symbol, part, file in wrong:
    name = subprocess.run(["c++filt", symbol], capture_output=True, text=True).stdout.strip()
    print(f"{file} of the part {part} calls {name} of {owner[symbol]}, which {part} does not need")
print(f"{len(needs)} parts, {len(owner)} symbols, {len(wrong)} calls of a part that is not needed")
sys.exit(bool(wrong) or len(owner) < 1000)
