"""Every enum has the published members with the published numbers: those of 10.16, and the members of 11.

`published_enums.txt` lists them, one enum per line, from NVIDIA's Apache-2.0 headers and binding sources.
"""

from pathlib import Path

import pytest

import anyrt as trt

LINES = (Path(__file__).parent / "published_enums.txt").read_text().splitlines()
PUBLISHED = {
    name: {member: int(number) for member, number in (pair.split("=") for pair in members.split())}
    for name, members in (line.split(": ") for line in LINES)
}


def enum(name):
    return trt.ILogger.Severity if name == "ILogger.Severity" else getattr(trt, name)


def test_there_are_66():
    assert len(PUBLISHED) == 66


@pytest.mark.parametrize("name", PUBLISHED)
def test_members_have_the_published_numbers(name):
    members = enum(name).__members__.items()
    results = {member: int(x) for member, x in members if not getattr(x, "is_extension", False)}
    assert results == PUBLISHED[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_members_are_found_by_number_and_name_and_show_both(name):
    for member, number in PUBLISHED[name].items():
        x = enum(name)[member]
        assert (enum(name)(number), x.value, getattr(enum(name), member)) == (x, number, x)
        assert str(x) == f"{name.removeprefix('ILogger.')}.{x.name}"


def test_types_have_short_names_in_the_module():
    short = {
        "float32": "FLOAT", "float16": "HALF", "bfloat16": "BF16", "fp8": "FP8", "fp4": "FP4", "e8m0": "E8M0",
        "int8": "INT8", "uint8": "UINT8", "int4": "INT4", "int32": "INT32", "int64": "INT64", "bool": "BOOL",
        "float64": "DOUBLE", "int16": "INT16", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64",
        "uint4": "UINT4", "int2": "INT2", "uint2": "UINT2", "fp8e5m2": "FP8E5M2",
        "fp8e4m3fnuz": "FP8E4M3FNUZ", "fp8e5m2fnuz": "FP8E5M2FNUZ",
    }  # fmt: skip
    assert {name: getattr(trt, name).name for name in short} == short
    assert set(short.values()) == set(trt.DataType.__members__)
    own = [t for t in trt.DataType if t.is_extension]
    assert (len(own), min(map(int, own))) == (11, 128)
