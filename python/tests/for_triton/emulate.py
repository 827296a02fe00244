# SPDX-License-Identifier: Apache-2.0
"""Runs generated modules without Triton and without a GPU: every block is a thread, one of which runs at a time.

What a GPU promises and no more: the blocks of a launch start in the order of their index, in as many places as there
are; an early launch begins when every block of the launch before has triggered or left; an ordinary one when all is
complete. Which block goes on is drawn by lot at every call of a synchronizing function. (The orders of memory
accesses are not modelled: they stand in the assembly, which test_triton_compile.py reads.)"""

import itertools
import random
import threading
import types

from tessera._plan import COUNTER_WORDS, LANES, RECORD_WORDS, ZERO_WORD, tiles_of

IMPORTS = "import triton\nimport triton.language as tl\nfrom tessera.triton import sync\n"


def truncated(a, b):
    return abs(a) // b * (1 if a >= 0 else -1)


class Number:
    """A tensor of integers, or one: arithmetic as Triton's, whose // and % round towards zero."""

    def __init__(self, *values):
        self.values = values

    def _with(self, other, make):
        others = other.values if isinstance(other, Number) else (other,)
        width = max(len(self.values), len(others))
        return Number(*(make(self.values[i % len(self.values)], others[i % len(others)]) for i in range(width)))

    def __add__(self, other):
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other):
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other):
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other):
        return self._with(other, lambda a, b: a * b)

    def __floordiv__(self, other):
        return self._with(other, truncated)

    def __mod__(self, other):
        return self._with(other, lambda a, b: a - truncated(a, b) * b)

    def __lt__(self, other):
        return self._with(other, lambda a, b: int(a < b))

    def __and__(self, other):
        return self._with(other, lambda a, b: a & b)

    __radd__, __rmul__ = __add__, __mul__

    def __int__(self):
        assert len(self.values) == 1
        return self.values[0]

    def to(self, _):
        return Number(*((value + 2**31) % 2**32 - 2**31 for value in self.values))


def number(value):
    return value if isinstance(value, Number) else Number(value)


class Stuck(AssertionError):
    pass


class _Left(BaseException):
    """The emulation is over; leave the block's thread."""


class Machine:
    """Runs launches of a plan (a ChainPlan) with the functions of its module's text."""

    def __init__(self, plan, text, seed, places=7, epoch=0):
        self.plan, self.random, self.places = plan, random.Random(seed), places
        self.local = threading.local()
        self.mem = [0] * (plan.words + 2)
        self.mem[plan.semaphore_word + plan.semaphores : plan.words] = plan.tables()
        self.written = {}  # (stage, tile): number of the launch
        self._set_epoch(epoch)
        assert IMPORTS in text
        self.module = types.SimpleNamespace()
        names = {"triton": types.SimpleNamespace(jit=lambda function: function), "tl": self._language(), "sync": self._sync()}
        exec(text.replace(IMPORTS, ""), names)
        self.functions = names

    def _set_epoch(self, epoch):
        """As after so many launches."""
        for stage in self.plan.stages:
            self.mem[self.plan.counter_word(stage.index, 0)] = epoch * stage.blocks
            for lane in range(min(stage.blocks, LANES)):
                blocks = len(range(lane, stage.blocks, LANES))
                self.mem[self.plan.counter_word(stage.index, 2) + COUNTER_WORDS * lane] = epoch * blocks
            for one in stage.posts:
                for tile in tiles_of(stage.grid):
                    at = self.plan.semaphore_word + one.first + semaphore_of(one, stage, tile)
                    self.mem[at] = (self.mem[at] + epoch) % 2**32
        self.launches = epoch

    def _language(self):
        return types.SimpleNamespace(
            constexpr=lambda value: value, int32=None, program_id=lambda axis: Number(self.local.block),
            arange=lambda begin, end: Number(*range(begin, end)),
            where=lambda c, a, b: (number(c) * number(a)) + (1 - number(c)) * number(b),
            minimum=lambda a, b: number(a)._with(b, min), maximum=lambda a, b: number(a)._with(b, max),
            debug_barrier=self._go_on,
        )  # fmt: skip

    def _sync(self):
        def draw(mem, word):
            self._go_on()
            mem[int(number(word))] += 1
            return Number(mem[int(number(word))] - 1)

        def read(mem, word):
            self._go_on()
            return Number(mem[int(number(word))])

        def leave(mem, word):
            self._go_on()
            mem[int(number(word))] += 1

        def post_add(mem, word):
            self._go_on()
            at = int(number(word))
            assert self.plan.semaphore_word <= at < self.plan.semaphore_word + self.plan.semaphores
            mem[at] = (mem[at] + 1) % 2**32
            self.local.posted = True

        def post_store(mem, word, value):
            self._go_on()
            mem[int(number(word))] = int(number(value)) % 2**32

        def await_posts(mem, words, targets, place, tile, semaphores, deadline):
            self._until(lambda: all(
                at == ZERO_WORD or (mem[at] - target) % 2**32 < 2**31
                for at, target in zip((number(words) + Number(*[0] * len(number(targets).values))).values,
                                      (number(targets) + Number(*[0] * len(number(words).values))).values)
            ), f"place {place}, tile {int(number(tile))}")  # fmt: skip
            assert mem[ZERO_WORD] == 0 and all(at == ZERO_WORD or at >= RECORD_WORDS for at in number(words).values)

        def grid_wait(place):
            stage = self.local.stage
            self._until(lambda: self.complete[stage - 1], "the launches before")

        def trigger():
            self._go_on()
            self.triggered[self.local.stage] += 0 if self.local.has_triggered else 1
            self.local.has_triggered = True

        return types.SimpleNamespace(
            draw=draw, left=read, load_word=read, leave=leave, post_add=post_add, post_store=post_store, await_posts=await_posts,
            grid_wait=grid_wait, trigger=trigger, fence_for_tma=lambda: None, complete_tma_stores=lambda: None,
            floor_div=lambda a, n: number(a)._with(n, lambda p, q: p // q), modulo=lambda a, n: number(a)._with(n, lambda p, q: p % q),
        )  # fmt: skip

    # One thread runs at a time: it holds the baton, and hands it to whom the lot names.

    def _go_on(self):
        self._until(lambda: True, "")

    def _until(self, condition, what):
        me = self.local.ticket
        self.waiting[me] = (condition, what)
        self._hand_on()
        self.batons[me].acquire()
        if self.over:
            raise _Left

    def _hand_on(self):
        ready = [ticket for ticket, (condition, _) in self.waiting.items() if condition()]
        if not ready:
            if self.waiting:
                self.over = f"stuck: {sorted({what for _, what in self.waiting.values()})}"
                for ticket in self.waiting:
                    self.batons[ticket].release()
            self.done.release() if not self.waiting or self.over else None
            return
        chosen = self.random.choice(ready)
        del self.waiting[chosen]
        self.batons[chosen].release()

    def launch(self, body):
        """All stages once. `body(machine, stage, x, y, launch)` is the kernel between start and post."""
        stages = self.plan.stages
        self.triggered, self.started, self.left = [0] * len(stages), [0] * len(stages), [0] * len(stages)
        self.complete = [False] * len(stages)
        self.resident, self.over, self.done = 0, "", threading.Semaphore(0)
        self.waiting, self.batons, self.faults = {}, {}, []

        def may_begin(stage, block):
            def condition():
                if self.started[stage.index] != block or self.resident >= self.places:
                    return False
                if stage.index == 0:
                    return True
                before = stages[stage.index - 1]
                if not stage.early:
                    return self.complete[before.index]
                return self.triggered[before.index] == before.blocks

            return condition

        threads = []
        for stage in stages:
            for block in range(stage.blocks):
                ticket = (stage.index, block)
                self.batons[ticket] = threading.Semaphore(0)
                self.waiting[ticket] = (may_begin(stage, block), f"start of {stage.name}")
                threads.append(threading.Thread(target=self._block, args=(stage, block, ticket, body)))
        for thread in threads:
            thread.start()
        self._hand_on()
        self.done.acquire()
        for thread in threads:
            thread.join()
        if self.faults:
            raise self.faults[0]
        if self.over:
            raise Stuck(self.over)
        self.launches += 1

    def _block(self, stage, block, ticket, body):
        self.local.ticket, self.local.stage, self.local.block, self.local.has_triggered = ticket, stage.index, block, False
        self.batons[ticket].acquire()
        try:
            if self.over:
                return
            self.started[stage.index] += 1
            self.resident += 1
            *at, launch = self.functions[f"start_{stage.name}"](self.mem)
            body(self, stage, at, launch)
            self.functions[f"post_{stage.name}"](self.mem, launch, *at)
        except _Left:
            return
        except BaseException as fault:  # the test's own thread raises it
            self.faults.append(fault)
        self.resident -= 1
        if not self.local.has_triggered:  # leaving triggers, too
            self.triggered[stage.index] += 1
        self.left[stage.index] += 1
        done = [self.left[one.index] == one.blocks for one in self.plan.stages]
        self.complete = [all(done[: i + 1]) for i in range(len(done))]
        self._hand_on()


def semaphore_of(one, stage, tile):
    """Of the set, by the definition of DimensionMap."""
    index, factor = 0, 1
    for group, (name, extent) in zip(one.groups, stage.grid.items()):
        at = tile[name]
        index += factor * {"each": at, "all": 0, "block": at // group.width, "stride": at % group.width}[group.kind]
        factor *= group.count(extent)
    return index


def reading(machine, stage, at, launch):
    """A kernel that holds all that it reads to this launch, waiting for all at once or for tiles one by one."""
    tile = dict(zip(stage.grid, map(int, at)))
    number_of_launch = machine.launches
    if stage.needs_launch:
        assert (int(launch) - number_of_launch) % 2**32 == 0, (
            f"{stage.name} believes in launch {int(launch)}, not {number_of_launch}"
        )
    for operand in dict.fromkeys(wait.operand for wait in stage.waits):
        waits = [wait for wait in stage.waits if wait.operand == operand]
        one_by_one = len(waits) == 1 and machine.random.random() < 0.5
        if not one_by_one:
            machine.functions[f"wait_{stage.name}_{operand}"](machine.mem, launch, *at)
        for wait in waits:
            for box in boxes(machine.plan, wait, tile):
                if one_by_one:
                    machine.functions[f"wait_tile_{stage.name}_{operand}"](machine.mem, launch, *at, *map(Number, box))
                assert machine.written.get((wait.producer, box)) == number_of_launch, (
                    f"{stage.name}{tile} reads {box} too early"
                )
    for _ in range(machine.random.randrange(12)):  # what it computes
        machine._go_on()
    key = (stage.index, tuple(tile.values()))
    assert machine.written.get(key) != number_of_launch, f"{key} twice"
    machine.written[key] = number_of_launch


def boxes(plan, wait, tile):
    """The producer's tiles that a tile reads."""
    extents = list(plan.stages[wait.producer].grid.values())
    for access in wait.accesses:
        spans = [span.at(tile, extent) for span, extent in zip(access, extents)]
        yield from itertools.product(*(range(*span) for span in spans))
