"""Everyday cases are about what comes before LLVM, which then does as little as it can."""

import os
from functools import partial

from anyrt.codegen import llvm, workers


def hurry():
    """Compile quickly, in this process; in a long run as users do."""
    if not os.environ.get("ANYRT_FUZZ"):
        llvm.compile_text = partial(llvm.compile_text, effort=llvm.Effort(speed=0, instructions=0))
        workers.MOST = 0
