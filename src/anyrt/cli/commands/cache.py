"""`anyrt cache`: list, fill, copy and clear your cache of compiled code.

anyrt cache                              list the entries
anyrt cache warm net.plan                compile missing code of networks
anyrt cache export code.anyrt net.plan   write compiled code to a file
anyrt cache import code.anyrt --allow-native-code
                                         add the code in a file to the cache
anyrt cache prune --limit 500M           remove least recently used entries
anyrt cache clear                        remove all entries
anyrt cache path                         print the directory

ANYRT_CACHE_DIR sets the directory and ANYRT_CACHE_LIMIT its maximum size
(default: 1GiB). An exported file contains native code: import a file only if
you would run a program from the same source (SECURITY.md).
"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anyrt.cli.command import Command
from anyrt.cli.show import print_json, print_table, print_text
from anyrt.core.errors import ArgumentError, ResourceError
from anyrt.core.flags import read_flags
from anyrt.core.units import byte_count, bytes_of, counted
from anyrt.plan.cache import DEFAULT_LIMIT, KernelCache, default_directory
from anyrt.plan.disk import open_regular, write_atomically

if TYPE_CHECKING:
    from anyrt.plan.file import PlanFile

PATTERN: Final = "*.kernel"
MAX_IMPORT: Final = 4 << 30  # bytes of a file, which is read as a whole
NETWORKS: Final = "plans, ONNX models or FILE.py:FUNCTION"


def options(parser: ArgumentParser) -> None:
    """The action, and its files."""
    parser.description = __doc__
    parser.add_argument(
        "action", nargs="?", choices=tuple(ACTIONS), default="show", help="action (default: show)"
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help=f"warm: {NETWORKS}; export: the output file, then {NETWORKS}"
    )
    parser.add_argument("--limit", help="prune: maximum size, such as 500M (default: ANYRT_CACHE_LIMIT)")
    parser.add_argument(
        "--allow-native-code",
        action="store_true",
        help="import: allow the native code in the file to run with your permissions",
    )


def run(args: Namespace) -> None:
    """Execute the action on the directory of the cache."""
    least, most = TAKES.get(args.action, (0, 0))
    if not least <= len(args.files) <= most:
        wanted = "none" if most == 0 else "one" if most == 1 else f"at least {least}"
        do = "anyrt cache --help shows an example"
        raise ArgumentError("AR304", f"cache {args.action}", counted(len(args.files), "file"), wanted, do)
    ACTIONS[args.action](args)


def entries(directory: Path) -> list[Path]:
    """The files of the cache, least recently used first; none if there is no such folder."""
    return sorted(directory.glob(PATTERN), key=lambda path: path.stat().st_mtime)


def kept_bytes(directory: Path) -> int:
    """The total size of the entries."""
    return sum(path.stat().st_size for path in entries(directory))


def show(args: Namespace) -> None:
    """Print every entry with its size and age."""
    directory = default_directory()
    paths = entries(directory)
    if args.json:
        print_json(_facts(directory, paths))
        return
    rows = [(p.name[:16], byte_count(p.stat().st_size), _age(time.time() - p.stat().st_mtime)) for p in paths]
    print_table(("key", "size", "last used"), rows)
    total, limit = map(byte_count, (kept_bytes(directory), read_flags().cache_limit or DEFAULT_LIMIT))
    print_text(f"{counted(len(paths), 'entry', 'entries')}, {total} of at most {limit}, in {directory}")
    report_unusable()


def _facts(directory: Path, paths: Sequence[Path]) -> dict[str, object]:
    problem = KernelCache(directory, _warn).refusal()
    listed = [(p.stem, p.stat()) for p in paths]
    return {
        "directory": str(directory),
        "bytes": sum(facts.st_size for _, facts in listed),
        "limit": read_flags().cache_limit or DEFAULT_LIMIT,
        "problem": None if problem is None else str(problem),
        "entries": [{"key": k, "bytes": f.st_size, "last_used": f.st_mtime} for k, f in listed],
    }


def _say(args: Namespace, text: str, **facts: object) -> None:
    """The result, as text or JSON."""
    if args.json:
        print_json({"directory": str(default_directory()), **facts})
    else:
        print_text(text)


def report_unusable() -> None:
    """Report on stderr why the cache cannot be used, if so, with the cure."""
    problem = KernelCache(default_directory(), _warn).refusal()
    if problem is not None:
        _warn(f"compiled code is not kept, each process compiles again: {problem}")


def clear(args: Namespace) -> None:
    """Remove every entry; another process may be doing the same."""
    directory = default_directory()
    paths = entries(directory)
    for path in paths:
        path.unlink(missing_ok=True)
    _say(args, f"removed {counted(len(paths), 'entry', 'entries')} from {directory}", removed=len(paths))


def path(args: Namespace) -> None:
    """Print the folder."""
    if args.json:
        _say(args, "")
    else:
        print(default_directory())


def prune(args: Namespace) -> None:
    """Remove the least recently used entries, until the limit is met."""
    limit = read_flags().cache_limit or DEFAULT_LIMIT if args.limit is None else bytes_of(args.limit)
    if limit is None:
        raise ArgumentError("AR304", "--limit", repr(args.limit), "a size in bytes, such as 500M or 2GiB")
    directory = default_directory()
    removed, freed = KernelCache(directory, _warn, limit).prune()
    left = byte_count(kept_bytes(directory))
    text = f"removed {counted(removed, 'entry', 'entries')}, {byte_count(freed)}; {left} left in {directory}"
    _say(args, text, removed=removed, freed=freed)


def warm(args: Namespace) -> None:
    """Compile the code of networks that the cache lacks; status 1 if the cache cannot keep it."""
    from anyrt.backends import loader
    from anyrt.compiler import exported

    files, problem = _plans(args.files)
    if problem is not None:
        _warn(f"nothing was compiled, since compiled code cannot be kept: {problem}")
        raise SystemExit(1)
    compiled = exported.warm(files, loader.device(), loader.target, _warn)
    was = counted(len(files) - compiled, "network")
    text = f"compiled {counted(compiled, 'network')}, {was} compiled before; in {default_directory()}"
    _say(args, text, compiled=compiled, networks=len(files))


def export(args: Namespace) -> None:
    """Write the code of networks to a file."""
    from anyrt.backends import loader
    from anyrt.compiler import exported

    files, problem = _plans(args.files[1:])
    if problem is not None:
        raise problem
    target = Path(args.files[0])
    parts = exported.export(files, loader.device(), loader.target, _warn, lambda severity, text: None)
    write_atomically(target, parts)
    nbytes = sum(map(len, parts))
    text = f"native code of {counted(len(files), 'network')} for this processor, {byte_count(nbytes)}"
    _say(args, f"{target}: {text}", file=str(target), networks=len(files), bytes=nbytes)


def import_(args: Namespace) -> None:
    """Add the code of a file to the cache, after all checks."""
    from anyrt.backends import loader
    from anyrt.compiler import exported

    source, device = Path(args.files[0]), loader.device()
    with open_regular(source, str(source)) as file:
        if not args.allow_native_code:
            got = f"{source}, which holds native code"
            do = "add --allow-native-code if you trust who wrote it (SECURITY.md)"
            raise ArgumentError("AR304", "cache import", got, "permission to run native code", do)
        code = exported.read(file.read(MAX_IMPORT))
    if exported.is_of_another_machine(code.maker, device):
        _warn("the code was compiled for a machine with other caches or numbers of cores; it runs here")
    kept = exported.keep(code, device, _warn)
    _say(args, f"imported {counted(kept, 'entry', 'entries')} into {default_directory()}", imported=kept)
    if kept < len(code.entries):
        raise SystemExit(1)


def _plans(places: Sequence[str]) -> tuple[list[PlanFile], ResourceError | None]:
    """The plans of networks; the problem of the cache, unless it has the code of all of them."""
    from anyrt.backends import loader
    from anyrt.cli.script import plan_file, plan_source
    from anyrt.compiler import cached

    store = KernelCache(default_directory(), lambda text: None)
    problem = store.refusal()
    # Plans are not built for a cache that neither has nor takes code.
    if problem is not None and not any(store.get_bytes(p.stem) for p in entries(store.directory)):
        return [], problem
    files = [plan_file(plan_source(place)) for place in places]
    has_all = all(store.get_bytes(cached.plan_key(loader.device(), file.code)) for file in files)
    return files, None if has_all else problem


def _warn(text: str) -> None:
    from anyrt.cli.main import complain

    complain(f"anyrt cache: {text}")


def _age(seconds: float) -> str:
    steps = [(86400, "day"), (3600, "hour"), (60, "minute")]
    size, unit = next(((s, u) for s, u in steps if seconds >= s), (1, "second"))
    return f"{counted(round(seconds / size), unit)} ago"


ACTIONS: Final[dict[str, Callable[[Namespace], None]]] = {
    "show": show, "warm": warm, "export": export, "import": import_,
    "prune": prune, "clear": clear, "path": path,
}  # fmt: skip
# The number of files of each action.
TAKES: Final = {"warm": (1, 1 << 16), "export": (2, 1 << 16), "import": (1, 1)}
COMMAND = Command("show, warm, export, import or clear the cache of compiled code", options, run)
