"""Checks of messages: tests compare the code, the place and the values, and quote no words of AnyRT.

The words stand in tests/e2e/messages.txt, one golden text a message, so that they can improve without
breaking tests.
"""

import re
from pathlib import Path

GOLDEN = Path(__file__).parent / "e2e" / "messages.txt"


def diagnostic(code: str, *values: object) -> str:
    """A regular expression: a message with `code`, and then all values in this order.

    A message states the place, what it got, what is wanted, and the cure, so the values come in this order.

    >>> pattern = diagnostic("AR114", "crop", 9, (2, 3))
    >>> [bool(re.search(pattern, f"[AR114] crop (net.py:7): got {n}, wanted (2, 3)")) for n in (9, 19, -9)]
    [True, False, False]
    """
    return rf"\[{code}\].*{values_in_order(*values)}"


def values_in_order(*values: object) -> str:
    """A regular expression: a text with all values in this order, each as a whole word.

    A tuple is a shape, which is written as in messages; a compiled pattern stands for what it matches.
    """
    return ".*".join(map(_word, values))


def _word(value: object) -> str:
    if isinstance(value, re.Pattern):
        return str(value.pattern)
    text = f"({', '.join(map(str, value))})" if isinstance(value, tuple) else str(value)
    before = r"(?<![\w.-])" if text[:1].isdigit() else r"(?<!\w)" if re.match(r"\w", text) else ""
    after = r"(?!\w|\.\d)" if re.search(r"\w\Z", text) else ""
    return before + re.escape(text) + after


def steady(message: str, folder: Path | None) -> str:
    """`message` without line numbers, the test's directory, serial numbers of networks, addresses and large
    numbers."""
    unsteady = r"(?<=\.py:)\d+|(?<=Unnamed Network )\d+|(?<=\b0x)[0-9a-f]{7,}|\b\d[\d,]{2,}\b"
    return re.sub(unsteady, "N", message if folder is None else message.replace(str(folder), "FOLDER"))


def golden() -> dict[str, str]:
    """The golden texts: one of each code, by the code, and others by the test that compares them."""
    pairs = [line.rpartition("\t") for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    return {test or message[1:6]: message for test, _, message in pairs}


def renew(key: str, message: str) -> None:
    """Write a golden text. Those of codes come first."""
    texts = {**golden(), key: message}
    codes = sorted(text for name, text in texts.items() if name == text[1:6])
    others = sorted(f"{name}\t{text}" for name, text in texts.items() if name != text[1:6])
    GOLDEN.write_text("".join(f"{line}\n" for line in (*codes, *others)), encoding="utf-8")
