"""The Python lines of README.md run as shown."""

import doctest
import os
import pathlib

import pytest


def test_the_readme_runs_as_shown():
    root = pathlib.Path(__file__).resolve().parents[2]
    text = (root / "README.md").read_text(encoding="utf-8").replace("at <stdin>:", "at ...:")
    blocks = [b.split("```")[0] for b in text.split("```python\n")[1:]]
    assert blocks
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "README.md", "README.md", 0)
    assert len(example.examples) > 20
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    result = runner.run(example)
    assert result.failed == 0


@pytest.mark.skipif(os.environ.get("PYTHONPATH") is None, reason="the package's folder is not known")
def test_the_stubs_name_every_op():
    import weft

    stubs = pathlib.Path(weft.__file__).with_name("__init__.pyi")
    if not stubs.exists():
        pytest.skip("no stubs beside the package")
    text = stubs.read_text(encoding="utf-8")
    compile(text, str(stubs), "exec")
    for name in weft._core._ops:
        if not name.startswith("_") and name in vars(weft):
            assert f"def {name}(" in text, name
