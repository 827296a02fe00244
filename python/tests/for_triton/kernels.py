# SPDX-License-Identifier: Apache-2.0
"""GEMMs that wait in right and in wrong places. `wait` and the like are functions of a generated module."""

import triton
import triton.language as tl

BEFORE: tl.constexpr = tl.constexpr(0)
INSIDE: tl.constexpr = tl.constexpr(1)
INSIDE_UNPIPELINED: tl.constexpr = tl.constexpr(2)
OUTER_LOOP: tl.constexpr = tl.constexpr(3)
NOWHERE: tl.constexpr = tl.constexpr(4)
SOMETIMES: tl.constexpr = tl.constexpr(5)
FIRST_THEN_INSIDE: tl.constexpr = tl.constexpr(6)
AFTER: tl.constexpr = tl.constexpr(7)
BOTH_LOOPS: tl.constexpr = tl.constexpr(8)
OWN_POLL: tl.constexpr = tl.constexpr(9)
TOKEN: tl.constexpr = tl.constexpr(10)
ATOMIC_POLL: tl.constexpr = tl.constexpr(11)
LOOP_OF_WAITS: tl.constexpr = tl.constexpr(12)


@triton.jit
def gemm(
    a, b, c, mem, K, start: tl.constexpr, wait: tl.constexpr, wait_tile: tl.constexpr, post: tl.constexpr, WHERE: tl.constexpr,
    N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    """c = a b, where another stage has written `a` in tiles of TILE columns."""
    x, y, launch = start(mem)
    rows = y * BM + tl.arange(0, BM)
    columns = x * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    at = a + rows[:, None] * K + depth[None, :]
    bt = b + depth[:, None] * N + columns[None, :]
    sum = tl.zeros((BM, BN), dtype=tl.float32)
    if WHERE == BEFORE:
        wait(mem, launch, x, y)
    if WHERE == SOMETIMES:
        if y > 0:
            wait(mem, launch, x, y)
    if WHERE == FIRST_THEN_INSIDE:
        wait_tile(mem, launch, x, y, 0, y)
    if WHERE == LOOP_OF_WAITS:
        for tile in range(0, K // TILE):
            wait_tile(mem, launch, x, y, tile, y)
    if WHERE == OUTER_LOOP:
        for tile in range(0, K // TILE):
            wait_tile(mem, launch, x, y, tile, y)
            for k in range(0, TILE, BK):
                sum = tl.dot(tl.load(at), tl.load(bt), sum)
                at += BK
                bt += BK * N
    elif WHERE == BOTH_LOOPS:
        for tile in range(0, K // TILE):
            for k in range(0, TILE, BK):
                wait_tile(mem, launch, x, y, tile, y)
                sum = tl.dot(tl.load(at), tl.load(bt), sum)
                at += BK
                bt += BK * N
    elif WHERE == INSIDE_UNPIPELINED:
        for k in tl.range(0, K, BK, num_stages=1):
            wait_tile(mem, launch, x, y, k // TILE, y)
            sum = tl.dot(tl.load(at), tl.load(bt), sum)
            at += BK
            bt += BK * N
    else:
        for k in range(0, K, BK):
            if WHERE == INSIDE or WHERE == FIRST_THEN_INSIDE:
                wait_tile(mem, launch, x, y, k // TILE, y)
            if WHERE == OWN_POLL:
                while tl.atomic_add(mem + 4000 + k // TILE, 0, sem="acquire", scope="gpu") <= launch:
                    pass
            if WHERE == ATOMIC_POLL:
                tl.atomic_poll(mem + 4000 + k // TILE, launch + 1, sem="acquire", scope="gpu")
            token = 0
            if WHERE == TOKEN:
                token = tl.inline_asm_elementwise(
                    "ld.acquire.gpu.global.u32 $0, [$1]; mov.u32 $0, 0;", "=r,l,~{memory}", [mem + 4000 + k // TILE],
                    dtype=tl.int32, is_pure=False, pack=1,
                )  # fmt: skip
            sum = tl.dot(tl.load(at + token), tl.load(bt), sum)
            at += BK
            bt += BK * N
    tl.store(c + rows[:, None] * N + columns[None, :], sum.to(c.dtype.element_ty))
    if WHERE == AFTER:
        wait(mem, launch, x, y)
    post(mem, launch, x, y)


@triton.jit
def gemm_tma(
    a, b, c, mem, K, start: tl.constexpr, wait: tl.constexpr, wait_tile: tl.constexpr, post: tl.constexpr, INSIDE: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """The same with descriptors that the kernel makes, loads and stores by TMA."""
    x, y, launch = start(mem)
    a_tiles = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    b_tiles = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    c_tiles = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    sum = tl.zeros((BM, BN), dtype=tl.float32)
    if not INSIDE:
        wait(mem, launch, x, y)
    for k in range(0, K, BK):
        if INSIDE:
            wait_tile(mem, launch, x, y, k // 128, y)
        sum = tl.dot(a_tiles.load([y * BM, k]), b_tiles.load([k, x * BN]), sum)
    c_tiles.store([y * BM, x * BN], sum.to(tl.float16))
    post(mem, launch, x, y)


@triton.jit
def gemm_host_tma(
    a, b, c, mem, K, start: tl.constexpr, wait: tl.constexpr, post: tl.constexpr, INSIDE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """The same with descriptors from the host."""
    x, y, launch = start(mem)
    sum = tl.zeros((BM, BN), dtype=tl.float32)
    if not INSIDE:
        wait(mem, launch, x, y)
    for k in range(0, K, BK):
        if INSIDE:
            wait(mem, launch, x, y)
        sum = tl.dot(a.load([y * BM, k]), b.load([k, x * BN]), sum)
    c.store([y * BM, x * BN], sum.to(tl.float16))
    post(mem, launch, x, y)


@triton.jit
def softmax(
    s,
    p,
    mem,
    start: tl.constexpr,
    wait: tl.constexpr,
    post: tl.constexpr,
    ROWS: tl.constexpr,
    N: tl.constexpr,
    WAITS: tl.constexpr,
):
    """A row softmax: ROWS rows a block, of N columns."""
    y, launch = start(mem)
    columns = tl.arange(0, N)
    if WAITS:
        wait(mem, launch, y)
    for i in range(ROWS):
        at = (y * ROWS + i) * N + columns
        row = tl.load(s + at).to(tl.float32)
        row = tl.exp(row - tl.max(row, axis=0))
        tl.store(p + at, (row / tl.sum(row, axis=0)).to(tl.float16))
    post(mem, launch, y)


@triton.jit
def early_out(a, c, mem, start: tl.constexpr, wait: tl.constexpr, post: tl.constexpr, N: tl.constexpr, SAFE: tl.constexpr):
    """Leaves on one path: a block that does not post."""
    x, y, launch = start(mem)
    columns = tl.arange(0, N)
    wait(mem, launch, x, y)
    if x > 5:
        if SAFE:
            post(mem, launch, x, y)
        return
    tl.store(c + columns, tl.load(a + columns))
    post(mem, launch, x, y)


@triton.jit
def late_store(a, c, mem, start: tl.constexpr, wait: tl.constexpr, post: tl.constexpr, N: tl.constexpr):
    x, y, launch = start(mem)
    columns = tl.arange(0, N)
    wait(mem, launch, x, y)
    row = tl.load(a + columns)
    post(mem, launch, x, y)
    tl.store(c + columns, row)


@triton.jit
def touch(p, q, mem, start: tl.constexpr, waits: tl.constexpr, post: tl.constexpr, RANK: tl.constexpr):
    """Start, waits and post of any stage."""
    if RANK == 1:
        x, launch = start(mem)
        for i in tl.static_range(len(waits)):
            waits[i](mem, launch, x)
        tl.store(q + x, tl.load(p + x))
        post(mem, launch, x)
    else:
        x, y, launch = start(mem)
        for i in tl.static_range(len(waits)):
            waits[i](mem, launch, x, y)
        tl.store(q + x, tl.load(p + x))
        post(mem, launch, x, y)


@triton.jit
def no_wait(mem, launch, x, y):
    pass


@triton.jit
def post_in_loop(a, c, mem, start: tl.constexpr, wait: tl.constexpr, post: tl.constexpr, N: tl.constexpr, TIMES):
    x, y, launch = start(mem)
    columns = tl.arange(0, N)
    wait(mem, launch, x, y)
    for i in range(TIMES):
        tl.store(c + i * N + columns, tl.load(a + i * N + columns))
        post(mem, launch, x, y)
