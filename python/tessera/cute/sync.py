# SPDX-License-Identifier: Apache-2.0
"""What stage.py is made of, in CuTe DSL: loads, adds and a wait with a deadline, each for the thread that calls it.

The protocol is that of tessera/sync.cuh (docs/sync.md): counters only count up, a wait is for (launch + 1) times the
posts of one launch, and nothing is reset. `mem` is the chain's memory (_plan.py), `word` a place in it in 32-bit words."""

import cutlass
from cutlass import Int32, Int64, cute


@cute.jit
def await_posts(
    mem: cute.Pointer,
    word: Int32,
    target: Int32,
    place: cutlass.Constexpr,
    tile: Int32,
    semaphore: Int32,
    deadline: cutlass.Constexpr,
):
    """Until the semaphore has reached its target; or until the deadline, or another wait's: then writes the record."""
    polls = Int32(0)
    since = Int64(0)
    seen = cute.arch.load(mem + word, Int32, sem="acquire", scope="gpu")
    waiting = seen - target < 0
    while waiting:
        polls += 1
        if polls % 8 == 0:
            if cute.arch.load(mem, Int32, sem="acquire", scope="gpu") != 0:
                waiting = cutlass.Boolean(False)
            else:
                now = cute.arch.globaltimer()
                if polls == 8:
                    since = now
                if now - since >= deadline:
                    if cute.arch.atomic_cas(mem, cmp=Int32(0), val=Int32(1), sem="relaxed", scope="gpu") == 0:
                        waited = now - since
                        cute.arch.store(mem + 1, Int32(place))
                        cute.arch.store(mem + 2, tile)
                        cute.arch.store(mem + 3, semaphore)
                        cute.arch.store(mem + 4, seen)
                        cute.arch.store(mem + 5, target)
                        cute.arch.store(mem + 6, Int32(waited & 0xFFFFFFFF))
                        cute.arch.store(mem + 7, Int32(waited >> 32))
                        cute.arch.store(mem, Int32(2), sem="release", scope="sys")
                    waiting = cutlass.Boolean(False)
        if waiting:
            seen = cute.arch.load(mem + word, Int32, sem="acquire", scope="gpu")
            waiting = seen - target < 0


def counter_at(mem, word):
    return cute.recast_ptr(mem + word, dtype=Int64)


def block():
    return cute.arch.block_idx()[0]


def lane():
    return cute.arch.lane_idx()


def left(mem, word):
    """How many blocks of a lane have left, in all launches."""
    return cute.arch.load(counter_at(mem, word), Int64, sem="relaxed", scope="gpu")


def leave(mem, word):
    """Counts this block in its lane."""
    cute.arch.red(counter_at(mem, word), Int64(1), op="add", dtype="u64", sem="relaxed", scope="gpu")


def post_add(mem, word):
    cute.arch.red(mem + word, Int32(1), op="add", dtype="u32", sem="release", scope="gpu")


def post_store(mem, word, value):
    cute.arch.store(mem + word, Int32(value), sem="release", scope="gpu")


def trigger():
    cute.arch.griddepcontrol_launch_dependents()


def grid_wait():
    cute.arch.griddepcontrol_wait()


def fence_for_tma():
    cute.arch.fence_proxy("async.global")


def complete_tma_stores():
    """Until this thread's stores by TMA have been written, not only read."""
    cute.arch.cp_async_bulk_wait_group(0, read=False)
    cute.arch.fence_proxy("async.global")


def sync_warp():
    cute.arch.sync_warp()


def sync_threads():
    cute.arch.sync_threads()


@cute.jit
def by_first_thread(work: cutlass.Constexpr):
    if cute.arch.thread_idx()[0] == 0:
        work()


def choose(condition, a, b):
    return cutlass.select_(condition, Int32(a), Int32(b))


def to_int32(value):
    return Int32(value)
