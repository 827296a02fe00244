#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tessera::attention on a Hopper GPU: right for every head size, type, mask and layout, safe in streams, threads and
graphs, compiled, in transformers models, and what it takes beside torch's scaled_dot_product_attention. Needs torch 2.10
or later for CUDA 13, and transformers for the models.

    python/tests/gpu_torch_attention.py [--library <folder>] [--json <file>] [--only <step>...] [--seconds <number>]

--library: where libtessera_torch.so is, if not beside the package. On a machine without a GPU (--device cpu) the steps
that torch can compute run, to try this script."""

import copy
import sys
import threading
import time

from for_torch.gpu_steps import replayed, run_steps

HEAD_SIZES = (64, 80, 96, 128, 256)
MASKS = {"all": {}, "causal": {"causal": True}, "window": {"window": 100}}
LENGTHS = ((300, 300), (129, 333), (64, 1))
ALLOWED_ERROR = 4e-3  # of a result's norm, against fp32: docs/attention.md has 2.0 to 2.3e-3
AGAINST_TORCH = 1.5  # times what torch's own attention is wrong by
# Heads, key heads, head size, causal, batch, tokens.
SPEEDS = {
    "llama-3-8b": (32, 8, 128, True, 1, 2048),
    "llama-3-8b, 4 sequences": (32, 8, 128, True, 4, 1024),
    "llama-3.2-1b": (32, 8, 64, True, 1, 2048),
    "phi-3": (32, 32, 96, True, 1, 2048),
    "gemma": (8, 4, 256, True, 1, 2048),
    "encoder, 8 sequences": (16, 16, 64, False, 8, 512),
}
CALLS = 10  # of a graph that is timed
PROMPT = 2048


def exact(torch, q, k, v, causal=False, window=0, scale=None):
    """In fp32, head by head; who sees no key gets zeros."""
    group, shift = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    at = torch.arange(q.shape[2], device=q.device)[:, None] + shift
    key = torch.arange(k.shape[2], device=q.device)[None, :]
    sees = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
    if causal or window:
        sees = key <= at
    if window:
        sees = sees & (key > at - window)
    k, v = (one.float().repeat_interleave(group, 1) for one in (k, v))
    scores = (q.float() @ k.mT * (scale or q.shape[3] ** -0.5)).masked_fill(~sees, -float("inf"))
    return scores.softmax(-1).nan_to_num(0) @ v


def laid(one, layout):
    """[batch, heads, tokens, size] with the same numbers where a layout has them."""
    torch_like = one.contiguous()
    if layout == "outside":
        return torch_like
    inside = torch_like.transpose(1, 2).contiguous()
    if layout == "inside":
        return inside.transpose(1, 2)
    wide = inside.new_zeros(*inside.shape[:2], 3 * inside.shape[2], inside.shape[3])  # columns of one matrix
    wide[:, :, inside.shape[2] : 2 * inside.shape[2]] = inside
    return wide[:, :, inside.shape[2] : 2 * inside.shape[2]].transpose(1, 2)


LAYOUTS = {
    "as torch has them": ("outside", "outside", "outside"),
    "as projections give them": ("inside", "inside", "inside"),
    "with a cache": ("inside", "outside", "outside"),
    "columns": ("columns", "columns", "columns"),
    "without a step": ("inside", "inside", "outside"),
}


def operands(b, batch, heads, key_heads, size, queries, keys, dtype=None, seed=1):
    q = b.x(batch, heads, queries, size, dtype=dtype, seed=seed)
    return q, *(b.x(batch, key_heads, keys, size, dtype=dtype, seed=seed + i) for i in (1, 2))


def by_torch(b, q, k, v, how):
    return b.tt._attention.by_torch(q, k, v, how.get("causal", False), how.get("window", 0), how.get("scale", 0.0))


def right(b, faults):
    """Every head size, type, mask, length and layout against fp32, from poisoned outputs, in both operators."""
    torch, worst, cases = b.torch, {}, 0
    for dtype in (torch.bfloat16, torch.float16):
        for size in HEAD_SIZES if b.is_gpu else HEAD_SIZES[:2]:
            for queries, keys in LENGTHS:
                given = operands(b, 2, 8, 2, size, queries, keys, dtype, seed=size)
                for mask, how in MASKS.items():
                    wanted = exact(torch, *given, **how)
                    allowed = max(ALLOWED_ERROR, AGAINST_TORCH * b.error(by_torch(b, *given, how), wanted))
                    for layout, kinds in LAYOUTS.items():
                        q, k, v = (laid(one, kind) for one, kind in zip(given, kinds))
                        name = f"{size}, {str(dtype)[6:]}, {queries} of {keys}, {mask}, {layout}"
                        poison = torch.full_like(laid(q, "inside"), float("nan"))  # where the result will be
                        del poison
                        error = b.error(b.tt.attention(q, k, v, **how), wanted)
                        faults.expect(error <= allowed, f"{name}: error {error}")
                        out = torch.full_like(laid(q, "inside"), float("nan"))
                        other = b.error(b.tt.attention(q, k, v, out=out, **how), wanted)
                        faults.expect(other <= allowed, f"{name}, attention_out: error {other}")
                        worst[size] = max(worst.get(size, 0), error, other)
                        cases += 2
    q, k, v = operands(b, 1, 4, 4, 64, 200, 200)
    error = b.error(b.tt.attention(q, k, v, scale=0.3, causal=True), exact(torch, q, k, v, causal=True, scale=0.3))
    faults.expect(error <= ALLOWED_ERROR, f"scale: error {error}")
    return {"worst_error": worst, "cases": cases + 1}


def refusals(b, faults):
    """Of the C++ implementation, on the GPU; and after all that it works."""
    torch, tt = b.torch, b.tt
    q, k, v = operands(b, 2, 4, 2, 64, 40, 40)
    flat = torch.zeros(q.numel() + 1, device=b.device, dtype=q.dtype)[1:].view(q.shape)
    operator = torch.ops.tessera.attention
    cases = {
        "q is neither bfloat16 nor float16": lambda: operator(q.float(), k, v),
        "k is 2 x 2 x 40 x 64, q is 1 x 4 x 40 x 64": lambda: operator(q[:1], k, v),
        "3 heads cannot share 2 key heads evenly": lambda: operator(q[:, :3], k, v),
        "no kernel for heads of 32": lambda: operator(q[..., :32], k[..., :32], v[..., :32]),
        "a window of -1 keys": lambda: operator(q, k, v, window=-1),
        "q has strides of 10240, 2560, 1, 40": lambda: operator(q.mT.contiguous().mT, k, v),
        "out is 2 x 4 x 40 x 80, q is 2 x 4 x 40 x 64": lambda: tt.attention(q, k, v, out=q.new_empty(2, 4, 40, 80)),
    }
    if b.is_gpu:
        cases |= {
            "v is not on a CUDA device": lambda: operator(q, k, v.cpu()),
            "q does not begin at a multiple of 16 bytes": lambda: operator(flat, k, v),
            "out overlaps q": lambda: tt.attention(q, k, v, out=q),
        }
    for told, call in cases.items():
        said = "accepted"
        try:
            call()
        except RuntimeError as error:
            said = str(error)
        faults.expect(told in said, f'"{told}" is answered by "{said}"')
    error = b.error(tt.attention(q, k, v), exact(torch, q, k, v))
    faults.expect(error <= ALLOWED_ERROR, f"after refusals: error {error}")
    for empty in (q[:0], q[:, :, :0]):
        faults.expect(tt.attention(empty, k[: len(empty)], v[: len(empty)]).shape == empty.shape, "an empty one")
    return {"cases": len(cases)}


def streams(b, faults):
    """The current stream behind a slow kernel; operands that are freed and filled right behind; two threads."""
    torch, tt = b.torch, b.tt
    given = operands(b, 2, 8, 2, 128, 500, 500)
    wanted = exact(torch, *given, causal=True)
    side, live = torch.cuda.Stream(), [torch.zeros_like(one) for one in given]
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        for one, new in zip(live, given):
            one.copy_(new)
        copied = tt.attention(*live, causal=True).clone()
        for one in live:
            one.fill_(float("nan"))
    side.synchronize()
    faults.expect(b.error(copied, wanted) <= ALLOWED_ERROR, "in a side stream behind a slow kernel")
    failed = []

    def work(number):
        try:
            own = torch.cuda.Stream()
            with torch.cuda.stream(own):
                results = [tt.attention(*given, causal=True) for _ in range(100)]
            own.synchronize()
            failed.extend(f"thread {number}" for one in results if not torch.equal(one, results[0]))
            failed.extend([f"thread {number}"] * (b.error(results[0], wanted) > ALLOWED_ERROR))
        except Exception as error:  # noqa: BLE001
            failed.append(f"thread {number}: {type(error).__name__}: {error}")

    both = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(timeout=40)
        faults.expect(not one.is_alive(), "a thread does not end")
    faults.expect(not failed, f"{len(failed)} of threads wrong: {failed[:3]}")
    return {"calls": 200}


def graphs(b, faults):
    """Captured before any eager call of this size, replayed with new inputs and eager calls between: the same bits."""
    torch, tt = b.torch, b.tt
    inputs = [operands(b, 3, 8, 2, 96, 260, 260, seed=10 * i) for i in range(4)]
    live, wrong = [one.clone() for one in inputs[0]], []
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = tt.attention(*live, causal=True)
        z = tt.attention(y, *live[1:], window=50)
    once = [tt.attention(*one, causal=True) for one in inputs]
    twice = [tt.attention(one, *given[1:], window=50) for one, given in zip(once, inputs)]
    faults.expect(b.error(once[1], exact(torch, *inputs[1], causal=True)) <= ALLOWED_ERROR, "an eager call")
    for i in range(100):
        for one, new in zip(live, inputs[i % 4]):
            one.copy_(new)
        y.fill_(float("nan"))
        z.fill_(float("nan"))
        graph.replay()
        if i % 3 == 0 and not torch.equal(tt.attention(*inputs[3], causal=True), once[3]):
            wrong.append(f"an eager call between replays ({i})")
        if not (torch.equal(y, once[i % 4]) and torch.equal(z, twice[i % 4])):
            wrong.append(f"replay {i}")
    faults.expect(not wrong, f"{len(wrong)} wrong: {wrong[:3]}")
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), torch.cuda.mem_get_info()[0]
    for _ in range(1000):
        tt.attention(*inputs[0], causal=True)
    torch.cuda.synchronize()
    after = torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), torch.cuda.mem_get_info()[0]
    fine = before[:2] == after[:2] and before[2] - after[2] <= 4 << 20
    faults.expect(fine, f"memory goes from {before} to {after} in 1000 calls")
    return {"replays": 100}


def compiled(b, faults):
    """torch.compile, one graph, with torch's own CUDA graphs; for any number of tokens, too."""
    torch, tt = b.torch, b.tt
    from torch._dynamo.utils import counters

    def step(x, k, v):
        q = (x * 2).unflatten(-1, (8, 64)).transpose(1, 2)
        return tt.attention(q, k, v, causal=True).transpose(1, 2).flatten(2) + x

    counters.clear()
    worst, bits = 0, True
    with torch.no_grad():
        for fast, sizes in (
            (torch.compile(step, fullgraph=True, mode="reduce-overhead" if b.is_gpu else None), (200,) * 4),
            (torch.compile(step, fullgraph=True, dynamic=True), (64, 200, 333)),
        ):
            for i, tokens in enumerate(sizes):
                x = b.x(2, tokens, 512, seed=i)
                k, v = (b.x(2, 2, tokens, 64, seed=i + s) for s in (50, 60))
                q = (x * 2).unflatten(-1, (8, 64)).transpose(1, 2)
                wanted = exact(torch, q, k, v, causal=True).transpose(1, 2).flatten(2) + x.float()
                worst = max(worst, b.error(fast(x, k, v).clone(), wanted))
                bits = bits and torch.equal(fast(x, k, v), step(x, k, v))
    faults.expect(worst <= ALLOWED_ERROR, f"compiled: error {worst}")
    skipped = counters["inductor"].get("cudagraph_skips", 0)
    faults.expect(not skipped, f"torch left out its CUDA graphs {skipped} times")
    return {"worst_error": worst, "bits_of_eager": bits}


def model_of(b, family, layers, **more):
    import transformers

    small = {} if b.is_gpu else {"hidden_size": 256, "intermediate_size": 256, "vocab_size": 500}
    sizes = {"hidden_size": 2048, "intermediate_size": 8192, "vocab_size": 32000, **small}
    config = getattr(transformers, f"{family}Config")(
        **sizes, num_hidden_layers=layers, num_attention_heads=32 if b.is_gpu else 4, num_key_value_heads=8 if b.is_gpu else 2,
        head_dim=64, max_position_embeddings=4096, rms_norm_eps=1e-5, **more,
    )  # fmt: skip
    b.torch.manual_seed(0)
    with b.torch.device(b.device):
        model = transformers.AutoModelForCausalLM.from_config(config)
    return model.to(b.torch.bfloat16).eval().requires_grad_(False)


def models(b, faults):
    """transformers models with attn_implementation="tessera", against themselves in fp32 and beside "sdpa"; prompts of
    Llama-3.2-1B's shape, timed."""
    torch, tt, found = b.torch, b.tt, {}
    tt.register_attention()
    tokens = 300 if b.is_gpu else 40
    ids = torch.randint(1, 500, (2, tokens), generator=torch.Generator().manual_seed(1)).to(b.device)
    for family, more in (("Llama", {}), ("Mistral", {"sliding_window": tokens // 3}), ("Qwen3", {})):
        model = model_of(b, family, 2, **more)
        judge = copy.deepcopy(model).float()
        judge.set_attn_implementation("sdpa")
        wanted = judge(ids).logits
        errors = {}
        for kind in ("sdpa", "tessera"):
            model.set_attn_implementation(kind)
            errors[kind] = b.error(model(ids).logits, wanted)
        faults.expect(errors["tessera"] <= 1.3 * errors["sdpa"], f"{family}: errors {errors}")
        model.set_attn_implementation("tessera")
        made = model.generate(ids[:, :20], max_new_tokens=4, do_sample=False, eos_token_id=None, pad_token_id=0)
        faults.expect(made.shape == (2, 24), f"{family}: generate() gives {tuple(made.shape)}")
        found[family] = {name: round(error, 5) for name, error in errors.items()}
        del judge
    if b.is_gpu:
        model = model_of(b, "Llama", 16, tie_word_embeddings=True)
        prompt = torch.randint(1, 500, (1, PROMPT), device=b.device)
        found["prompt_ms"] = prompt_ms(b, model, prompt)
        print(f"   a prompt of {PROMPT}, ms: {found['prompt_ms']}", flush=True)
    return found


def prompt_ms(b, model, prompt):
    """Medians of whole forward passes, in turns."""
    torch, taken = b.torch, {"sdpa": [], "tessera": []}
    with torch.no_grad():
        for i in range(13):
            for kind, times in taken.items():
                model.set_attn_implementation(kind)
                torch.cuda.synchronize()
                began = time.perf_counter()
                model(prompt, use_cache=True, logits_to_keep=1)
                torch.cuda.synchronize()
                if i >= 3:
                    times.append((time.perf_counter() - began) * 1e3)
    return {kind: round(sorted(times)[len(times) // 2], 3) for kind, times in taken.items()}


def speed(b, faults):
    """Microseconds of a call in a graph of ten on operands in turns, beside torch's backends; and of the host."""
    torch, tt, F = b.torch, b.tt, b.torch.nn.functional
    from torch.nn.attention import SDPBackend, sdpa_kernel

    found = {}
    for name, (heads, key_heads, size, causal, batch, tokens) in SPEEDS.items():
        sets = [
            [laid(one, "inside") for one in operands(b, batch, heads, key_heads, size, tokens, tokens, seed=10 * i)]
            for i in range(4)
        ]

        def by(backend, causal=causal, grouped=heads != key_heads):
            def call(q, k, v):
                with sdpa_kernel(backend):
                    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)

            return call

        ways = {
            "tessera": lambda q, k, v, causal=causal: tt.attention(q, k, v, causal=causal),
            "cudnn": by(SDPBackend.CUDNN_ATTENTION),
            "flash": by(SDPBackend.FLASH_ATTENTION),
        }
        replays = {}
        for way, call in ways.items():
            try:
                replays[way] = captured(b, call, sets).replay
            except RuntimeError as error:
                found.setdefault("does not run", {})[f"{name}, {way}"] = str(error).splitlines()[0]
        times = replayed(torch, replays, CALLS)
        found[name] = {way: round(us, 2) for way, us in times.items()}
        print(f"   {name}: {found[name]}", flush=True)
    q, k, v = operands(b, 1, 8, 2, 64, 128, 128)
    default = {
        "tessera": lambda: tt.attention(q, k, v, causal=True),
        "scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
    }
    found["host_us"] = {name: host_us(b, call) for name, call in default.items()}
    print(f"   host us: {found['host_us']}", flush=True)
    return found


def captured(b, call, sets):
    torch = b.torch
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for one in sets[:2]:
            call(*one)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(CALLS):
            call(*sets[i % len(sets)])
    return graph


def host_us(b, call, calls=100):
    best = float("inf")
    for _ in range(9):
        b.sync()
        began = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - began) / calls * 1e6)
    return round(best, 2)


if __name__ == "__main__":
    steps = (right, refusals, streams, graphs, models, speed, compiled)
    sys.exit(run_steps(__doc__, steps, on_cpu=(right, refusals, models, compiled), needs_transformers=(models,)))
