"""Languages of cases: a package for each, with a translation for every program.

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
    """The functions of a language.

    inputs(case): arrays by name; empty(case): arrays of the same types and shapes without memory, if the
    language has it. exact(case, inputs): the expected results. outputs(case, exact): arrays of the types and
    shapes of results. distance(case, exact, results): (largest error, whether all results are right).
    """

    cases: Mapping[str, Any]  # Any: of this language, as in the functions
    inputs: Callable[[Any], dict[str, Array]]
    exact: Callable[[Any, dict[str, Array]], tuple[Array, ...]]
    outputs: Callable[[Any, tuple[Array, ...]], tuple[Array, ...]]
    distance: Callable[[Any, tuple[Array, ...], tuple[Array, ...]], tuple[float, bool]]
    empty: Callable[[Any], dict[str, Array]] | None = None

    def task(self, case: Any, threads: int) -> tuple[Task, tuple[Array, ...]]:  # Any: see above
        """The task of a case, and its expected results."""
        inputs = self.inputs(case)
        exact = self.exact(case, inputs)
        return Task(case, inputs, self.outputs(case, exact), threads), exact

    def blank(self, case: Any, threads: int) -> Task:  # Any: see above
        """A task that is sufficient to describe a network: nothing is computed."""
        if self.empty is None:
            return self.task(case, threads)[0]
        return Task(case, self.empty(case), self.outputs(case, ()), threads)


def language(package: str) -> Language:
    """The language of a package."""
    result: Language = import_module(f"{package}.reference").LANGUAGE
    return result


def language_of(case: Any) -> Language:  # Any: see above
    """The language of a case."""
    return language(case.language)
