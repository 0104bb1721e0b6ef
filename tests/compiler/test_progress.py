"""Progress of builds: lines in the log and steps for monitors, without other effects."""

from dataclasses import replace

import pytest

from anyrt.compiler import driver, native, progress
from anyrt.compiler.cached import build_seconds
from anyrt.compiler.progress import Progress
from anyrt.compiler.request import BuildRequest, Settings, Verify
from anyrt.core.enums import DataType, Severity
from anyrt.core.errors import BuildCancelled
from anyrt.ir.graph import Graph
from anyrt.plan.file import read_plan
from anyrt.prims import build as b
from tests.messages import diagnostic
from tests.native import build


def sums(count: int) -> Graph:
    """Each row summed, and the sums subtracted, `count` times; each repetition takes a kernel."""
    x = y = b.param("x", (128, 40), DataType.FLOAT)
    names = {}
    for n in range(count):
        y = b.map_("sub", y, b.reduce_("sum", y, (n % 2,)))
        names[y] = f"sub{n}"
    return Graph((("x", x),), (("y", y),), names)


class Listener:
    """A monitor and a logger that record their calls; the monitor cancels after `last` steps of a phase."""

    def __init__(self, phase: str = "", last: int = 0) -> None:
        self.phase, self.last, self.steps, self.lines = phase, last, {}, {s: [] for s in Severity}

    def start(self, phase, parent, steps):
        self.steps[phase] = []

    def step(self, phase, step):
        self.steps[phase].append(step)
        return phase != self.phase or step < self.last

    def finish(self, phase):
        pass

    def log(self, severity, text):
        self.lines[severity].append(text)


@pytest.fixture(autouse=True)
def _own_cache_and_no_lines_because_time_passes(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL", 1e9)
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path / "cache"))


def heard(request: BuildRequest, listener: Listener) -> bytes:
    return build(replace(request, monitor=listener, log=listener.log))


def test_the_log_says_what_was_made_and_which_layers_each_kernel_computes():
    listener = Listener()
    heard(BuildRequest("net", sums(2)), listener)
    begin, scheduled, compiled, end = listener.lines[Severity.INFO]
    assert begin == "building 'net'"
    assert scheduled.startswith("Schedule kernels: 2 of 2, ")
    assert compiled.startswith("Compile kernels: 2 of 2, ")
    assert end.startswith("built 'net' in ")
    assert "2 kernels for 2 layers" in end
    kernels = listener.lines[Severity.VERBOSE]
    assert [line.split("; ")[1] for line in kernels] == [
        "reads 20.0 KiB, writes 160 B",
        "reads 20.2 KiB, writes 20.0 KiB",
    ]
    assert ["sub0" in kernels[0], "sub1" in kernels[1]] == [True, True]


def test_the_steps_of_a_monitor_move_with_every_kernel():
    listener = Listener()
    heard(BuildRequest("net", sums(6), settings=Settings(verify=Verify.FULL)), listener)
    kernels = len(listener.lines[Severity.VERBOSE])
    assert kernels >= 6
    assert listener.steps["Building engine"] == [0, 1, 2, 3, 4]
    twice = 2 * kernels  # for usual numbers, and for those at the ends of the range
    assert listener.steps["Verify kernels"] == [*range(twice)]
    for phase in ("Schedule kernels", "Compile kernels"):
        assert listener.steps[phase] == [*range(len(listener.steps[phase]))]
        assert len(listener.steps[phase]) > 1


@pytest.mark.parametrize("phase", ["Schedule kernels", "Verify kernels", "Compile kernels"])
def test_a_monitor_stops_a_build_between_two_kernels(phase):
    listener = Listener(phase, last=1)
    request = BuildRequest("net", sums(6), settings=Settings(verify=Verify.FULL))
    with pytest.raises(BuildCancelled, match=diagnostic("AR804", "net", f"'{phase}'")):
        heard(request, listener)
    assert listener.steps[phase] == [0, 1]


def test_a_network_of_many_kernels_says_no_more_than_one_of_few():
    listener = Listener()
    heard(BuildRequest("net", sums(60)), listener)
    assert len(listener.lines[Severity.VERBOSE]) >= 60
    assert len(listener.lines[Severity.INFO]) == 4


def test_a_long_build_logs_its_progress_every_other_second(monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL", 2.0)
    now, lines = [0.0], []
    told_of = Progress("net", lambda severity, text: lines.append(text), clock=lambda: now[0])
    with told_of.counted("Compile kernels") as report:
        report(0, 9)
        for tenth in range(100):
            now[0] = tenth / 10
            report(tenth // 20, 9)
            told_of.tick()
    assert lines == [
        "Compile kernels: 1 of 9, 2.00 s",
        "Compile kernels: 2 of 9, 4.00 s",
        "Compile kernels: 3 of 9, 6.00 s",
        "Compile kernels: 4 of 9, 8.00 s",
        "Compile kernels: 4 of 9, 9.90 s",
    ]


def test_a_monitor_gets_no_more_steps_than_announced():
    listener = Listener()
    with Progress("net", monitor=listener).counted("Schedule kernels") as report:
        for built, of in ((0, 2), (1, 2), (2, 2), (1, 3), (2, 3), (3, 3)):  # a value was rejected
            report(built, of)
    assert listener.steps["Schedule kernels"] == [0, 1]


def test_listening_changes_nothing_that_is_built(tmp_path, monkeypatch):
    request = BuildRequest("net", sums(3))
    quiet = build(request)
    monkeypatch.setenv("ANYRT_CACHE_DIR", str(tmp_path / "another"))
    assert heard(request, Listener()) == quiet


def test_a_build_from_the_cache_gives_the_report_and_the_seconds_of_the_first(monkeypatch):
    listener = Listener()
    first = read_plan(build(BuildRequest("net", sums(3)))).plan
    seconds = build_seconds(first)
    monkeypatch.delattr(native, "lower")
    again = read_plan(heard(BuildRequest("again", sums(3)), listener)).plan
    assert [name for name, _ in seconds] == [*driver.STEPS]
    assert (again.report, build_seconds(again)) == (first.report, seconds)
    assert ", from the cache: " in listener.lines[Severity.INFO][-1]
    assert len(listener.lines[Severity.VERBOSE]) == 3
