"""Detects a quiet machine: a chain of multiply-adds on every core takes a fixed time if nothing else runs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from benchmarks.native import Region, region, word

STEPS = 20_000  # about 20 µs
TRIES = 4  # the first wakes the threads
DISTURBED = 1.25
NAP_SECONDS = 0.01

# The chain begins with a number from memory, or LLVM would compute it.
_KERNEL = f"""
declare double @llvm.fma.f64(double, double, double)
define internal void @k(ptr %args, i64 %begin, i64 %end, ptr %scratch) #0 {{
entry:
{word("seed", 0)}  %first = bitcast i64 %seed to double
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%n, %loop]
  %x = phi double [%first, %entry], [%y, %loop]
  %y = call double @llvm.fma.f64(double %x, double 0.5, double 0.5)
  %n = add i64 %i, 1
  %more = icmp ult i64 %n, {STEPS}
  br i1 %more, label %loop, label %done
done:
  store double %y, ptr %scratch
  ret void
}}
"""


@dataclass(slots=True)
class Probe:
    """Waits for a quiet machine; `waits` counts the naps, `lost` the times that the patience ran out."""

    threads: int
    patience_s: float
    waits: int = 0
    lost: int = 0
    best_ns: int = 1 << 62
    region: Region = field(init=False)

    def __post_init__(self) -> None:
        self.region = region(_KERNEL, self.threads, (0,), self.threads)
        for _ in range(5):
            self._time()

    def wait(self) -> None:
        """Return when the machine is quiet, or when the patience is over."""
        end = time.perf_counter() + self.patience_s
        while self._time() > DISTURBED * self.best_ns:
            if time.perf_counter() > end:
                self.lost += 1
                return
            self.waits += 1
            time.sleep(NAP_SECONDS)

    def _time(self) -> int:
        times = []
        for _ in range(TRIES):
            start = time.perf_counter_ns()
            self.region()
            times.append(time.perf_counter_ns() - start)
        self.best_ns = min(self.best_ns, *times)
        return sorted(times)[1]  # the best but one: a single lucky piece proves nothing
