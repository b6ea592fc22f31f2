"""The Python lines of README.md run as shown."""

import doctest
import pathlib


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
