"""For all tests: one hypothesis profile, with fixed seeds, no deadline and nothing kept between runs; and no
waiting for the disk."""

import os

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=50)
settings.load_profile("fixed")


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk():
    """Thousands of small files are written to folders that are thrown away; each wait takes milliseconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield
