#!/usr/bin/env python3
"""Every public function whose comment names an error takes the place of the call, which the error then names.

usage: places.py INCLUDE_FOLDER HEADER...
"""
import pathlib
import re
import sys

CARRIERS = r"\b(Location|Operand|OpName|Key|Place|Name|Position|FirstTensor|Argument|IndexList|TensorList)\b"
# Functions inside of an op or of backward, whose errors have its location, and functions that cannot take a location.
EXEMPT = {
    "accumulate", "check_not_moved", "gradient_rows", "make_general_node", "check_inplace",  # backward
    "saved", "mark_dirty", "input", "results", "backward", "infer", "get",                   # bodies of ops
    "rows_of_steps", "check_count", "check_alike", "cross_entropy", "check_index_type",
    "new_tensor", "contiguous_layout", "strided_layout", "check_sizes", "wrap_dim", "to",
    "unsupported", "index_out_of_range", "target_out_of_range", "raise_out_of_memory", "make_shared_memory",
    "load_plugins_of_environment", "index_checks", "hex", "checkpoint_module", "raise_non_finite",
    "void",          # tables of kernels
    "begin",         # the JsonLines know their place
    "operator",      # CapturedStep::at is the form with a place
    "Config", "of", "wrap",  # braces of a caller that has one
    "metric", "requires",
    "WEFT_POOLS",    # a macro that adds it
    "WEFT_KERNEL_ROW",  # kernels run inside of an op
}


def declarations(text):
    """Each comment of a declaration with the declaration."""
    for comment in re.finditer(r"(?:^[ \t]*///[^\n]*\n)+", text, re.M):
        depth, end = 0, comment.end()
        while end < len(text):
            depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(text[end], 0)
            if depth == 0 and text[end] == ";":
                break
            if depth == 1 and text[end] == "{" and (
                    ")" in text[comment.end():end] or re.search(r"\b(class|struct|namespace|enum)\b", text[comment.end():end])):
                break
            end += 1
        yield comment[0], " ".join(re.sub(r"//[^\n]*", "", text[comment.end():end]).split())


def main(include, headers):
    failed = 0
    for header in headers:
        for comment, declaration in declarations(pathlib.Path(include, "weft", header).read_text()):
            name = re.search(r"(\w+)\W*\(", declaration)
            if name is None or re.match(r"class|struct|enum|namespace|using|#define", declaration):
                continue
            if not re.search(r"\b[A-Z]\w+Error\b", comment) or re.search(CARRIERS, declaration) or name[1] in EXEMPT:
                continue
            print(f"{header}: {declaration[:100]} names no place")
            failed += 1
    print(f"{len(headers)} headers")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
