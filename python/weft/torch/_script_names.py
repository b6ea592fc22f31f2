"""The names of torch that a script uses and Weft lacks, found in its syntax tree without running it."""

import ast

from weft.torch import _door
from weft.torch._names import PATHS, nearest

__all__ = ["missing_names"]


class _Reader(ast.NodeVisitor):
    """Follows imports of torch, and attributes of the imported names, through a script."""

    def __init__(self, tree):
        self.bound, self.missing = {}, {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self.read_import(node)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                self.read_from(node)
        self.visit(tree)

    def note(self, line, text):
        self.missing.setdefault(text, line)

    def lacks(self, path, name, line):
        self.note(line, _door.explained(path, name))

    def read_import(self, node):
        for alias in node.names:
            if alias.name.split(".")[0] != "torch":
                continue
            if alias.name not in PATHS:
                close = nearest(alias.name, PATHS)
                self.note(node.lineno, f"there is no module '{alias.name}' on Weft" +
                          (f"; the nearest module is '{close}'" if close else ""))
                continue
            self.bound[alias.asname or "torch"] = alias.name if alias.asname else "torch"

    def read_from(self, node):
        if node.module.split(".")[0] != "torch":
            return
        if node.module not in PATHS:
            close = nearest(node.module, PATHS)
            self.note(node.lineno, f"there is no module '{node.module}' on Weft" +
                      (f"; the nearest module is '{close}'" if close else ""))
            return
        for alias in node.names:
            below = f"{node.module}.{alias.name}"
            if below in PATHS:
                self.bound[alias.asname or alias.name] = below
            elif alias.name != "*" and not hasattr(_door.facade(node.module), alias.name):
                self.lacks(node.module, alias.name, node.lineno)

    def visit_Attribute(self, node):
        names, base = [], node
        while isinstance(base, ast.Attribute):
            names.append(base.attr)
            base = base.value
        if not isinstance(base, ast.Name) or base.id not in self.bound:
            return self.generic_visit(node)
        path = self.bound[base.id]
        for name in reversed(names):
            below = f"{path}.{name}"
            if below in PATHS:
                path = below
                continue
            stored = isinstance(node.ctx, ast.Store)  # a setting, or a name that the script adds
            if not stored and not hasattr(_door.facade(path), name):
                self.lacks(path, name, node.lineno)
            return None
        return None


def _probed(tree):
    """Names that a script asks for by hasattr(module, name), and therefore does without."""
    return {node.args[1].value for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hasattr"
            and len(node.args) == 2 and isinstance(node.args[1], ast.Constant)}


def missing_names(file):
    """A line for each missing name: the file, the first line that uses it, and the nearest name."""
    with open(file, encoding="utf-8") as opened:
        tree = ast.parse(opened.read(), file)
    probed = _probed(tree)
    found = _Reader(tree).missing
    return [f"{file}:{line}: {text}" for text, line in sorted(found.items(), key=lambda item: item[1])
            if not any(f"'{name}'" in text for name in probed)]
