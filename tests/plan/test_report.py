"""The build report as text: one page for any network, or everything."""

import pytest

from anyrt.core.errors import PlanError
from anyrt.plan.report import (
    KernelTraffic,
    Report,
    StoredTensor,
    full_text,
    parse_report,
    print_report,
    reasons,
    short_text,
)

SMALL = Report(
    at=("x (4, 8)",),
    kernels=(
        KernelTraffic("k0_norm", ("norm",), 128, 8),
        KernelTraffic("k1_relu", ("scale", "relu"), 1024, 2048),
    ),
    stored=(StoredTensor("norm", 8, "2 kernels read it"),),
    layers=3,
    results=2,
    fused=1,
    result_bytes=40,
    fused_bytes=30,
    tables=1,
    arena_bytes=64,
    notes=("verified at 1 shapes", "  of them"),
)
LARGE = Report(
    kernels=tuple(KernelTraffic(f"k{n}", ("layer" * n,), n, n) for n in range(2000)),
    stored=tuple(
        StoredTensor(f"v{n}", n, f"{n} times {chr(97 + n % 26)}{chr(97 + n // 26)}") for n in range(900)
    ),
    notes=tuple(f"note {n}" for n in range(300)),
)


def test_a_page_has_totals_the_largest_kernels_and_reasons_counted():
    assert short_text(SMALL, [("Optimize graph", 0.25), ("Generate code", 1.0)]).splitlines() == [
        "2 kernels for 3 layers, 1 table of taps, at x (4, 8)",
        "an inference moves 3.1 KiB; intermediate tensors take 64 B",
        "fused: 1 of 2 results that layers pass on, 75 % of their bytes",
        "its kernels were made in 1.25 s: optimize graph 0.25, generate code 1.00",
        "the kernels, by the bytes that they move:",
        "  96 %  3.0 KiB  k1_relu: scale, relu",
        "   4 %    136 B  k0_norm: norm",
        "1 tensor stored instead of fused:",
        "      1  2 kernels read it",
        "verified at 1 shapes",
    ]


def test_the_whole_has_kernels_in_order_every_reason_and_every_note():
    assert full_text(SMALL).splitlines()[3:] == [
        "  k0_norm: norm; reads 128 B, writes 8 B",
        "  k1_relu: scale, relu; reads 1.0 KiB, writes 2.0 KiB",
        "stored in memory instead of fused:",
        "  norm: 8 B; 2 kernels read it",
        "verified at 1 shapes",
        "  of them",
    ]


def test_a_page_has_at_most_40_lines_of_at_most_100_columns():
    lines = short_text(LARGE, [("Optimize graph", 1.0)]).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert "the 10 largest of 2000 kernels, by the bytes that they move:" in lines


def test_reasons_that_differ_in_numbers_are_one_kind():
    inputs = [
        "3 positions would each take 7 instructions",
        "it is read",
        "12 positions would each take 7 instructions",
    ]
    assert reasons(StoredTensor("v", 1, reason) for reason in inputs) == [
        (2, "3 to 12 positions would each take 7 instructions"),
        (1, "it is read"),
    ]


def test_a_kernel_that_is_named_by_its_layers_names_them_once():
    assert str(KernelTraffic("norm+relu", ("norm", "relu"), 1, 1)) == "norm+relu"


@pytest.mark.parametrize("report", [SMALL, LARGE, Report()], ids=["small", "large", "empty"])
def test_a_report_survives_its_text(report):
    assert parse_report(print_report(report)) == report


def test_a_report_of_an_earlier_version_is_shown_as_it_is():
    assert full_text(parse_report("kernels: 1\n  k0")).splitlines()[-2:] == ["kernels: 1", "  k0"]


@pytest.mark.parametrize("text", ["{", '{"at":[]}'])
def test_a_text_that_is_no_report_is_rejected(text):
    with pytest.raises(PlanError, match="AR605"):
        parse_report(text)
