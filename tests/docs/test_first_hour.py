"""Regenerating pages of commands with the commands' output; `make check` does it with docs/first_hour.md."""

import pytest

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


@pytest.mark.parametrize(
    ("stands", "then"), [("42 took 9 s", "42 took 9 s"), ("41 took 3 s", "42 took 3 s"), ("", "42 took 3 s")]
)
def test_the_output_of_a_command_replaces_the_old_text(tmp_path, stands, then):
    from docgen.console import replayed

    assert replayed(SESSION % stands, tmp_path) == SESSION % then
