"""The first hour as a user has it: every command is run, and prints what stands below it."""

from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs/first_hour.md"
SESSION = """
```python net.py
print(40 + 2, "took 3 s")
```

```console
$ python net.py
%s
$ echo "made in 0.2 s: here 0.1"
made in 5.0 s: there 4.0
```
"""


def test_every_line_of_the_first_hour_is_printed(tmp_path):
    from docgen.console import replayed

    text = PAGE.read_text()
    assert replayed(text, tmp_path) == text
    assert (tmp_path / "block.svg").exists()


@pytest.mark.parametrize(
    ("stands", "then"), [("42 took 9 s", "42 took 9 s"), ("41 took 3 s", "42 took 3 s"), ("", "42 took 3 s")]
)
def test_what_a_command_prints_takes_the_place_of_what_stood_there(tmp_path, stands, then):
    from docgen.console import replayed

    assert replayed(SESSION % stands, tmp_path) == SESSION % then
