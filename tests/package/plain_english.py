"""Comments and documents name things with nouns and verbs of the field, and keep sentences short.

usage: plain_english.py ROOT [--list N]   prints the figures, and the N densest comments; fails above a limit

The habits are counted per 1,000 words in comments of C++ and Python (docstrings included) and in Markdown; sentences of
more than 30 words as a share of all, in Markdown of those of at least four words. There a heading, a list item and a
cell of a table are texts of their own. CONTRIBUTING.md has the rules.
"""
import argparse
import pathlib
import re
import subprocess
import sys

HABITS = {
    "what": r"\bwhat\b(?! is the\b)",
    "who": r"\b(?:who|whoever|whom|whose)\b",
    "stands": r"\b(?:stands?|lies?|(?:is|are) told|knows?|gives? back|goes? on|takes? over|hands? on|asks?)\b",
}
# The goal is 1.0, 0.5, 0.5 and 0 everywhere: a limit may only be lowered.
LIMITS = {
    "product": {"what": 0.5, "who": 0.5, "stands": 0.25, "long": 0.25},
    "documents": {"what": 0.5, "who": 0.5, "stands": 0.25, "long": 0.25},
    "tests": {"what": 0.9, "who": 0.4, "stands": 0.35, "long": 0.6},
}
GENERATED = ("docs/ops.md", "docs/names.md", "docs/pytorch.md", "examples/data/", "benchmarks/results/", "tests/indexing_cases/")


def cpp_comments(text):
    """(line, text) of each block of // comments; a comment behind code is a block with the lines that follow it."""
    block, start = [], 0
    for number, line in enumerate([*text.split("\n"), ""], 1):
        found = re.match(r"\s*//[/!]?<?\s?(.*)", line) or re.search(r"\s//[/!]?<\s?(.*)", line)
        if found:
            start = start if block else number
            block.append(found.group(1))
        elif block:
            yield start, " ".join(block)
            block = []


def python_comments(text):
    for pattern in (r'"""(.*?)"""', r"^[ \t]*# (.*)$"):
        for found in re.finditer(pattern, text, re.S if '"' in pattern else re.M):
            yield text.count("\n", 0, found.start()) + 1, found.group(1)


def markdown_texts(text):
    """(line, text) of each paragraph, heading, list item and table cell outside of blocks of code."""
    text = re.sub(r"^( *)```.*?^\1```", lambda code: "\n" * code.group(0).count("\n"), text, flags=re.S | re.M)
    block, start = [], 0
    for number, line in enumerate([*text.split("\n"), ""], 1):
        begins = re.match(r"\s*(?:[-*]|\d+\.)\s|#", line)
        is_cells = line.startswith("|")
        if block and (begins or is_cells or not line.strip()):
            yield start, " ".join(block)
            block = []
        if is_cells:
            yield from ((number, cell.strip()) for cell in line.strip("|").split("|"))
        elif line.startswith("#"):
            yield number, line
        elif line.strip():
            start = start if block else number
            block.append(line.strip())


def comments(path, text):
    if path.suffix in (".hpp", ".cpp", ".h", ".inc", ".cu"):
        return cpp_comments(text)
    if path.suffix == ".py":
        return python_comments(text)
    return markdown_texts(text) if path.suffix == ".md" else []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--list", type=int, default=0)
    arguments = parser.parse_args()
    counts = {kind: dict.fromkeys(("words", "sentences", "long", *HABITS), 0) for kind in LIMITS}
    dense = []
    listing = subprocess.run(["git", "-C", arguments.root, "ls-files"], capture_output=True, text=True)
    names = listing.stdout.split() if listing.returncode == 0 else [
        str(path.relative_to(arguments.root)) for path in arguments.root.rglob("*") if "build" not in path.parts]
    for name in sorted(names):
        path = arguments.root / name
        if name.startswith(GENERATED) or not path.is_file() or path.suffix not in (".hpp", ".cpp", ".h", ".inc", ".cu", ".py", ".md"):
            continue
        kind = "documents" if path.suffix == ".md" else "tests" if name.startswith("tests/") else "product"
        for line, comment in comments(path, path.read_text(encoding="utf-8")):
            count, words = counts[kind], len(comment.split())
            hits = {habit: len(re.findall(pattern, comment, re.I)) for habit, pattern in HABITS.items()}
            sentences = [len(sentence.split()) for sentence in re.split(r"(?<=[.:;!?])\s", comment)]
            if kind == "documents":  # not the numbers and names in tables
                sentences = [length for length in sentences if length >= 4]
            count["words"] += words
            count["sentences"] += len(sentences)
            count["long"] += sum(length > 30 for length in sentences)
            for habit, hit in hits.items():
                count[habit] += hit
            if words > 5 and kind != "documents":
                dense.append((sum(hits.values()) / words, f"{name}:{line}: {' '.join(comment.split())[:200]}"))

    passed = True
    for kind, count in counts.items():
        figures = {habit: 1000 * count[habit] / max(count["words"], 1) for habit in HABITS}
        figures["long"] = 100 * count["long"] / max(count["sentences"], 1)
        print(f"{kind}: {count['words']} words;", ", ".join(
            f"{habit} {figure:.2f} (at most {LIMITS[kind][habit]})" for habit, figure in figures.items()))
        passed = passed and count["words"] > 1000 and all(figures[habit] <= LIMITS[kind][habit] for habit in figures)
    for _, comment in sorted(dense, reverse=True)[:arguments.list]:
        print(comment)
    if not passed:
        print("write the new comments in plain English (CONTRIBUTING.md), or lower a limit that is no longer needed")
    sys.exit(not passed)


if __name__ == "__main__":
    main()
