"""Fixtures for tests of plug-ins: a logger that records lines, a cache, and a registry that is restored."""

import numpy as np
import pytest

import anyrt as trt


class Collect(trt.ILogger):
    """A logger that records warnings and errors."""

    def __init__(self):
        trt.ILogger.__init__(self)
        self.lines = []

    def log(self, severity, msg):
        if severity <= trt.Logger.WARNING:
            self.lines.append(msg)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANYRT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("ANYRT_NUM_THREADS", "1")
        yield


@pytest.fixture
def log():
    return Collect()


@pytest.fixture
def registry():
    """The registry of the process; removes the creators that a test registers."""
    plugins = trt.get_plugin_registry()
    before = plugins.all_creators
    yield plugins
    for creator in plugins.all_creators:
        if creator not in before:
            plugins.deregister_creator(creator)


@pytest.fixture
def rng():
    return np.random.default_rng(7)
