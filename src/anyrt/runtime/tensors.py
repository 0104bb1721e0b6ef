"""The memory of a context's inputs and outputs: addresses that the user sets, and memory from allocators once
a size is known."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Protocol

from anyrt.core.counts import counts
from anyrt.core.enums import TensorFormat
from anyrt.core.errors import BindingError
from anyrt.plan import abi
from anyrt.plan.plan import Binding
from anyrt.runtime import reach
from anyrt.runtime.arrays import UNBOUND, Bound
from anyrt.runtime.loaded import Loaded
from anyrt.runtime.shapes import Resolved, Shape
from anyrt.runtime.shared import check, rivals

_ALLOCATOR_ALIGNMENT = 256
MOST_PLACES = 1024  # of one tensor that were checked; a check costs 3 µs


class OutputAllocator(Protocol):
    """Allocates memory for an output when its size is known."""

    def reallocate(self, name: str, current: int, nbytes: int, alignment: int) -> int | None:
        """An address with at least `nbytes`, `current` if it is large enough; 0 or None refuses."""

    def notify(self, name: str, shape: Shape) -> None:
        """The shape of the output of this inference."""


class Tensors:
    """The memory of inputs and outputs, by their indices. Native code reads the addresses from `words`."""

    def __init__(self, loaded: Loaded, words: array[int]) -> None:
        self.loaded, self.words = loaded, words
        self._bindings = loaded.plan.bindings
        count = len(self._bindings)
        self.bound: list[Bound | None] = [None] * count
        self.allocators: dict[int, OutputAllocator] = {}
        self._rivals = rivals(self._bindings, loaded.sources)
        # For each tensor the addresses at which so many bytes were checked.
        self._places: list[dict[int, int]] = [{} for _ in range(count)]
        self._sizes = array("q", bytes(abi.WORD_BYTES * count))
        for index in loaded.counts.values():
            self.bind(index, Bound(self._sizes.buffer_info()[0] + abi.WORD_BYTES * index))

    def bind(self, index: int, bound: Bound) -> int:
        """Set the address of a tensor; returns the previous one."""
        word = abi.FIRST_BINDING + index
        before, self.bound[index] = self.words[word], bound
        self.words[word] = bound.address
        return before

    def address(self, index: int) -> int:
        """The address of a tensor, 0 if none is set."""
        return (self.bound[index] or UNBOUND).address

    def allocate_by(self, index: int, allocator: OutputAllocator | None) -> None:
        """Set the allocator of an output, which every inference calls; None removes it."""
        self.allocators.pop(index, None)
        if allocator is not None:
            self.allocators[index] = allocator

    # ---- what is there ------------------------------------------------------------------------------------

    def forget(self, begin: int, end: int) -> bool:
        """Check the memory of a tensor again before the next inference; True if a tensor has memory there."""
        for places in self._places:
            for address in [a for a in list(places) if begin <= a < end]:  # while other threads check it
                places.pop(address, None)
        return any(b is not None and b.nbytes is None and begin <= b.address < end for b in self.bound)

    def _lack(self, index: int, nbytes: int) -> str:
        """The problem of the bare address of a tensor, "" if there is none."""
        address, places = self.address(index), self._places[index]
        if places.get(address, -1) >= nbytes:
            return ""
        lacks = reach.lack(address, nbytes, writes=not self._bindings[index].is_input)
        if not lacks:
            if len(places) >= MOST_PLACES:
                places.clear()
            places[address] = nbytes
        return lacks

    def check_place(self, index: int, nbytes: int) -> None:
        """BindingError AR712 if there are less than so many bytes at the address of a tensor."""
        bound, name = self.bound[index], self._bindings[index].name
        lacks = "" if bound is None or bound.nbytes is not None or not nbytes else self._lack(index, nbytes)
        if bound is not None and lacks:
            got, wanted = f"address {bound.address:#x}, {lacks}", f"one of {nbytes} bytes"
            raise BindingError("AR712", name, got, wanted)

    def check(self, tensors: Iterable[int], resolved: Resolved) -> None:
        """Memory for these tensors, from allocators if there are any; invalid overlaps are rejected."""
        for index in tensors:
            if index in self.allocators:
                self._ask(index, self.allocators[index], resolved)
            _check_bound(self._bindings[index], self.bound[index], resolved.nbytes[index])
            self.check_place(index, resolved.nbytes[index])
        addresses = self.words[abi.FIRST_BINDING : abi.FIRST_BINDING + len(self.bound)]
        check(self._bindings, self.loaded.sources, addresses, resolved.nbytes, self.loaded.lenders)

    def may_move(self, index: int, resolved: Resolved) -> bool:
        """Whether the current address of a tensor is valid, with all others unchanged; False if `check` must
        decide."""
        bound, nbytes = self.bound[index] or UNBOUND, resolved.nbytes[index]
        is_there = bound.nbytes is not None or not self._lack(index, nbytes)
        return is_there and self._meets_none(resolved, index)

    def _meets_none(self, resolved: Resolved, index: int) -> bool:
        """Whether the tensor certainly overlaps none that it must not; False if `check` must decide."""
        rivals = self._rivals[index]
        if rivals is None:
            return False
        words, nbytes = self.words, resolved.nbytes
        begin = words[abi.FIRST_BINDING + index]
        end = begin + nbytes[index]
        for k in rivals:
            other = words[abi.FIRST_BINDING + k]
            if other < end and begin < other + nbytes[k]:
                return False
        return True

    def _ask(self, index: int, allocator: OutputAllocator, resolved: Resolved) -> None:
        name, nbytes = self._bindings[index].name, max(1, resolved.nbytes[index])
        address = allocator.reallocate(name, self.address(index), nbytes, _ALLOCATOR_ALIGNMENT)
        if not address:
            do = "return an address from reallocate_output"
            raise BindingError("AR709", name, f"{address}", f"an address of {nbytes} bytes", do)
        self.bind(index, Bound(address))
        if -1 not in resolved.shapes[index] and index not in self.loaded.late:
            allocator.notify(name, resolved.shapes[index])


def _check_bound(binding: Binding, bound: Bound | None, nbytes: int) -> None:
    if bound is None:
        if nbytes:
            do = f"call context.set_tensor_address({binding.name!r}, array)"
            raise BindingError("AR701", binding.name, "no address", f"one of {nbytes} bytes", do)
        return
    if nbytes and not bound.address:
        do = f"call context.set_tensor_address({binding.name!r}, array)"
        raise BindingError("AR702", binding.name, "address 0", f"an address of {nbytes} bytes", do)
    # A flat array may be a buffer for larger shapes; one with dimensions means exactly these.
    is_buffer = bound.shape is None or len(bound.shape) == 1 or any(map(counts, binding.shape))
    if bound.nbytes is not None and (bound.nbytes < nbytes or (bound.nbytes > nbytes and not is_buffer)):
        got = f"an array of {bound.nbytes} bytes, shape {bound.shape}"
        do = "bind an array of the shape that get_tensor_shape gives"
        if binding.format is not TensorFormat.LINEAR:
            do = f"bind an array of {nbytes} bytes, as its format is {binding.format.name}"
        raise BindingError("AR704", binding.name, got=got, wanted=f"{nbytes} bytes", do=do)
