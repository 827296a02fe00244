# SPDX-License-Identifier: Apache-2.0
"""A stage of a plan as a CuTe DSL kernel sees it. Its methods run while the kernel is traced: all of the plan's numbers
are constants of what is compiled."""

import math
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from .._core import Plan
from .._plan import (
    COUNTER_WORDS,
    LANES,
    ZERO_WORD,
    Expression,
    Grouping,
    Numbers,
    PlannedStage,
    Range,
    SemaphoreSet,
    Wait,
    read,
    refuse,
)

DEADLINE_MS = 2000


class Stage:
    """`mem`, in each call, is the chain's memory: `words` words of 32 bits, zeroed once (a cute.Pointer of Int32).

        stage = tessera.cute.Stage(plan, "down")     # outside of the kernel

        x, y, launch = stage.start(mem)              # all threads, first of all
        stage.wait("a", mem, launch, x, y)           # by whole warps; each warp that loads, for itself
        stage.post(mem, launch, x, y)                # all threads, behind the last store, once a block

    Launched with grid [stage.blocks, 1, 1] and use_pdl=stage.early, in the order of the plan."""

    def __init__(self, plan: Plan, name: str, *, deadline_ms: float = DEADLINE_MS, device: ModuleType | None = None) -> None:
        self._plan = read(plan, "CuTe")
        found = [stage for stage in self._plan.stages if stage.name == name]
        if not found:
            raise refuse(
                "E0806",
                f'the plan of {self._plan.name} has no stage "{name}"',
                hint=f"its stages: {', '.join(stage.name for stage in self._plan.stages)}",
            )
        self._stage: PlannedStage = found[0]
        if self._stage.tickets or self._stage.table:
            raise refuse(
                "E0801",
                f"{name} draws tickets for its tiles, which CuTe kernels do not",
                where=self._stage.where,
                hint="leave the order of tiles to row major, and vanilla out",
            )
        self._deadline = round(deadline_ms * 1e6)
        if device is None:
            from . import sync

            device = sync
        self._device: Any = device  # what emits instructions

    def __repr__(self) -> str:
        """Part of a compiled kernel's name: the same in every process."""
        return f"{self._plan.name}_{self._stage.name}_{self._plan.fingerprint}_{self._deadline}"

    @property
    def blocks(self) -> int:
        return self._stage.blocks

    @property
    def early(self) -> bool:
        """Launched with programmatic stream serialization."""
        return self._stage.early

    @property
    def words(self) -> int:
        """Of the chain's memory."""
        return self._plan.words

    def start(self, mem: Any) -> tuple[Any, ...]:
        """This block's tile and the number of the launch: (x, y, launch)."""
        device, stage = self._device, self._stage
        if stage.triggers:
            device.trigger()
        block = device.block()
        launch: Any = 0
        if stage.counts_leaving:
            lanes = min(stage.blocks, LANES)
            each, longer = divmod(stage.blocks, lanes)
            lane = block % lanes
            left = device.left(mem, lane * COUNTER_WORDS + self._plan.counter_word(stage.index, 2))
            launch = device.to_int32(left // each)
            if longer:
                launch = device.choose(lane < longer, device.to_int32(left // (each + 1)), launch)
        coordinates, rest = [], block
        extents = list(stage.grid.values())
        for extent in extents[:-1]:
            coordinates.append(rest % extent)
            rest = rest // extent
        return (*coordinates, rest, launch)

    def wait(self, operand: str, mem: Any, launch: Any, *tile: Any, tma: bool = True) -> None:
        """Until all that the tile reads through the operand is there. By all threads of a warp: each looks at
        semaphores of its own. `tma`: with the fence that loads by TMA need."""
        waits, waited = [wait for wait in self._stage.waits if wait.operand == operand], False
        if not waits and operand not in self._stage.operands:
            raise ValueError(f"{self._stage.name} has no operand {operand}; it has {', '.join(self._stage.operand_names())}")
        for wait in waits:
            if wait.set is None:
                if self._stage.early:
                    self._device.grid_wait()
                    waited = True
                continue
            for access in wait.accesses:
                self._wait_access(wait, access, mem, launch, tile)
                waited = True
        if waited:
            self._device.sync_warp()
            if tma:
                self._device.fence_for_tma()

    def wait_tile(
        self, operand: str, mem: Any, launch: Any, tile: tuple[Any, ...], producer: tuple[Any, ...], *, tma: bool = True
    ) -> None:
        """Until one tile of the producer is there. By one thread or by several, each for itself."""
        waits = [wait for wait in self._stage.waits if wait.operand == operand]
        if len(waits) != 1:
            raise ValueError(f"{self._stage.name} has {len(waits)} dependences for operand {operand}, not one")
        wait = waits[0]
        if wait.set is not None:
            indices = [self._group(group, at) for group, at in zip(wait.set.groups, producer)]
            self._await(wait, indices, mem, launch, tile)
        elif self._stage.early:
            self._device.grid_wait()
        else:
            return
        if tma:
            self._device.fence_for_tma()

    def post(self, mem: Any, launch: Any, *tile: Any) -> None:
        """The tile is complete; by all threads of the block, behind their last store. Stores by TMA: first
        complete_tma_stores(), in the thread that issued them."""
        if self._stage.posts or self._stage.counts_leaving:
            self._device.sync_threads()
        self._device.by_first_thread(lambda: self.post_by_one(mem, launch, *tile))

    def post_by_one(self, mem: Any, launch: Any, *tile: Any) -> None:
        """The same by one thread, which all others have synchronized with."""
        stage, device = self._stage, self._device
        for one in stage.posts:
            indices = [self._group(group, at) for group, at in zip(one.groups, tile)]
            word = self._index(one, stage, indices) + (self._plan.semaphore_word + one.first)
            posts = self._posts_of(one, stage, indices)
            if stage.plain_store and isinstance(posts, int) and posts == 1:
                device.post_store(mem, word, launch + 1)
            else:
                device.post_add(mem, word)
        if stage.early:
            device.grid_wait()
        if stage.counts_leaving:
            lanes = min(stage.blocks, LANES)
            device.leave(mem, (device.block() % lanes) * COUNTER_WORDS + self._plan.counter_word(stage.index, 2))

    def complete_tma_stores(self) -> None:
        """In the thread that has issued them, before post()."""
        self._device.complete_tma_stores()

    def _wait_access(self, wait: Wait, access: tuple[Range, ...], mem: Any, launch: Any, tile: tuple[Any, ...]) -> None:
        assert wait.set is not None
        extents = list(self._plan.stages[wait.producer].grid.values())
        numbers = _OnDevice(self._device, self._stage.grid)
        at = dict(zip(self._stage.grid, tile))
        counts, begins, empty = [], [], []
        for span, group, extent in zip(access, wait.set.groups, extents):
            known = span.counts(self._stage.grid, group, extent)
            begin, end = span.begin.value(at, numbers), span.end.value(at, numbers)
            if span.clamp:
                begin, end = numbers.maximum(begin, 0), numbers.minimum(end, extent)
            begins.append(begin)
            counts.append(max(known) if len(known) == 1 or group.kind == "all" else self._count(group, begin, end))
            if 0 in known:
                empty.append(begin < end)
        most = math.prod(
            max(span.counts(self._stage.grid, group, extent)) for span, group, extent in zip(access, wait.set.groups, extents)
        )
        counts = [numbers.maximum(count, 1) if empty and not isinstance(count, int) else count for count in counts]
        total: Any = 1
        for count in counts:
            total = total * count
        for first in range(0, most, 32):  # the warp's threads side by side
            lane: Any = 0
            if most > 1:
                lane = self._device.lane() + first
                lane = numbers.minimum(lane, total - 1)
            indices = []
            for begin, count, group in zip(begins, counts, wait.set.groups):
                alone = most == 1 or (isinstance(count, int) and count == 1)
                digit = 0 if alone else lane % count
                lane = lane if alone else lane // count
                indices.append(self._group_in(group, begin, digit))
            self._await(wait, indices, mem, launch, tile, empty)

    def _await(
        self, wait: Wait, indices: list[Any], mem: Any, launch: Any, tile: tuple[Any, ...], some: Sequence[Any] = ()
    ) -> None:
        assert wait.set is not None
        producer = self._plan.stages[wait.producer]
        index = self._index(wait.set, producer, indices)
        word = index + (self._plan.semaphore_word + wait.set.first)
        target = (launch + 1) * self._posts_of(wait.set, producer, indices)
        for condition in some:  # of a box without tiles: a word that is 0 for ever
            word, target = self._device.choose(condition, word, ZERO_WORD), self._device.choose(condition, target, 0)
        own, factor = 0, 1
        for at, extent in zip(tile, self._stage.grid.values()):
            own, factor = own + at * factor, factor * extent
        place = self._plan.place_of(self._stage, wait.operand)
        self._device.await_posts(mem, word, target, place, own, index + wait.set.first, self._deadline)

    def _index(self, one: SemaphoreSet, producer: PlannedStage, indices: list[Any]) -> Any:
        index, factor = 0, 1
        for group, extent, at in zip(one.groups, producer.grid.values(), indices):
            index, factor = index + at * factor, factor * group.count(extent)
        return index

    def _posts_of(self, one: SemaphoreSet, producer: PlannedStage, indices: list[Any]) -> Any:
        """How many tiles post to it in one launch."""
        posts: Any = 1
        for group, extent, index in zip(one.groups, producer.grid.values(), indices):
            match group.kind:
                case "all":
                    posts = posts * extent
                case "block" if extent % group.width == 0 or group.width > extent:
                    posts = posts * min(group.width, extent)
                case "block":
                    posts = posts * _OnDevice(self._device, {}).minimum(extent - index * group.width, group.width)
                case "stride" if extent % group.width == 0:
                    posts = posts * (extent // group.width)
                case "stride" if group.width < extent:
                    posts = posts * ((extent - 1 - index) // group.width + 1)
        return posts

    def _group(self, group: Grouping, at: Any) -> Any:
        return {"each": lambda: at, "all": lambda: 0, "block": lambda: at // group.width, "stride": lambda: at % group.width}[
            group.kind
        ]()

    def _group_in(self, group: Grouping, begin: Any, digit: Any) -> Any:
        """The digit-th of the semaphores from that of `begin` on."""
        match group.kind:
            case "all":
                return 0
            case "block":
                return begin // group.width + digit
            case "stride":
                return (begin + digit) % group.width
        return begin + digit

    def _count(self, group: Grouping, begin: Any, end: Any) -> Any:
        match group.kind:
            case "block":
                return (end - 1) // group.width - begin // group.width + 1
            case "stride":
                return _OnDevice(self._device, {}).minimum(end - begin, group.width)
        return end - begin


class _OnDevice(Numbers):
    """Index expressions of what a kernel knows only when it runs, and of plain numbers."""

    def __init__(self, device: Any, grid: Mapping[str, int]):
        self._device, self._grid = device, dict(grid)

    def minimum(self, a: Any, b: Any) -> Any:
        return min(a, b) if isinstance(a, int) and isinstance(b, int) else self._device.choose(a < b, a, b)

    def maximum(self, a: Any, b: Any) -> Any:
        return max(a, b) if isinstance(a, int) and isinstance(b, int) else self._device.choose(a < b, b, a)

    def floor_div(self, a: Any, divisor: int, of: Expression) -> Any:
        """With a multiple of the divisor added before, so that how negative numbers are rounded does not matter."""
        added = max(0, -(of.lowest(self._grid) // divisor))
        return (a + added * divisor) // divisor - added
