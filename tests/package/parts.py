"""Each part of the library calls only functions of the parts that it needs, and few functions of rooms below its own.

usage: parts.py BUILD, a build tree whose library is compiled. Reads the symbols of its object files with nm."""
import collections
import pathlib
import re
import subprocess
import sys

build = pathlib.Path(sys.argv[1])
needs = {}
for line in (build / "parts.txt").read_text().splitlines():
    part, *needed = line.split()
    needs[part] = {part}.union(*(needs[other] for other in needed))

arrows = (pathlib.Path(__file__).parent / "arrows.sh").read_text()
rooms = re.search(r"^rooms=\((.*)\)", arrows, re.M).group(1).split()
MOST_UPWARDS = 15  # Symbols that a room declares, calls, and leaves to a room below it to define.


def source_of(path):
    """The source of an object file: none if it was removed or moved since."""
    return pathlib.Path(__file__).parents[2] / str(path).split(".dir/", 1)[1].removesuffix(".o")


owner, calls = {}, collections.defaultdict(set)
room_of, callers_of = {}, collections.defaultdict(set)
for part in needs:
    objects = [path for path in sorted(build.glob(f"CMakeFiles/weft_{part}_*.dir/**/*.o")) if source_of(path).exists()]
    if not objects:
        sys.exit(f"no object file of the part {part} in {build}")
    listing = subprocess.run(["nm", "-A", "--format=posix", *objects], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        path, _, entry = line.partition(": ")
        symbol, letter, *_ = entry.split()
        room = path.split(".dir/", 1)[1].split("/", 1)[0]
        if letter in "TDBR":
            owner[symbol] = part
            room_of[symbol] = room
        elif letter == "U":
            calls[symbol].add((part, pathlib.Path(path).stem))
            callers_of[symbol].add(room)

wrong = sorted((symbol, part, file) for symbol, callers in calls.items() for part, file in callers
               if symbol in owner and owner[symbol] not in needs[part])
for symbol, part, file in wrong:
    name = subprocess.run(["c++filt", symbol], capture_output=True, text=True).stdout.strip()
    print(f"{file} of the part {part} calls {name} of {owner[symbol]}, which {part} does not need")
print(f"{len(needs)} parts, {len(owner)} symbols, {len(wrong)} calls of a part that is not needed")
height = {room: i for i, room in enumerate(rooms)}
upwards = sorted(symbol for symbol, callers in callers_of.items() if symbol in room_of and any(
    height.get(caller, len(rooms)) < height.get(room_of[symbol], 0) for caller in callers))
print(f"{len(upwards)} symbols are defined in a room below their caller's, {MOST_UPWARDS} at most")
if len(upwards) > MOST_UPWARDS:
    print(subprocess.run(["c++filt", *upwards], capture_output=True, text=True).stdout)
sys.exit(bool(wrong) or len(upwards) > MOST_UPWARDS or len(owner) < 1000)
