"""The exception tree, the table of codes, and the switches that turn errors into exceptions."""

import pickle
import threading

import pytest

from anyrt.core import errors
from anyrt.core.codes import CODES, Kind
from anyrt.core.enums import ErrorCodeTRT
from anyrt.core.errors import AnyrtError, ArgumentError, DTypeError, PlanError, ShapeError
from anyrt.core.flags import Flags, is_strict, read_flags, strict


def test_message_says_where_got_wanted_and_do():
    e = ShapeError(
        "AR101", "scale1", got="rank 3", wanted="rank >= 4", do="add unit dimensions with add_shuffle"
    )
    assert str(e) == "[AR101] scale1: got rank 3, wanted rank >= 4; add unit dimensions with add_shuffle"


def test_message_without_facts_falls_back_to_the_title():
    assert str(PlanError("AR606", "", do="copy it")) == "[AR606] not a plan; copy it"
    assert str(PlanError("AR606", "x", wanted="16 bytes", do="no")) == "[AR606] x: wanted 16 bytes; no"


def test_message_without_advice_has_that_of_its_code():
    assert str(PlanError("AR606", "")) == f"[AR606] {CODES['AR606'].title}; {CODES['AR606'].do}"
    assert [c.id for c in CODES.values() if not c.do or c.do.endswith(".")] == []


def test_at_gives_the_same_error_at_another_place():
    e = ShapeError("AR103", "", got="6", wanted="8", do="mend it").at("shuffle (net.py:7)")
    assert str(e) == "[AR103] shuffle (net.py:7): got 6, wanted 8; mend it"
    assert type(e) is ShapeError


def test_errors_survive_pickling():
    e = pickle.loads(pickle.dumps(DTypeError("AR203", "add", got="int8", wanted="float32", do="cast it")))
    assert (type(e), e.code, e.where, e.got, e.wanted, e.do) == (
        DTypeError, "AR203", "add", "int8", "float32", "cast it",
    )  # fmt: skip


def test_errors_are_caught_by_the_builtin_a_python_user_expects():
    assert issubclass(ShapeError, ValueError)
    assert issubclass(DTypeError, TypeError)
    assert issubclass(errors.NotSupportedError, NotImplementedError)
    assert issubclass(errors.ResourceError, RuntimeError)


def test_every_kind_of_code_has_exactly_one_class():
    assert set(errors.CLASSES) == set(Kind)
    assert len(set(errors.CLASSES.values())) == len(Kind)


@pytest.mark.parametrize("code", CODES)
def test_every_code_makes_an_error_of_its_class(code: str):
    e = errors.error(code, "layer")
    assert isinstance(e, AnyrtError)
    assert str(e) == f"[{code}] layer: {CODES[code].title}; {CODES[code].do}"
    assert e.entry.trt is not ErrorCodeTRT.SUCCESS


def test_unknown_and_misplaced_codes_are_our_own_fault():
    with pytest.raises(AssertionError, match="not in the table"):
        ShapeError("AR999", "x")
    with pytest.raises(AssertionError, match="does not belong to ShapeError"):
        ShapeError("AR201", "x")


def test_titles_are_unique_and_end_without_a_stop():
    titles = [c.title for c in CODES.values()]
    assert len(set(titles)) == len(titles)
    assert [x for c in CODES.values() for x in (c.title, c.explanation) if x.endswith(".")] == []


def test_flags_read_the_environment():
    environ = {"ANYRT_STRICT": "1", "ANYRT_NUM_THREADS": "3", "ANYRT_CPU": "AVX2", "ANYRT_VERIFY": "full"}
    assert read_flags(environ) == Flags(strict=True, num_threads=3, cpu="avx2", verify="full")
    assert read_flags({"ANYRT_CHECKED": "1"}) == Flags(checked=True)
    assert read_flags({}) == Flags()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANYRT_STRICT", "maybe"),
        ("ANYRT_NUM_THREADS", "0"),
        ("ANYRT_NUM_THREADS", "x"),
        ("ANYRT_VERIFY", "all"),
    ],
)
def test_switch_with_a_bad_value_names_the_variable(name: str, value: str):
    with pytest.raises(ArgumentError, match=f"AR304.*{name}.*{value}"):
        read_flags({name: value})


@pytest.mark.parametrize(
    ("name", "value", "strictly"),
    [("ANYRT_STRICT", "maybe", False), ("ANYRT_STRICT", " YES ", True), ("ANYRT_NUM_THREADS", "0", False)],
)
def test_errors_can_be_reported_whatever_the_switches_hold(name, value, strictly, monkeypatch):
    monkeypatch.delenv("ANYRT_STRICT", raising=False)
    monkeypatch.setenv(name, value)
    assert is_strict() is strictly


def test_strict_as_a_block_ends_with_the_block(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ANYRT_STRICT", raising=False)
    with strict():
        inside = is_strict()
        with strict(False):
            nested = is_strict()
    assert (inside, nested, is_strict()) == (True, False, False)


def test_strict_as_a_call_stays_in_its_thread(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANYRT_STRICT", "0")
    seen = []
    thread = threading.Thread(target=lambda: (strict(), seen.append(is_strict())))
    thread.start()
    thread.join()
    assert (seen, is_strict()) == ([True], False)
