"""`anyrt info`: describe this machine and installation for a bug report."""

from __future__ import annotations

import platform
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from importlib.metadata import version

import anyrt
from anyrt.cli.command import Command
from anyrt.cli.commands.cache import entries, report_unusable
from anyrt.cli.show import print_json, print_table
from anyrt.core.flags import Flags, read_flags
from anyrt.core.machine import Machine, this_machine
from anyrt.core.quota import allowance
from anyrt.core.units import byte_count, counted
from anyrt.plan.cache import default_directory


def options(parser: ArgumentParser) -> None:
    """None."""


def run(args: Namespace) -> None:
    """Print versions, processor, threads, cache and backends."""
    flags = read_flags()
    processor, machine = _processor(flags)
    rows = [*_versions(), *processor, ("threads", _threads(flags)), ("cache", _cache()), *_backends()]
    if args.json:
        print_json({**dict(rows), "machine": asdict(machine)})
    else:
        print_table(("what", "value"), rows)
    report_unusable()


def _versions() -> list[tuple[str, str]]:
    names = ("numpy", "llvmlite", "ml_dtypes")
    return [
        ("anyrt", f"{anyrt.__anyrt_version__}, with the API of TensorRT {anyrt.__version__}"),
        ("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *((name, version(name)) for name in names),
    ]


def _processor(flags: Flags) -> tuple[list[tuple[str, str]], Machine]:
    from anyrt.backends import loader

    target = loader.target()
    forced = ", set by ANYRT_CPU" if flags.cpu else ""
    facts = ((what, f"{is_}{forced if what == 'feature level' else ''}") for what, is_ in target.facts)
    machine = target.limited(this_machine(flags))
    return [*facts, ("machine", _caches(machine))], machine


def _caches(machine: Machine) -> str:
    sizes = (byte_count(n) for n in (machine.l1_bytes, machine.l2_bytes, machine.last_bytes))
    cores = counted(machine.cores, "core")
    return f"caches of {', '.join(sizes)}; {cores}; {machine.vector_bits}-bit vectors (--json: all)"


def _threads(flags: Flags) -> str:
    if flags.num_threads is not None:
        return f"{flags.num_threads}: ANYRT_NUM_THREADS is set"
    threads = allowance()
    return f"{threads.count}: {threads.source}"


def _cache() -> str:
    directory = default_directory()
    paths = entries(directory)
    total = byte_count(sum(p.stat().st_size for p in paths))
    return f"{directory}: {counted(len(paths), 'entry', 'entries')}, {total}"


def _backends() -> list[tuple[str, str]]:
    from anyrt.backends.loader import all_backends

    return [(f"backend {b.name}", b.doc) for b in all_backends().values()]


COMMAND = Command("show versions, processor, threads, cache and backends", options, run)
