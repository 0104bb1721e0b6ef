"""Large pages leave the content of memory unchanged."""

import numpy as np
import pytest

from anyrt.api.run.host_memory import IHostMemory
from anyrt.core.pages import LARGE, collapse_pages, prefer_large_pages


@pytest.mark.parametrize("change", [collapse_pages, prefer_large_pages])
@pytest.mark.parametrize(("start", "size"), [(0, 0), (1, LARGE), (64, 3 * LARGE), (4096, 2 * LARGE + 5)])
def test_memory_keeps_what_it_holds(start, size, change):
    held = np.random.default_rng(0).integers(0, 256, 4 * LARGE, np.uint8)
    before = held.copy()
    change(held.ctypes.data + start, size)
    assert np.array_equal(held, before)


def test_a_large_plan_reads_as_it_was_written():
    content = np.random.default_rng(1).bytes(5 * LARGE + 3)
    assert bytes(IHostMemory(content)) == content
