"""The number of processors that a process may use, read from cgroup directories as the kernel
presents them."""

import os
from pathlib import Path

import pytest

from anyrt.cli.main import main
from anyrt.core import flags
from anyrt.core.quota import Allowance, allowance

V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
V1 = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def root(tmp_path: Path, monkeypatch) -> Path:
    """A directory that replaces /, on a machine with eight processors available."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    return tmp_path


def test_quota_of_version_2_limits_processors(root):
    put(root, {"proc/self/mountinfo": V2, "proc/self/cgroup": "0::/a\n"})
    put(root, {"sys/fs/cgroup/a/cpu.max": "300000 100000\n"})
    assert allowance(root) == Allowance(3, "/sys/fs/cgroup/a/cpu.max allows 3 of 8 processors")


def test_quota_of_version_1_limits_processors(root):
    put(root, {"proc/self/mountinfo": V1, "proc/self/cgroup": "3:cpuset:/\n2:cpu,cpuacct:/b\n"})
    put(root, {"sys/fs/cgroup/cpu/b/cpu.cfs_quota_us": "250000\n"})
    put(root, {"sys/fs/cgroup/cpu/b/cpu.cfs_period_us": "100000\n"})
    assert allowance(root) == Allowance(2, "/sys/fs/cgroup/cpu/b/cpu.cfs_quota_us allows 2.5 of 8 processors")


def test_least_quota_of_all_groups_around_it_counts(root):
    put(root, {"proc/self/mountinfo": V2, "proc/self/cgroup": "0::/a/b\n"})
    put(root, {"sys/fs/cgroup/a/b/cpu.max": "max 100000\n", "sys/fs/cgroup/a/cpu.max": "40000 20000\n"})
    assert allowance(root).count == 2


def test_less_than_one_processor_is_one_thread(root):
    put(root, {"proc/self/mountinfo": V2, "proc/self/cgroup": "0::/\n"})
    put(root, {"sys/fs/cgroup/cpu.max": "50000 100000\n"})
    assert allowance(root).count == 1


def test_container_that_sees_its_own_group_alone(root):
    mount = "30 23 0:26 /docker/c0 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    put(root, {"proc/self/mountinfo": mount, "proc/self/cgroup": "0::/docker/c0\n"})
    put(root, {"sys/fs/cgroup/cpu.max": "100000 100000\n"})
    assert allowance(root).count == 1
    put(root, {"proc/self/cgroup": "0::/../other\n"})
    assert allowance(root).count == 1


@pytest.mark.parametrize("text", ["max 100000", "-1", "900000 100000", "", "nonsense 7", "5 0", "x y z"])
def test_no_quota_and_what_is_none_leave_the_affinity(root, text):
    put(root, {"proc/self/mountinfo": V2, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": text})
    assert allowance(root) == Allowance(8, "the processors that this process may run on (affinity)")


def test_system_without_control_groups_has_its_affinity(root):
    assert allowance(root).count == 8


def test_threads_follow_the_quota_and_info_says_so(monkeypatch, capsys):
    said = "/sys/fs/cgroup/cpu.max allows 3 of 8 processors"
    monkeypatch.delenv("ANYRT_NUM_THREADS", raising=False)
    for place in ("anyrt.core.flags", "anyrt.cli.commands.info"):
        monkeypatch.setattr(f"{place}.allowance", lambda: Allowance(3, said))
    assert flags.default_threads() == 3
    assert main(["info"]) == 0
    assert f"3: {said}" in capsys.readouterr().out
    monkeypatch.setenv("ANYRT_NUM_THREADS", "2")
    assert main(["info"]) == 0
    assert "2: ANYRT_NUM_THREADS is set" in capsys.readouterr().out
