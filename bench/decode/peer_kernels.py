# SPDX-License-Identifier: Apache-2.0
"""A token by launches, as strong as it is made of ready parts: each product by cuBLAS or cuBLASLt, or by a Triton kernel
with what is around it (RMSNorm before, SwiGLU or the residual behind); rotation and cache by one kernel; cached
tokens split over the SMs and put together by another, or torch's attention; the next token and its embedding by two.
Triton's kernels may start before the one ahead of them has ended (programmatic dependent launch), and those for one
token load weights meanwhile.

Everything that changes is in device memory, so that one graph serves all steps."""
import math

import torch
import triton
import triton.language as tl


@triton.jit
def _begin(PDL: tl.constexpr):
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()


@triton.jit
def vector_product(x, w, gain, add, out, N, eps, K: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
                   NORM: tl.constexpr, PAIR: tl.constexpr, ADD: tl.constexpr, PDL: tl.constexpr):
    """Of one token. PAIR: rows N further on are those of `up`."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    there = (rows < N)[:, None]
    at = w + rows[:, None].to(tl.int64) * K + columns[None, :]
    other_at = at + N.to(tl.int64) * K
    weights = tl.load(at, mask=there, other=0.0)
    if PAIR:
        others = tl.load(other_at, mask=there, other=0.0)
    _begin(PDL)
    xs = tl.load(x + columns).to(tl.float32)
    squares = xs * xs
    if NORM:
        xs *= tl.load(gain + columns).to(tl.float32)
    sums = weights.to(tl.float32) * xs[None, :]
    if PAIR:
        other_sums = others.to(tl.float32) * xs[None, :]
    for k in range(BLOCK, K, BLOCK):
        weights = tl.load(at + k, mask=there, other=0.0)
        xs = tl.load(x + k + columns).to(tl.float32)
        squares += xs * xs
        if NORM:
            xs *= tl.load(gain + k + columns).to(tl.float32)
        sums += weights.to(tl.float32) * xs[None, :]
        if PAIR:
            others = tl.load(other_at + k, mask=there, other=0.0)
            other_sums += others.to(tl.float32) * xs[None, :]
    scale = 1.0
    if NORM:
        scale = tl.rsqrt(tl.sum(squares, 0) / K + eps)
    total = tl.sum(sums, 1) * scale
    if PAIR:
        total = total * tl.sigmoid(total) * (tl.sum(other_sums, 1) * scale)
    if ADD:
        total += tl.load(add + rows, mask=rows < N, other=0.0).to(tl.float32)
    tl.store(out + rows, total.to(out.dtype.element_ty), mask=rows < N)


@triton.jit
def matrix_product(x, w, gain, add, out, tokens, N, eps, K: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
                   TOKENS: tl.constexpr, NORM: tl.constexpr, PAIR: tl.constexpr, ADD: tl.constexpr,
                   PDL: tl.constexpr):
    """Of several tokens, by the tensor cores: rows of weights by tokens."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    token = tl.arange(0, TOKENS)
    columns = tl.arange(0, BLOCK)
    there = (rows < N)[:, None]
    at = w + rows[:, None].to(tl.int64) * K + columns[None, :]
    other_at = at + N.to(tl.int64) * K
    x_at = x + token[None, :] * K + columns[:, None]
    _begin(PDL)
    sums = tl.zeros([ROWS, TOKENS], tl.float32)
    other_sums = tl.zeros([ROWS, TOKENS], tl.float32)
    squares = tl.zeros([TOKENS], tl.float32)
    for k in range(0, K, BLOCK):
        weights = tl.load(at + k, mask=there, other=0.0)
        xs = tl.load(x_at + k, mask=(token < tokens)[None, :], other=0.0)
        if NORM:
            exact = xs.to(tl.float32)
            squares += tl.sum(exact * exact, 0)
            xs = (exact * tl.load(gain + k + columns).to(tl.float32)[:, None]).to(weights.dtype)
        sums = tl.dot(weights, xs, sums, input_precision="ieee")
        if PAIR:
            others = tl.load(other_at + k, mask=there, other=0.0)
            other_sums = tl.dot(others, xs, other_sums, input_precision="ieee")
    if NORM:
        scale = tl.rsqrt(squares / K + eps)[None, :]
        sums *= scale
        other_sums *= scale
    if PAIR:
        sums = sums * tl.sigmoid(sums) * other_sums
    to = token[None, :] * N + rows[:, None]
    mask = there & (token < tokens)[None, :]
    if ADD:
        sums += tl.load(add + to, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + to, sums.to(out.dtype.element_ty), mask=mask)


@triton.jit
def norm(x, gain, out, eps, K: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr):
    _begin(PDL)
    columns = tl.arange(0, BLOCK)
    mask = columns < K
    row = tl.program_id(0) * K
    xs = tl.load(x + row + columns, mask=mask, other=0.0).to(tl.float32)
    xs *= tl.rsqrt(tl.sum(xs * xs, 0) / K + eps)
    xs *= tl.load(gain + columns, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + row + columns, xs.to(out.dtype.element_ty), mask=mask)


@triton.jit
def swiglu(gate_up, out, N, BLOCK: tl.constexpr, PDL: tl.constexpr):
    _begin(PDL)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < N
    row = tl.program_id(0)
    gate = tl.load(gate_up + row * 2 * N + columns, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * N + N + columns, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + row * N + columns, (gate * tl.sigmoid(gate) * up).to(out.dtype.element_ty), mask=mask)


@triton.jit
def turn(qkv, queries, keys, values, cosines, sines, lengths, capacity, HEADS: tl.constexpr, KV: tl.constexpr,
         SIZE: tl.constexpr, PDL: tl.constexpr):
    """Turns queries and keys by the position, half by half, and puts keys and values into the cache."""
    HALF: tl.constexpr = SIZE // 2
    _begin(PDL)
    sequence = tl.program_id(0)
    head = tl.program_id(1)
    half = tl.arange(0, HALF)
    position = tl.load(lengths + sequence)
    at = qkv + (sequence * (HEADS + 2 * KV) + head) * SIZE + half
    low = tl.load(at).to(tl.float32)
    high = tl.load(at + HALF).to(tl.float32)
    if head < HEADS + KV:
        c = tl.load(cosines + position * HALF + half)
        s = tl.load(sines + position * HALF + half)
        turned = low * c - high * s
        high = high * c + low * s
        low = turned
    if head < HEADS:
        to = queries + (sequence * HEADS + head) * SIZE + half
    elif head < HEADS + KV:
        to = keys + ((sequence * KV + head - HEADS).to(tl.int64) * capacity + position) * SIZE + half
    else:
        to = values + ((sequence * KV + head - HEADS - KV).to(tl.int64) * capacity + position) * SIZE + half
    tl.store(to, low.to(queries.dtype.element_ty))
    tl.store(to + HALF, high.to(queries.dtype.element_ty))


@triton.jit
def attend(queries, keys, values, lengths, parts, logs, out, capacity, scale, HEADS: tl.constexpr, KV: tl.constexpr,
           ROWS: tl.constexpr, SIZE: tl.constexpr, SPLITS: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr):
    """A part of the cached tokens, for the queries of one key head. `scale` is by log2(e): powers are of 2."""
    GROUP: tl.constexpr = HEADS // KV
    _begin(PDL)
    sequence = tl.program_id(0) // KV
    kv = tl.program_id(0) % KV
    split = tl.program_id(1)
    count = tl.load(lengths + sequence) + 1
    each = tl.cdiv(tl.cdiv(count, SPLITS), BLOCK) * BLOCK
    begin = split * each
    end = tl.minimum(begin + each, count)
    row = tl.arange(0, ROWS)
    column = tl.arange(0, SIZE)
    token = tl.arange(0, BLOCK)
    head = sequence * HEADS + kv * GROUP + row
    mine = row < GROUP
    query = tl.load(queries + head[:, None] * SIZE + column[None, :], mask=mine[:, None], other=0.0)
    first = (sequence * KV + kv).to(tl.int64) * capacity
    largest = tl.full([ROWS], float("-inf"), tl.float32)
    weight = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, SIZE], tl.float32)
    for start in range(begin, end, BLOCK):
        at = start + token
        there = at < end
        key = tl.load(keys + (first + at)[None, :] * SIZE + column[:, None], mask=there[None, :], other=0.0)
        score = tl.dot(query, key, input_precision="ieee") * scale
        score = tl.where(there[None, :], score, float("-inf"))
        now = tl.maximum(largest, tl.max(score, 1))
        power = tl.exp2(score - now[:, None])
        before = tl.exp2(largest - now)
        weight = weight * before + tl.sum(power, 1)
        value = tl.load(values + (first + at)[:, None] * SIZE + column[None, :], mask=there[:, None], other=0.0)
        sums = tl.dot(power.to(value.dtype), value, sums * before[:, None], input_precision="ieee")
        largest = now
    weight_or_1 = tl.where(weight > 0, weight, 1.0)
    result = sums / weight_or_1[:, None]
    if SPLITS == 1:
        tl.store(out + head[:, None] * SIZE + column[None, :], result.to(out.dtype.element_ty), mask=mine[:, None])
    else:
        to = head * SPLITS + split
        tl.store(parts + to[:, None] * SIZE + column[None, :], result, mask=mine[:, None])
        tl.store(logs + to, largest + tl.log2(weight_or_1), mask=mine)


@triton.jit
def put_together(parts, logs, out, SIZE: tl.constexpr, SPLITS: tl.constexpr, PDL: tl.constexpr):
    _begin(PDL)
    head = tl.program_id(0)
    split = tl.arange(0, SPLITS)
    column = tl.arange(0, SIZE)
    log = tl.load(logs + head * SPLITS + split)
    weight = tl.exp2(log - tl.max(log, 0))
    part = tl.load(parts + (head * SPLITS + split)[:, None] * SIZE + column[None, :])
    result = tl.sum(part * weight[:, None], 0) / tl.sum(weight, 0)
    tl.store(out + head * SIZE + column, result.to(out.dtype.element_ty))


@triton.jit
def best_of_piece(logits, best, which, N, PIECES, BLOCK: tl.constexpr, PDL: tl.constexpr):
    _begin(PDL)
    sequence = tl.program_id(0)
    piece = tl.program_id(1)
    at = piece * BLOCK + tl.arange(0, BLOCK)
    found = tl.load(logits + sequence.to(tl.int64) * N + at, mask=at < N, other=float("-inf")).to(tl.float32)
    largest = tl.max(found, 0)
    tl.store(best + sequence * PIECES + piece, largest)
    tl.store(which + sequence * PIECES + piece, tl.min(tl.where(found == largest, at, 2147483647), 0))


@triton.jit
def next_token(best, which, ids, lengths, embedding, x, PIECES, K: tl.constexpr, BLOCK: tl.constexpr,
               WIDTH: tl.constexpr, PDL: tl.constexpr):
    """The token of the largest logit, of equal ones the lowest; its embedding begins the next step."""
    _begin(PDL)
    sequence = tl.program_id(0)
    piece = tl.arange(0, BLOCK)
    found = tl.load(best + sequence * PIECES + piece, mask=piece < PIECES, other=float("-inf"))
    of = tl.load(which + sequence * PIECES + piece, mask=piece < PIECES, other=2147483647)
    token = tl.min(tl.where(found == tl.max(found, 0), of, 2147483647), 0)
    tl.store(ids + sequence, token)
    tl.store(lengths + sequence, tl.load(lengths + sequence) + 1)
    column = tl.arange(0, WIDTH)
    row = tl.load(embedding + token.to(tl.int64) * K + column, mask=column < K, other=0.0)
    tl.store(x + sequence * K + column, row, mask=column < K)


PIECE = 1024  # logits of a program that looks for the largest
BLAS = ("cublas", "cublaslt")  # torch asks each for its first choice
# Rows of weights to a program, how much of a row at once, warps: for one token, and for several.
FOR_ONE = ((2, 2048, 4), (4, 1024, 4), (8, 512, 4), (4, 2048, 8), (16, 256, 4))
FOR_SEVERAL = ((16, 256, 4), (32, 128, 4), (64, 128, 4), (64, 64, 4), (128, 64, 8))
PRODUCTS = ("qkv", "out", "gate_up", "down", "head")


class Shape:
    """Sizes of a config.json."""

    def __init__(self, config):
        self.hidden, self.layers = config["hidden_size"], config["num_hidden_layers"]
        self.intermediate, self.vocabulary = config["intermediate_size"], config["vocab_size"]
        self.heads = config["num_attention_heads"]
        self.kv = config["num_key_value_heads"]
        self.size = config.get("head_dim") or self.hidden // self.heads
        self.eps = config["rms_norm_eps"]
        self.tied = bool(config.get("tie_word_embeddings"))

    def step_bytes(self, cached, batch):
        """Weights and cached tokens that a step reads, as kernels/decode counts them; without the embedding's rows."""
        of_layer = self.hidden * ((self.heads + 2 * self.kv) * self.size + self.heads * self.size + 3 * self.intermediate)
        weights = 2 * (self.layers * of_layer + self.hidden * self.vocabulary)
        return weights + batch * cached * 4 * self.layers * self.kv * self.size


class Weights:
    """Random ones; q, k, v and gate, up in one matrix each, [out][in]."""

    def __init__(self, shape, device, dtype, seed=1):
        source = torch.Generator(device).manual_seed(seed)

        def normal(*sizes, deviation=0.02, mean=0.0):
            made = torch.empty(*sizes, dtype=dtype, device=device)
            return made.normal_(mean, deviation, generator=source)

        s = shape
        self.layers = [{"norm": normal(s.hidden, deviation=0.1, mean=1.0),
                        "qkv": normal((s.heads + 2 * s.kv) * s.size, s.hidden),
                        "out": normal(s.hidden, s.heads * s.size),
                        "mlp_norm": normal(s.hidden, deviation=0.1, mean=1.0),
                        "gate_up": normal(2 * s.intermediate, s.hidden),
                        "down": normal(s.hidden, s.intermediate)} for _ in range(s.layers)]
        self.embedding = normal(s.vocabulary, s.hidden)
        self.norm = normal(s.hidden, deviation=0.1, mean=1.0)
        self.head = self.embedding if s.tied else normal(s.vocabulary, s.hidden)

    def of(self, name, layer):
        """(matrix, gains of the norm before it or None) of a product."""
        if name == "head":
            return self.head, self.norm
        one = self.layers[layer]
        return one[name], {"qkv": one["norm"], "gate_up": one["mlp_norm"]}.get(name)


class Step:
    """Steps of so many sequences, all behind `cached` tokens. `frequencies`: those of the rotation."""

    def __init__(self, shape, weights, batch, cached, capacity, frequencies):
        s, self.weights, self.batch, self.cached, self.capacity = shape, weights, batch, cached, capacity
        self.shape = s
        device, dtype = weights.embedding.device, weights.embedding.dtype

        def room(*sizes, of=dtype):
            return torch.zeros(*sizes, dtype=of, device=device)

        source = torch.Generator(device).manual_seed(2)
        self.keys, self.values = (room(s.layers, batch, s.kv, capacity, s.size).normal_(generator=source)
                                  for _ in range(2))
        angles = torch.arange(capacity, device=device)[:, None].float() * frequencies.to(device).float()[None, :]
        self.cosines, self.sines = angles.cos().contiguous(), angles.sin().contiguous()
        self.first_ids = (torch.arange(batch, device=device, dtype=torch.int32) * 7 + 1) % s.vocabulary
        self.ids = self.first_ids.clone()
        self.lengths = torch.full((batch,), cached, device=device, dtype=torch.int32)
        self.x, self.normed = room(batch, s.hidden), room(batch, s.hidden)
        self.qkv, self.queries = room(batch, (s.heads + 2 * s.kv) * s.size), room(batch, s.heads * s.size)
        self.attended = room(batch, s.heads * s.size)
        self.gate_up, self.active = room(batch, 2 * s.intermediate), room(batch, s.intermediate)
        self.logits = room(batch, s.vocabulary, of=torch.float32)
        self.rounded_logits = room(batch, s.vocabulary)
        self.pieces = triton.cdiv(s.vocabulary, PIECE)
        self.best, self.which = room(batch, self.pieces, of=torch.float32), room(batch, self.pieces, of=torch.int32)
        self.most_splits = 64
        self.parts = room(batch * s.heads, self.most_splits, s.size, of=torch.float32)
        self.logs = room(batch * s.heads, self.most_splits, of=torch.float32)

    def begin(self):
        """Back to the first token, with the cache as it was but for what steps have added."""
        self.ids.copy_(self.first_ids)
        self.rewind()
        self.x.copy_(self.weights.embedding[self.ids.long()])

    def rewind(self):
        self.lengths.fill_(self.cached)  # a kernel: what starts early needs one ahead of it, not a copy

    def product(self, name, layer, choice, pdl):
        """`choice`: one of BLAS, FOR_ONE or FOR_SEVERAL."""
        matrix, gain = self.weights.of(name, layer)
        s, paired, adds = self.shape, name == "gate_up", name in ("out", "down")
        x = {"out": self.attended, "down": self.active}.get(name, self.x)
        to = {"qkv": self.qkv, "gate_up": self.active, "head": self.logits}.get(name, self.x)
        features, inner = matrix.shape[0] // (2 if paired else 1), matrix.shape[1]
        if choice not in BLAS:
            rows, block, warps = choice
            grid = (triton.cdiv(features, rows),)
            common = dict(K=inner, ROWS=rows, BLOCK=block, NORM=gain is not None, PAIR=paired, ADD=adds, PDL=pdl,
                          num_warps=warps, **({"launch_pdl": True} if pdl else {}))
            gain = matrix if gain is None else gain  # not read
            if self.batch == 1:
                vector_product[grid](x, matrix, gain, to, to, features, s.eps, **common)
            else:
                matrix_product[grid](x, matrix, gain, to, to, self.batch, features, s.eps,
                                     TOKENS=max(16, triton.next_power_of_2(self.batch)), num_stages=4, **common)
            return
        if gain is not None:
            self.launch(norm, (self.batch,), pdl, x, gain, self.normed, s.eps, K=s.hidden,
                        BLOCK=triton.next_power_of_2(s.hidden))
            x = self.normed
        torch.backends.cuda.preferred_blas_library(choice)
        if adds:
            torch.addmm(self.x, x, matrix.t(), out=self.x)
        elif paired:
            torch.mm(x, matrix.t(), out=self.gate_up)
            self.launch(swiglu, (self.batch, triton.cdiv(features, 1024)), pdl, self.gate_up, self.active, features,
                        BLOCK=1024)
        else:
            torch.mm(x, matrix.t(), out=self.rounded_logits if name == "head" else to)

    @staticmethod
    def launch(kernel, grid, pdl, *arguments, **constants):
        kernel[grid](*arguments, PDL=pdl, **constants, **({"launch_pdl": True} if pdl else {}))

    def attention(self, layer, splits, pdl):
        """`splits`: 0 for torch's."""
        s = self.shape
        keys, values = self.keys[layer], self.values[layer]
        if splits == 0:
            count = self.cached + 1  # of the first step; a graph is that of one length
            found = torch.nn.functional.scaled_dot_product_attention(
                self.queries.view(self.batch, s.heads, 1, s.size), keys[:, :, :count], values[:, :, :count],
                enable_gqa=True)
            torch.mul(found.view(self.batch, -1), 1, out=self.attended)  # a kernel, as in rewind()
            return
        self.launch(attend, (self.batch * s.kv, splits), pdl, self.queries, keys, values, self.lengths, self.parts,
                    self.logs, self.attended, self.capacity, math.log2(math.e) / math.sqrt(s.size), HEADS=s.heads,
                    KV=s.kv, ROWS=max(16, triton.next_power_of_2(s.heads // s.kv)), SIZE=s.size, SPLITS=splits,
                    BLOCK=64)
        if splits > 1:
            self.launch(put_together, (self.batch * s.heads,), pdl, self.parts, self.logs, self.attended, SIZE=s.size,
                        SPLITS=splits)

    def turn(self, layer, pdl):
        s = self.shape
        self.launch(turn, (self.batch, s.heads + 2 * s.kv), pdl, self.qkv, self.queries, self.keys[layer],
                    self.values[layer], self.cosines, self.sines, self.lengths, self.capacity, HEADS=s.heads, KV=s.kv,
                    SIZE=s.size, num_warps=1)

    def token(self, choices, splits, pdl):
        """One step. `choices`: of each product."""
        s = self.shape
        for layer in range(s.layers):
            self.product("qkv", layer, choices["qkv"], pdl)
            self.turn(layer, pdl)
            self.attention(layer, splits, pdl)
            for name in ("out", "gate_up", "down"):
                self.product(name, layer, choices[name], pdl)
        self.product("head", 0, choices["head"], pdl)
        logits = self.rounded_logits if choices["head"] in BLAS else self.logits
        self.launch(best_of_piece, (self.batch, self.pieces), pdl, logits, self.best, self.which, s.vocabulary,
                    self.pieces, BLOCK=PIECE)
        self.launch(next_token, (self.batch,), pdl, self.best, self.which, self.ids, self.lengths,
                    self.weights.embedding, self.x, self.pieces, K=s.hidden,
                    BLOCK=triton.next_power_of_2(self.pieces), WIDTH=triton.next_power_of_2(s.hidden))
        return logits

    def choices_of(self, name):
        """That fit a product's size."""
        matrix, _ = self.weights.of(name, 0)
        return [*BLAS] + [one for one in (FOR_ONE if self.batch == 1 else FOR_SEVERAL) if matrix.shape[1] % one[1] == 0]

    def reference(self):
        """Logits of the first step in fp32, by plain products, with the same cache."""
        s = self.shape

        def normed(x, gain):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + s.eps) * gain.float()

        def turned(x):
            half = s.size // 2
            c, n = self.cosines[self.cached], self.sines[self.cached]
            low, high = x[..., :half], x[..., half:]
            return torch.cat([low * c - high * n, high * c + low * n], -1)

        x = self.weights.embedding[self.first_ids.long()].float()
        for layer, one in enumerate(self.weights.layers):
            qkv = (normed(x, one["norm"]) @ one["qkv"].float().t()).view(self.batch, s.heads + 2 * s.kv, s.size)
            query, key, value = qkv.split([s.heads, s.kv, s.kv], 1)
            keys = torch.cat([self.keys[layer][:, :, :self.cached].float(), turned(key)[:, :, None]], 2)
            values = torch.cat([self.values[layer][:, :, :self.cached].float(), value[:, :, None]], 2)
            grouped = turned(query).view(self.batch, s.kv, s.heads // s.kv, s.size)
            weight = (grouped @ keys.transpose(-1, -2) / math.sqrt(s.size)).softmax(-1)
            x = x + (weight @ values).reshape(self.batch, -1) @ one["out"].float().t()
            gate, up = (normed(x, one["mlp_norm"]) @ one["gate_up"].float().t()).chunk(2, -1)
            x = x + (torch.nn.functional.silu(gate) * up) @ one["down"].float().t()
        return normed(x, self.weights.norm) @ self.weights.head.float().t()


@triton.jit
def read_through(memory, sums, words, BLOCK: tl.constexpr):
    """Reads all words, each program every so many blocks; adds them up (modulo 2^32), so that none is left out."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.int32)
    for start in range(0, words, tl.num_programs(0) * BLOCK):
        total += tl.load(memory + start + at, mask=start + at < words, other=0)
    tl.store(sums + tl.program_id(0), tl.sum(total.to(tl.int64), 0))
