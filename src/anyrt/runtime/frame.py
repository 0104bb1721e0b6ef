"""The memory of native code: the workspace, the tables, and the words of sizes, for the sizes of an
inference."""

from __future__ import annotations

import ctypes
from array import array

from anyrt.core.counts import is_open
from anyrt.core.errors import ResourceError
from anyrt.plan import abi
from anyrt.plan.device import Memory
from anyrt.runtime.loaded import Loaded
from anyrt.runtime.memory import EMPTY, Policy, Workspace, take, workspace_bytes
from anyrt.runtime.shapes import Resolved


class Frame:
    """The workspace of a context, and the other data for the sizes that it is `prepared` for."""

    def __init__(self, loaded: Loaded, words: array[int], policy: Policy, limit: int | None) -> None:
        self.loaded, self.words, self.policy, self._limit = loaded, words, policy, limit
        self.prepared: Resolved | None = None
        self._begun: Resolved | None = None  # the state at the start of an inference
        self._tables: Memory | None = None
        self._workspace: Workspace = EMPTY
        # The words of sizes with an upper bound, which native code loads.
        first = abi.slot_word(len(loaded.plan.bindings), 0)
        bounded = (n for n, s in enumerate(loaded.plan.symbols) if s.most is not None and not is_open(s.sym))
        self._loaded_words = frozenset(first + n for n in bounded)

    def use(self, workspace: Workspace) -> None:
        """Another workspace, which is not prepared."""
        self._workspace, self.prepared = workspace, None

    def take(self, nbytes: int) -> None:
        """New workspace of so many bytes."""
        self.use(take(self.loaded.device, nbytes, self._limit))

    def begin(self, resolved: Resolved) -> int:
        """Memory, slots and tables when an inference begins; sizes from the last one stay. Returns the status
        of preparing."""
        if self.prepared is not None and resolved is self._begun:
            return abi.Status.OK
        status = self.fit(resolved, keeps=False)
        self._begun = None if status else resolved
        return status

    def fit(self, resolved: Resolved, *, keeps: bool) -> int:
        """Memory, slots and tables. `keeps`: preserves the content of the arena, and computed sizes."""
        loaded, words = self.loaded, self.words
        loaded.pool.ensure()
        needed, before, self.prepared = workspace_bytes(resolved, loaded.pool.threads), self.prepared, None
        if needed > self._workspace.nbytes:
            self._grow(needed, 0 if before is None or not keeps else before.arena_bytes)
        if resolved.table_bytes > (self._tables.nbytes if self._tables else 0):
            self._tables = loaded.device.allocate(resolved.table_bytes)
        words[abi.ARENA] = self._workspace.address
        words[abi.SCRATCH] = self._workspace.address + resolved.arena_bytes
        words[abi.SCRATCH_STRIDE] = resolved.scratch_bytes
        words[abi.TABLES] = self._tables.address if self._tables else 0
        for word, value in enumerate(resolved.slots, abi.slot_word(len(loaded.plan.bindings), 0)):
            if not (keeps and word in self._loaded_words):
                words[word] = value
        status = loaded.prepare(words.buffer_info()[0])
        self.prepared = None if status else resolved
        return status

    def _grow(self, needed: int, preserved: int) -> None:
        """More workspace, whose first `preserved` bytes are those of the old one."""
        if self.policy is Policy.USER_MANAGED:
            got, wanted = f"device memory of {self._workspace.nbytes:,} bytes", f"{needed:,}"
            raise ResourceError("AR801", "execution context", got=got, wanted=wanted, do="bind more memory")
        before = self._workspace
        if not preserved:
            self._workspace = EMPTY  # first, so that both need not exist at once
        self._workspace = take(self.loaded.device, needed, self._limit)
        if preserved:
            ctypes.memmove(self._workspace.address, before.address, preserved)
