"""The index of all public names: docs/names.md, from the headers that are installed.

usage: names.py ROOT INCLUDE HEADER... [--write] [--compiler CXX]

INCLUDE holds the folder weft with the headers; the target weft_names passes all public ones and --write. Without --write it
fails if docs/names.md is out of date. It fails if a public function has no docstring.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys

HEAD = """# Names

Written by `ninja -C build/release weft_names`, from the headers. Every function also takes the place of its call as last
argument, `Location where = {}`, which is left out here. Fields of a struct are in their order, for `{.field = value}`. An
elementwise op `f` has also `f_`, which works in place, and `f_out`, which writes into a given tensor.
"""
PRIVATE = re.compile(r"(^|::)(detail|python|testing)(::|$)|^std|^fmt")


# Bodies of classes, rows of kernels, and the formulas of kernels.
LEFT_OUT = re.compile(r"^tensor/((more|own)_)?methods\.hpp$|^backends/kernel_rows\.hpp$|^backends/(functors|watch|plugin)/|^[a-z]+\.hpp$")


def preprocessed(compiler, include, headers):
    """{header: text} after the preprocessor, with comments."""
    source = "".join(f"#include <weft/{h}>\n" for h in headers)
    done = subprocess.run([compiler, "-std=c++20", "-E", "-CC", f"-I{include}", "-x", "c++", "-"], input=source,
                          capture_output=True, text=True, check=True)
    texts, current, line = collections.defaultdict(list), None, 0
    for text in done.stdout.split("\n"):
        marker = re.match(r'# (\d+) "([^"]*)"', text)
        if marker:
            inside = re.match(rf"{re.escape(str(include))}/weft/(.*)", os.path.normpath(marker.group(2)))
            current = inside.group(1) if inside else None
        elif current and not text.startswith("#"):
            texts[current].append(text)
    return {h: "\n".join(lines) for h, lines in texts.items()}


def tokens(text):
    """Doc comments, strings, words, signs, and an empty token for a blank line."""
    pattern = r'\n[ \t]*\n|///<?[^\n]*|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])+\'|[A-Za-z_]\w*|::|->|&&|\.\.\.|[\d.]+\w*|\S'
    for found in re.finditer(pattern, text, re.S):
        yield found.group(0).strip()


class Declaration:
    def __init__(self, scope, words, doc, members=()):
        self.scope, self.words, self.doc, self.members = scope, words, doc, members


def untemplated(words):
    """Without the heads of templates: template < class T >."""
    while words[:1] == ["template"]:
        depth = 0
        for i, word in enumerate(words):
            depth += (word == "<") - (word == ">")
            if word == ">" and depth == 0:
                break
        words = words[i + 1:]
    return words


def parse(stream, scope=(), kind="namespace"):
    """Declarations of a scope until its closing brace. One comment documents the declarations up to a blank line."""
    out, words, doc, shared = [], [], [], ""
    access = "public" if kind != "class" else "private"

    def add(members=()):
        nonlocal shared
        shared = " ".join(doc) or shared
        if access == "public":
            out.append(Declaration(scope, words, shared, members))

    for token in stream:
        if not token:
            shared = "" if not words else shared
        elif token.startswith("///<"):
            if out:
                out[-1].doc = out[-1].doc or token[4:].strip()
        elif token.startswith("///"):
            doc = [*doc, token[3:].strip()] if not words else doc
        elif token.startswith(("//", "/*")):
            continue
        elif token == "}":
            break
        elif token == ";":
            if words:
                add()
            words, doc = [], []
        elif token == "{":
            head = untemplated([w for w in words if w != "inline"])
            if head[:1] == ["namespace"]:
                name = tuple(w for w in head[1:] if w != "::")
                out += parse(stream, scope + (name or ("detail",)))
                words, doc = [], []
            elif head[:1] == ["extern"]:
                out += parse(stream, scope)
                words, doc = [], []
            else:
                structure = next((w for w in head if w in ("struct", "class", "enum", "union")), None)
                before = head[:head.index(structure)] if structure else head
                if structure and "(" not in before and "=" not in head:
                    inside = enumerators(stream) if structure == "enum" else parse(stream, scope, structure)
                    add(inside)
                    next((after for after in stream if after == ";"), None)
                    words, doc = [], []
                else:
                    empty = body(stream)
                    is_value = words and (words[-1] == "=" or "(" not in words or words.count("(") != words.count(")"))
                    if is_value:
                        words += ["{", "}"] if empty else ["{…}"]
                    else:
                        add()
                        words, doc = [], []
        elif token == ":" and words and words[-1] in ("public", "private", "protected") and len(words) == 1:
            access, words, doc = words[-1], [], []
        else:
            words.append(token)
    return out


def body(stream):
    """Skips to the closing brace; true if there is nothing inside."""
    depth, empty = 1, True
    for token in stream:
        depth += (token == "{") - (token == "}")
        if depth == 0:
            break
        empty = empty and not token
    return empty


def enumerators(stream):
    names, expect = [], True
    for token in stream:
        if not token:
            continue
        if token == "}":
            return names
        if expect and re.match(r"[A-Za-z_]\w*$", token):
            names.append(token)
            expect = False
        elif token == ",":
            expect = True
    return names


# ---- kind, name and text of a declaration ----

KEYWORDS = {"static_assert", "for", "if", "return"}
DROPPED = {"WEFT_API", "constexpr", "inline", "explicit", "extern", "static", "friend", "noexcept"}


def plain(words):
    """Without attributes, templates' heads, requires clauses, Location and export marks."""
    text = " ".join(w for w in words if w not in DROPPED)
    text = re.sub(r"__attribute__ \( \( .*? \) \) \)?", "", text)
    text = re.sub(r"\[ \[ .*? \] \]", "", text)
    text = re.sub(r"^template < ", "template< ", text)
    while text.startswith("template<"):
        depth, i = 0, text.index("<")
        for i in range(i, len(text)):
            depth += (text[i] == "<") - (text[i] == ">")
            if depth == 0:
                break
        text = text[i + 1:].strip()
        text = re.sub(r"^requires .*?(?=\b(?:Tensor|void|auto|struct|class|using|int64_t|bool|std)\b)", "", text)
        text = re.sub(r"^template < ", "template< ", text)
    text = re.sub(r"(, )?\bLocation \w+( = (\{ \}|here \( \)|Location :: \w+ \( \)))?(?= [,)])", "", text)
    text = re.sub(r"\( , ", "( ", text)
    return pretty(text)


def pretty(text):
    text = re.sub(r" ?:: ?", "::", text)
    text = re.sub(r" ([,;)\]>])", r"\1", text)
    text = re.sub(r"([(\[<~!]) ", r"\1", text)
    text = re.sub(r" ([(\[<])", r"\1", text)
    text = re.sub(r" ([&*]+)", r"\1", text)
    text = re.sub(r"([&*])(?=\w)", r"\1 ", text)
    text = re.sub(r"\{ \}", "{}", text)
    text = re.sub(r"= -? ?\{", lambda m: m.group(0), text)
    text = re.sub(r"(?<=[=(,]) ?- (?=[\d.])", " -", text)
    text = re.sub(r"(\d)e - (\d)", r"\1e-\2", text)
    return re.sub(r" \)", ")", re.sub(r"\( -", "(-", text)).strip()


def function_name(words):
    """The name before the first parenthesis outside of angle brackets, or None."""
    text = " ".join(w for w in words)
    text = re.sub(r"__attribute__ \( \( .*? \) \) \)?", "", text)
    text = re.sub(r"\[ \[ .*? \] \]", "", text)
    depth = 0
    parts = text.split(" ")
    for i, word in enumerate(parts):
        depth += word == "<"
        depth -= word == ">"
        if word == "(" and depth <= 0 and i:
            before = parts[i - 1]
            if before == "requires" or not re.match(r"[A-Za-z_]\w*$", before) or parts[i - 2] in ("::", "~"):
                return None
            return before
    return None


def first_sentence(doc):
    sentence = re.split(r"(?<=[.:;])\s", doc.strip(), maxsplit=1)[0].rstrip(":;")
    return sentence.replace("|", "\\|")


def described(d):
    """(kind, name, text of the declaration) or None for what has no name of its own."""
    words = untemplated([w for w in d.words if w not in DROPPED])
    structure = next((w for w in words[:12] if w in ("struct", "class", "enum", "union")), None)
    if structure and (d.members or "(" not in words):
        tail = words[words.index(structure) + 1:]
        tail = [w for w in tail if w != "class"]
        text = re.sub(r"__attribute__ \( \( .*? \) \) \)?", "", " ".join(tail)).split()
        name = next((w for w in text if re.match(r"[A-Za-z_]\w*$", w)), None)
        if name is None or not d.members:
            return None
        if structure == "enum":
            return "enum", name, "enum: " + ", ".join(d.members)
        fields = [plain(m.words) for m in d.members if function_name(m.words) is None and m.words[:1] not in (["using"],)
                  and not m.members and m.words[:1] != ["friend"] and "operator" not in m.words and "static_assert" not in m.words]
        if structure == "struct" and fields:
            return "struct", name, f"struct {{{'; '.join(fields)}}}"
        made = [re.sub(r" \)$", ")", plain(m.words).split(") :")[0].rstrip(") ") + ")") for m in d.members if function_name(m.words) == name
                and "delete" not in m.words and "~" not in m.words and not re.search(rf"\( (const )?{name} &", " ".join(m.words))]
        return structure, name, "; ".join(dict.fromkeys(made)) or structure
    if words[:1] == ["using"]:
        return ("using", words[1], pretty(" ".join(words))) if "=" in words else None
    if words[:1] in (["static_assert"], ["template"]) and "static_assert" in words[:1] or "operator" in words:
        return None
    if words[-2:] == ["=", "delete"]:
        return None
    name = function_name(words)
    if name and words[:1] != [name] and "->" not in words and not ("=" in words and words.index("=") < words.index("(")):
        return "function", name, plain(d.words)
    return None


def row_documents(root):
    """{op: text} of the elementwise ops, which macros declare from these rows."""
    rows = (root / "backends/functors/rows.hpp").read_text()
    return {m.group(1): m.group(2).replace("|", "\\|") for m in re.finditer(r'X\((\w+),.*?"((?:[^"\\]|\\.)*)"\)', rows)}


def documented(name, doc):
    if name.startswith("foreach_") and not doc:
        return f"`{name.removeprefix('foreach_')}` of each tensor of a list"
    if name.startswith("math::") and not doc:
        return "as in <cmath>, in formulas with gradients"
    return doc


def rows_of(headers, texts, elementwise):
    for header in sorted(headers):
        rows = collections.OrderedDict()
        made = elementwise if header == "ops/pointwise.hpp" else {}
        for d in parse(tokens(texts.get(header, ""))):
            scope = "::".join(d.scope)
            if not scope.startswith("weft") or PRIVATE.search(scope):
                continue
            found = described(d)
            if found is None or found[1].startswith(("WEFT", "_")) or found[1] in KEYWORDS:
                continue
            if re.sub("(_|_out)$", "", found[1]) in made and found[1] not in made:
                continue
            name = f"{scope.removeprefix('weft').removeprefix('::')}::{found[1]}".removeprefix("::")
            row = rows.setdefault((found[0], name), [[], ""])
            if found[2] not in row[0]:
                row[0].append(found[2])
            row[1] = row[1] or documented(name, first_sentence(d.doc) or made.get(found[1], ""))
        if rows:
            yield header, rows


def document(headers, texts, elementwise):
    lines, missing = [], []
    rooms = collections.OrderedDict()
    for header, rows in rows_of(headers, texts, elementwise):
        room, _, file = header.rpartition("/")
        rooms.setdefault(room, []).append(f"[{file.removesuffix('.hpp')}](#{re.sub(r'[./]', '', header)})")
        lines += ["", f"## {header}", "| name | declaration | |", "|---|---|---|"]
        for (kind, name), (declarations, doc) in rows.items():
            text = "<br>".join(f"`{d}`" if "|" not in d else f"`{d}`".replace("|", "\\|") for d in declarations)
            lines.append(f"| `{name}` | {text} | {doc} |")
            if kind == "function" and not doc:
                missing.append(f"{header}: {name}")
    contents = [f"| `{room}/` | {', '.join(links)} |" for room, links in rooms.items()]
    return "\n".join([HEAD, "| room | headers |", "|---|---|", *contents, *lines]) + "\n", missing


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("include", type=pathlib.Path)
    parser.add_argument("headers", nargs="+")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--compiler", default="c++")
    arguments = parser.parse_args()
    headers = [h for h in arguments.headers if not LEFT_OUT.search(h)]
    text, missing = document(headers, preprocessed(arguments.compiler, arguments.include, headers),
                             row_documents(arguments.root))
    path = arguments.root / "docs" / "names.md"
    print(f"{text.count(chr(10))} lines, {len(missing)} functions without a docstring")
    print("\n".join(missing))
    if arguments.write:
        path.write_text(text)
    elif not path.exists() or path.read_text() != text:
        sys.exit("docs/names.md is out of date: build the target weft_names")
    if missing:
        sys.exit("a public function needs a docstring")


if __name__ == "__main__":
    main()
