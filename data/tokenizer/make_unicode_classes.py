"""Writes unicode_classes.inc: the letters (L*), numbers (N*) and white space of Unicode 16, as ranges of code points.

python3 -m venv v && v/bin/pip install unicodedata2==16.0.0 && v/bin/python make_unicode_classes.py > unicode_classes.inc
"""
import unicodedata2

assert unicodedata2.unidata_version == "16.0.0"

# The property White_Space; Unicode guarantees that it is stable.
SPACES = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


def kind(point):
    if point in SPACES:
        return "space"
    return {"L": "letter", "N": "number"}.get(unicodedata2.category(chr(point))[0], "other")


ranges, start = [], 0
for point in range(1, 0x110001):
    if point == 0x110000 or kind(point) != kind(start):
        if kind(start) != "other":
            ranges.append(f"{{0x{start:X}, 0x{point - 1:X}, {kind(start)}}},")
        start = point

print("// Unicode 16: written by make_unicode_classes.py.")
line = ""
for item in ranges:
    if len(line) + len(item) > 118:
        print(line.rstrip())
        line = ""
    line += item + " "
print(line.rstrip())
