"""How cases are written: a package for each language, with translations to every program.

`language_of(case).task(case, 2)` is the case on memory. Of AnyRT nothing is needed but its public API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from benchmarks.peers import Task
from benchmarks.values import Array


@dataclass(frozen=True, slots=True)
class Language:
    """Functions of its cases.

    given: the inputs; empty: the same without numbers, where there are such. exact(case, inputs): the right
    results. outputs(case, exact): arrays of the types and shapes of results. distance(case, exact, results):
    (largest error, whether all is right).
    """

    cases: Mapping[str, Any]  # Any: of this language, as in the functions
    given: Callable[[Any], dict[str, Array]]
    exact: Callable[[Any, dict[str, Array]], tuple[Array, ...]]
    outputs: Callable[[Any, tuple[Array, ...]], tuple[Array, ...]]
    distance: Callable[[Any, tuple[Array, ...], tuple[Array, ...]], tuple[float, bool]]
    empty: Callable[[Any], dict[str, Array]] | None = None

    def task(self, case: Any, threads: int) -> tuple[Task, tuple[Array, ...]]:  # Any: see above
        """The case on memory, and its right results."""
        given = self.given(case)
        exact = self.exact(case, given)
        return Task(case, given, self.outputs(case, exact), threads), exact

    def blank(self, case: Any, threads: int) -> Task:  # Any: see above
        """A task of which a network can be described, and nothing needs to be computed."""
        if self.empty is None:
            return self.task(case, threads)[0]
        return Task(case, self.empty(case), self.outputs(case, ()), threads)


def language(package: str) -> Language:
    """That of a package below this one."""
    found: Language = import_module(f"{package}.reference").LANGUAGE
    return found


def language_of(case: Any) -> Language:  # Any: see above
    """The one that it is written in."""
    return language(case.language)
