# SPDX-License-Identifier: Apache-2.0
"""What generated modules are made of: tickets, epochs, waits and posts, for all threads of a Triton program.

The protocol is that of tessera/sync.cuh (docs/sync.md): counters only count up, a wait is for (launch + 1) times the
posts of one launch, and nothing is reset. `mem` is the chain's memory (_plan.py), `word` a place in it in 32-bit words.

Each line of assembly names its state space, scope and order, and holds its own predicate: Triton runs it in every
thread. "~{memory}" keeps the compiler from moving memory accesses over it. Whether Triton itself has moved a load
in front of a wait is for lint.py to say.
"""

import triton
import triton.language as tl

_WAIT: tl.constexpr = tl.constexpr("""{
.reg .pred p;
.reg .b32 seen, behind, polls, state;
.reg .b64 since, now;
mov.u32 polls, 0;
mov.u64 since, 0;
again:
ld.acquire.gpu.global.u32 seen, [$1];
sub.s32 behind, seen, $2;
setp.ge.s32 p, behind, 0;
@p bra met;
add.u32 polls, polls, 1;
and.b32 state, polls, 7;
setp.ne.u32 p, state, 0;
@p bra again;
ld.acquire.gpu.global.u32 state, [$3];
setp.ne.u32 p, state, 0;
@p bra met;
mov.u64 now, %globaltimer;
setp.eq.u32 p, polls, 8;
@p mov.u64 since, now;
sub.u64 now, now, since;
setp.lt.u64 p, now, $7;
@p bra again;
atom.relaxed.gpu.global.cas.b32 state, [$3], 0, 1;
setp.ne.u32 p, state, 0;
@p bra met;
st.global.u32 [$3+4], $4;
st.global.u32 [$3+8], $5;
st.global.u32 [$3+12], $6;
st.global.u32 [$3+16], seen;
st.global.u32 [$3+20], $2;
st.global.u64 [$3+24], now;
st.release.sys.global.u32 [$3], 2;
met:
mov.u32 $0, 0;
}""")
_PER_BLOCK: tl.constexpr = tl.constexpr("""{
.reg .pred p;
.reg .b32 thread;
mov.u32 thread, %tid.x;
setp.eq.u32 p, thread, 0;
""")
_ADD: tl.constexpr = tl.constexpr(
    _PER_BLOCK.value
    + """@p red.release.gpu.global.add.u32 [$1], 1;
mov.u32 $0, 0;
}"""
)
_STORE: tl.constexpr = tl.constexpr(
    _PER_BLOCK.value
    + """@p st.release.gpu.global.u32 [$1], $2;
mov.u32 $0, 0;
}"""
)
_LEAVE: tl.constexpr = tl.constexpr(
    _PER_BLOCK.value
    + """@p red.relaxed.gpu.global.add.u64 [$1], 1;
mov.u32 $0, 0;
}"""
)


@triton.jit
def floor_div(a, n):
    """Rounded down, as in Python; Triton's own // rounds towards zero."""
    quotient = a // n
    return quotient - ((a - quotient * n) < 0).to(tl.int32)


@triton.jit
def modulo(a, n):
    return a - floor_div(a, n) * n


@triton.jit
def counter_at(mem, word):
    return (mem + word).to(tl.pointer_type(tl.int64))


@triton.jit
def load_word(mem, word):
    """A word that no kernel writes."""
    return tl.load(mem + word)


@triton.jit
def draw(mem, word):
    """A ticket: how many blocks have drawn before, in all launches."""
    return tl.atomic_add(counter_at(mem, word), 1, sem="relaxed", scope="gpu")


@triton.jit
def left(mem, word):
    """How many blocks of a lane have left, in all launches."""
    return tl.inline_asm_elementwise(
        "ld.relaxed.gpu.global.u64 $0, [$1];", "=l,l,~{memory}", [counter_at(mem, word)], dtype=tl.int64, is_pure=False, pack=1
    )


@triton.jit
def leave(mem, word):
    """Counts this block in its lane."""
    tl.inline_asm_elementwise(_LEAVE, "=r,l,~{memory}", [counter_at(mem, word)], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def trigger():
    """Lets the next kernel start."""
    tl.inline_asm_elementwise(
        "griddepcontrol.launch_dependents; mov.u32 $0, 0;", "=r,~{memory}", [], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def grid_wait(place: tl.constexpr):
    """Until the kernels before are complete."""
    tl.inline_asm_elementwise(
        "griddepcontrol.wait; mov.u32 $0, $1;", "=r,r,~{memory}", [place], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def fence_for_tma():
    """Between this thread's ordinary accesses and those by TMA."""
    tl.inline_asm_elementwise(
        "fence.proxy.async.global; mov.u32 $0, 0;", "=r,~{memory}", [], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def await_posts(mem, words, targets, place: tl.constexpr, tile, semaphores, deadline: tl.constexpr):
    """Until the semaphores at `words` have reached their targets: each thread polls its own, and a scalar by all."""
    tl.inline_asm_elementwise(
        _WAIT,
        "=r,l,r,l,r,r,r,l,~{memory}",
        [mem + words, targets, mem, place, tile, semaphores, tl.full((), deadline, tl.int64)],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def complete_tma_stores():
    """Until this thread's stores by TMA have been written, not only read, and other proxies see them."""
    tl.inline_asm_elementwise(
        "cp.async.bulk.wait_group 0; fence.proxy.async.global; mov.u32 $0, 0;",
        "=r,~{memory}",
        [],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def post_add(mem, word):
    """One more post, after all that the block's threads have stored before the last barrier."""
    tl.inline_asm_elementwise(_ADD, "=r,l,~{memory}", [mem + word], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def post_store(mem, word, value):
    """The only post of this launch: the semaphore becomes `value`."""
    tl.inline_asm_elementwise(_STORE, "=r,l,r,~{memory}", [mem + word, value], dtype=tl.int32, is_pure=False, pack=1)
