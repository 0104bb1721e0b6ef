"""What tests of examples share: a cache of their own."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache_dir(tmp_path_factory):
    """The kernel cache of all tests of a process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYRT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
