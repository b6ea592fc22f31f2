"""The C++ of docs/from_pytorch.md as a program that runs every line of it: from_pytorch.py PAGE OUT [TEXT]

Pieces with TEXT are compiled alone."""

import re
import sys


def code_spans(cell):
    return re.findall(r"`([^`]+)`", cell)


def cpp_of(page):
    """Setup lines, then numbered pieces: the cells of the right columns of two-column tables, and later blocks."""
    blocks = [(m.start(), m.group(1)) for m in re.finditer(r"```cpp\n(.*?)```", page, re.S)]
    setup, pieces = blocks[0][1], []
    for line_number, line in enumerate(page.splitlines(), 1):
        cells = [c.strip() for c in line.strip().strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 2 and not line.startswith("|--"):
            pieces += [(line_number, code) for code in code_spans(cells[1])]
    for start, text in blocks[1:]:
        pieces.append((page.count("\n", 0, start) + 2, text))
    return setup, pieces


def main(page_path, out_path, not_run=None):
    page = open(page_path, encoding="utf-8").read()
    setup, pieces = cpp_of(page)
    assert len(pieces) > 80, f"only {len(pieces)} pieces of C++ were found"
    includes = "".join(line + "\n" for line in setup.splitlines() if line.startswith(("#include", "using")))
    lines = "".join(line + "\n" for line in setup.splitlines() if not line.startswith(("#include", "using")))
    with open(out_path, "w", encoding="utf-8") as out:
        out.write(f"#include <cstdio>\n#include <iostream>\n{includes}\n")
        for i, (line, code) in enumerate(pieces):
            out.write(f"static void piece_{i}() {{\n{lines}#line {line} \"{page_path}\"\n{code.rstrip(chr(10) + ';')};\n}}\n")
        out.write("int main() {\n")
        for i, (line, code) in enumerate(pieces):
            if not_run and not_run in code:
                continue
            out.write(f"  std::fprintf(stderr, \"line {line}\\n\");\n  piece_{i}();\n")
        out.write("}\n")


main(*sys.argv[1:])
