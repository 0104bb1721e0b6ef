"""The plan file: a round trip returns the plan; for damage, the error names the field."""

import hashlib
import json
import random
import struct

import pytest

from anyrt.core.errors import PlanError
from anyrt.plan.file import FORMAT, map_plan, read_plan, write_plan
from anyrt.plan.json import MAX_DEPTH
from tests.messages import diagnostic

CONTENTS = [b"\x01\x02\x03\x04" * 3, b"\x12\x03", b""]
HEADER_AT = 128


def code_of(data):
    with pytest.raises(PlanError) as caught:
        read_plan(data)
    return caught.value.code


def with_header(header, weights=b"", **lies):
    """A plan file around any header text, with valid lengths and checksum."""
    start = -(-(HEADER_AT + len(header)) // 64) * 64
    numbers = {
        "format": FORMAT, "zero": 0, "size": len(header), "start": start,
        "blobs": len(weights), "total": start + len(weights), **lies,
    }  # fmt: skip
    preamble = struct.pack("<8sIIQQQQ16x", b"\x89AnyRT\r\n", *numbers.values())
    digest = hashlib.sha256(preamble + header).digest()
    return (preamble + digest).ljust(HEADER_AT, b"\0") + header.ljust(start - HEADER_AT, b"\0") + weights


def header_of(data):
    length, start = struct.unpack_from("<QQ", data, 16)
    return data[HEADER_AT : HEADER_AT + length], data[start:]


def changed(data, **fields):
    """The plan with other values in its header and a valid checksum."""
    header, weights = header_of(data)
    return with_header(json.dumps({**json.loads(header), **fields}).encode(), weights)


def test_written_plans_are_read_back(plan, data):
    file = read_plan(data)
    assert file.plan == plan
    assert bytes(file.weights) == CONTENTS[0].ljust(64, b"\0") + CONTENTS[1].ljust(64, b"\0")


def test_reading_and_writing_keeps_every_byte(data):
    file = read_plan(data)
    parts = [file.weights[b.offset : b.offset + b.nbytes] for b in file.plan.blobs]
    assert write_plan(file.plan, parts) == data


def test_constants_are_aligned_in_the_file(data):
    assert struct.unpack_from("<Q", data, 24)[0] % 64 == 0


def test_every_changed_byte_is_noticed(data):
    for i in range(len(data)):
        for flip in (1, 0x80):
            broken = bytearray(data)
            broken[i] ^= flip
            with pytest.raises(PlanError):
                read_plan(broken)


def test_every_truncation_is_noticed(data):
    for i in range(len(data)):
        with pytest.raises(PlanError):
            read_plan(data[:i])


def test_bytes_behind_the_end_are_noticed(data):
    assert code_of(data + b"\0") == "AR604"


def test_weights_may_stay_unchecked(data):
    at = struct.unpack_from("<Q", data, 24)[0]
    broken = data[:at] + b"\xff" + data[at + 1 :]
    assert code_of(broken) == "AR602"
    assert read_plan(broken, check_weights=False).weights[0] == 0xFF


def test_other_files_and_newer_formats_say_so(data):
    assert code_of(b"\x7fELF" * 100) == "AR606"
    assert code_of(b"") == "AR601"
    assert code_of(with_header(b"{}", format=FORMAT + 1)) == "AR603"
    assert code_of(with_header(b"{}", format=2)) == "AR603"  # had other checksums
    assert code_of(with_header(b"{}", format=0)) == "AR604"


@pytest.mark.parametrize(
    "lie", [{"size": 1 << 62}, {"start": 64}, {"blobs": 1 << 62}, {"blobs": 64}, {"total": 128}, {"zero": 1}]
)
def test_a_preamble_that_lies_about_sizes_is_rejected(lie):
    assert code_of(with_header(b"{}", **lie)) in ("AR601", "AR604")


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 100_000,
        b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1),
        b'"' + b'\\"' * 200_000,
        b"{}",
        b"[]",
        b"\xff\xfe",
        b'{"name": NaN}',
        b'{"name":1,"name":1}',
        b"1" * 100_000,
        b"",
    ],
)
def test_a_hostile_header_is_rejected(header):
    assert code_of(with_header(header)) == "AR605"


def test_brackets_in_strings_are_no_depth(data):
    name = "[{" * 100 + "\\" + '"[' * 100
    assert read_plan(changed(data, name=name)).plan.name == name


@pytest.mark.parametrize("text", [b'"a"', b'"\\""', b'"\\\\"', b'"]]]"'])
def test_brackets_behind_strings_are_depth(text):
    with pytest.raises(PlanError, match=diagnostic("AR605", "plan header", "JSON", MAX_DEPTH)):
        read_plan(with_header(b"[" + text + b"," + b"[" * MAX_DEPTH + b"]" * (MAX_DEPTH + 1)))


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"name": 3}, "name"),
        ({"graph": None}, "graph"),
        ({"blobs": [["w", "float33", 3]]}, r"blobs\[0\]\[1\]"),
        ({"blobs": [["w", "float32", -3]]}, r"blobs\[0\]\[2\]"),
        ({"blobs": [["w", "float32", True]]}, r"blobs\[0\]\[2\]"),
        ({"blobs": [["w", "float32", 3.0]]}, r"blobs\[0\]\[2\]"),
        ({"blobs": [["w", "float32", 1 << 61]] * 9}, "blobs"),
        ({"checksums": []}, "checksums"),
        ({"extra": 1}, "only the fields"),
        ({"symbols": [["n", "x", 0, False, 1, 64]] * 2}, "symbols"),
        ({"symbols": []}, "bindings"),
        ({"symbols": [["n", "x", 0, False, 64, 1]]}, r"symbols\[0\]"),
        ({"symbols": [["n", "x", 0, 1, 1, 64]]}, r"symbols\[0\]\[3\]"),
        ({"bindings": [["x", "float32", ["2*n"], True, False, False, "LINEAR", []]]}, "bindings"),
        ({"bindings": [["x", "float32", ["n"], True, False, False, "LINEAR", []]]}, "symbols"),
        ({"bindings": [["x", "float32", [], True, False, False, "ROUND", []]] * 2}, "bindings"),
        ({"bindings": [["", "float32", [], True, False, False, "LINEAR", []]]}, "bindings"),
        ({"bindings": [["x"]] * 5000}, "bindings"),
        ({"requirements": [["n", "<", "n", "AR303", "", ""]]}, "requirements"),
        ({"requirements": [["n", "=", "n", "AR999", "", ""]]}, "requirements"),
        ({"requirements": [["min(" * 70 + "n", "=", "n", "AR303", "", ""]]}, "requirements"),
        ({"requirements": [["*".join(["n"] * 1000), "=", "n", "AR303", "", ""]]}, "requirements"),
        ({"requirements": [["unknown", "=", "n", "AR303", "", ""]]}, "requirements"),
        ({"profiles": [[["z", False, [1], [1], [1]]]]}, "profiles"),
        ({"profiles": [[["x", False, [1, 1], [1, 1], [1, 1]]]]}, "profiles"),
        ({"profiles": [[["x", False, [2, 1, 3], [1, 1, 3], [2, 1, 3]]]]}, "profiles"),
        ({"profiles": [[["x", False, [1, 1, 3]] + [[1, 1, 10**30]] * 2]]}, "header"),
        ({"settings": [["a", 1]]}, "settings"),
        ({"layers": [["a", "b", [], [3], []]]}, "layers"),
    ],
)
def test_a_bad_value_is_rejected_by_the_name_of_its_field(data, fields, name):
    with pytest.raises(PlanError, match=name):
        read_plan(changed(data, **fields))


def test_mutated_plans_with_right_checksums_are_rejected_or_valid(data):
    chance = random.Random(5)
    header, weights = header_of(data)
    for _ in range(500):
        broken = bytearray(header)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(broken))
            broken[at : at + chance.randint(0, 2)] = chance.choice(
                [b"", b"[", b"9", b"-", b'"', b"1e9", b"null", b"\\"]
            )
        try:
            file = read_plan(with_header(bytes(broken), weights), check_weights=False)
        except PlanError:
            continue
        parts = [file.weights[b.offset : b.offset + b.nbytes] for b in file.plan.blobs]
        assert read_plan(write_plan(file.plan, parts)).plan == file.plan


def test_a_file_is_mapped_in_place(tmp_path, plan, data):
    (tmp_path / "net.plan").write_bytes(data)
    file = map_plan(tmp_path / "net.plan")
    assert (file.plan, file.in_place, file.is_intact()) == (plan, True, True)
    (tmp_path / "empty").touch()
    with pytest.raises(PlanError, match="AR601"):
        map_plan(tmp_path / "empty")
