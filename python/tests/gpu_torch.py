#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tessera.torch on a Hopper GPU: right, safe in streams, threads and graphs, what a call costs, and the one line on a
Llama-3.2-1B of random weights. Needs torch 2.10 or later for CUDA 13, and transformers for the model.

    python/tests/gpu_torch.py [--library <folder>] [--json <file>] [--only <step>...] [--seconds <number>]

--library: where libtessera_torch.so is, if not beside the package. The operators need no planner: where tessera's
extension is for another Python, they run without it. Each step's findings are written when it has ended. On a machine
without a GPU (--device cpu) the steps that torch can compute run, to try this script."""

import sys
import threading

from for_torch.gpu_steps import replayed, run_steps
from for_torch.host_cost import overhead

FORMS = ("swiglu", "gelu_tanh")
# Model and hidden size: Llama-3.2-1B's, and one that is no multiple of any tile.
SIZES = ((2048, 8192), (1544, 1032))
TOKENS = (1, 2, 7, 16, 33, 64, 128, 300, 1024)
ALLOWED_ERROR = 5e-3  # of a result's norm, against fp32: bf16 rounds h and y, some 1.5e-3 each
AGAINST_TORCH = 1.5  # times what torch's own arithmetic is wrong by
LAYERS_TIMED, LAYERS_COMPARED = 16, 4
CACHED = 100  # positions in the cache before a timed step
PLANS_KEPT = 128  # of a stream: kernels/mlp/kept.hpp


def right(b, faults):
    """Every form, type and number of tokens against fp32, from poisoned outputs, in both operators."""
    torch, worst = b.torch, {}
    for dtype in (torch.bfloat16, torch.float16):
        for form in FORMS:
            for model, hidden in SIZES if b.is_gpu else SIZES[1:]:
                w_in, w_out = b.weights(form, model, hidden, dtype)
                for tokens in TOKENS:
                    x = b.x(tokens, model, dtype=dtype, seed=tokens)
                    wanted = b.exact(x, w_in, w_out, form)
                    by_torch = b.error(b.tt._operators.by_torch(x, w_in, w_out, form), wanted)
                    out = torch.full_like(x, float("nan"))
                    torch.ops.tessera.mlp_out(x, w_in, w_out, out, form)
                    name = f"{form}, {str(dtype)[6:]}, {tokens} x {model} x {hidden}"
                    for early in (False, True):
                        error = b.error(torch.ops.tessera.mlp(x, w_in, w_out, form, early_weights=early), wanted)
                        faults.expect(
                            error <= max(ALLOWED_ERROR, AGAINST_TORCH * by_torch),
                            f"{name}, early_weights={early}: error {error}",
                        )
                    error = b.error(out, wanted)
                    faults.expect(error <= max(ALLOWED_ERROR, AGAINST_TORCH * by_torch), f"{name}, mlp_out: error {error}")
                    worst[form] = max(worst.get(form, 0), error)
    if b.is_gpu:
        b.tt.check()
    return {"worst_error": worst, "cases": 2 * len(FORMS) * len(SIZES) * len(TOKENS)}


def refusals(b, faults):
    """Of the C++ implementation, on the GPU."""
    torch, tt = b.torch, b.tt
    w_in, w_out = b.weights("swiglu", 64, 128, torch.bfloat16)
    x = b.x(2, 5, 64)
    shifted = torch.zeros(2 * 5 * 64 + 1, device=b.device, dtype=torch.bfloat16)[1:].view(2, 5, 64)
    cases = {
        "x is neither bfloat16 nor float16": (x.float(), w_in, w_out, "swiglu"),
        "w_in has another dtype than x": (x, w_in.half(), w_out, "swiglu"),
        "w_out is 64 x 128, x is 2 x 5 x 32": (x[..., :32], w_in, w_out, "swiglu"),
        "w_in is 256 x 64, gelu_tanh with w_out of 64 x 128 takes 128 x 64": (x, w_in, w_out, "gelu_tanh"),
        "x is not contiguous": (x.transpose(0, 1), w_in, w_out, "swiglu"),
        "w_out is not contiguous": (x, w_in, w_out.t().contiguous().t(), "swiglu"),
        'form is "relu"': (x, w_in, w_out, "relu"),
    }
    if b.is_gpu:
        cases |= {
            "w_in is not on a CUDA device": (x, w_in.cpu(), w_out, "swiglu"),
            "x does not begin at a multiple of 16 bytes": (shifted, w_in, w_out, "swiglu"),
            "E0530: an MLP of 1 tokens, 60 x 128 is not for these kernels": (x[0, 0, :60].contiguous(), w_in[:, :60].contiguous(), w_out[:60], "swiglu"),
        }  # fmt: skip
    for told, arguments in cases.items():
        said = "accepted"
        try:
            torch.ops.tessera.mlp(*arguments)
        except RuntimeError as error:
            said = str(error)
        faults.expect(told in said, f'"{told}" is answered by "{said}"')
    if b.is_gpu:
        for told, out in (("out overlaps x", x), ("out is 5 x 64, x is 2 x 5 x 64", x.new_empty(5, 64))):
            try:
                torch.ops.tessera.mlp_out(x, w_in, w_out, out, "swiglu")
                said = "accepted"
            except RuntimeError as error:
                said = str(error)
            faults.expect(told in said, f'"{told}" is answered by "{said}"')
    # And after all that it works.
    error = b.error(tt.mlp(x, w_in, w_out), b.exact(x, w_in, w_out, "swiglu"))
    faults.expect(error <= ALLOWED_ERROR, f"after refusals: error {error}")
    return {"cases": len(cases)}


def shapes(b, faults):
    """Views, leading sizes, no tokens at all."""
    torch, tt = b.torch, b.tt
    w_in, w_out = b.weights("swiglu", 512, 1024, torch.bfloat16)
    x = b.x(4, 6, 512)
    for name, view in {
        "transposed": x.transpose(0, 1),
        "last position": x[:, -1:, :],
        "every other": x[::2],
        "one token": x[0, 0],
        "expanded": x[:1].expand(4, 6, 512),
        "five sizes": x.view(2, 2, 3, 2, 512),
        "a later row": x[1:],
    }.items():
        y = tt.mlp(view, w_in, w_out)
        faults.expect(y.shape == view.shape, f"{name}: shape {tuple(y.shape)}")
        error = b.error(y, b.exact(view, w_in, w_out, "swiglu"))
        faults.expect(error <= ALLOWED_ERROR, f"{name}: error {error}")
    for sizes in ((0,), (3, 0), (0, 5)):
        y = tt.mlp(torch.empty(*sizes, 512, device=b.device, dtype=torch.bfloat16), w_in, w_out)
        faults.expect(y.shape == (*sizes, 512), f"empty {sizes}: shape {tuple(y.shape)}")
    return {}


def streams(b, faults):
    """The current stream, not another: behind a slow kernel, on what is written just before, and freed just behind."""
    torch, tt = b.torch, b.tt
    w_in, w_out = b.weights("swiglu", 2048, 8192, torch.bfloat16)
    other_in, other_out = b.weights("swiglu", 2048, 8192, torch.bfloat16, seed=9)
    old, new = b.x(16, 2048, seed=2), b.x(16, 2048, seed=3)
    wanted, of_other = b.exact(new, w_in, w_out, "swiglu"), b.exact(new, other_in, other_out, "swiglu")
    side, x = torch.cuda.Stream(), old.clone()
    torch.cuda.synchronize()
    for early in (False, True):
        x.copy_(old)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            x.copy_(new)
            y = tt.mlp(x, w_in, w_out, early_weights=early)
            copy = y.clone()
            y.fill_(float("nan"))
        side.synchronize()
        error = b.error(copy, wanted)
        faults.expect(error <= ALLOWED_ERROR, f"in a side stream behind a slow kernel, early_weights={early}: error {error}")
    # Weights that the kernel right in front writes, without a promise; then x and y are freed and filled again.
    live_in, live_out = w_in.clone(), w_out.clone()
    wrong = 0
    for i in range(40):
        chosen = (w_in, w_out, wanted) if i % 2 else (other_in, other_out, of_other)
        given = new.clone()
        live_in.copy_(chosen[0])
        live_out.copy_(chosen[1])
        y = tt.mlp(given, live_in, live_out)
        del given
        rubbish = [torch.full_like(new, float("nan")) for _ in range(4)]
        live_in.fill_(float("nan"))
        live_out.fill_(float("nan"))
        wrong += b.error(y, chosen[2]) > ALLOWED_ERROR
        del rubbish
    faults.expect(not wrong, f"weights written right before the call: {wrong} of 40 wrong")
    tt.check()
    return {}


def threads(b, faults):
    """Two threads in two streams each, with different numbers of tokens."""
    torch, tt = b.torch, b.tt
    w_in, w_out = b.weights("swiglu", 2048, 8192, torch.bfloat16)
    given = [b.x(tokens, 2048, seed=tokens) for tokens in (1, 8, 40, 200)]
    wanted = [b.exact(x, w_in, w_out, "swiglu") for x in given]
    torch.cuda.synchronize()
    failed = []

    def work(number):
        try:
            own = [torch.cuda.Stream() for _ in range(2)]
            results = []
            for i in range(60):
                which = (i + number) % len(given)
                with torch.cuda.stream(own[i % 2]):
                    results.append((which, tt.mlp(given[which], w_in, w_out)))
            for stream in own:
                stream.synchronize()
            failed.extend(
                f"thread {number}: error {one}" for which, y in results if (one := b.error(y, wanted[which])) > ALLOWED_ERROR
            )
        except Exception as error:  # noqa: BLE001
            failed.append(f"thread {number}: {type(error).__name__}: {error}")

    both = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(timeout=40)
        faults.expect(not one.is_alive(), "a thread does not end")
    for text in failed[:4]:
        faults.expect(False, text)
    tt.check()
    return {"calls": 120}


def graphs(b, faults):
    """Captured, replayed with new inputs, with eager calls of other sizes between, here and in another stream."""
    torch, tt = b.torch, b.tt
    w_in, w_out = b.weights("swiglu", 2048, 8192, torch.bfloat16)
    inputs = [b.x(24, 2048, seed=seed) for seed in range(5)]
    wanted = [b.exact(x, w_in, w_out, "swiglu") for x in inputs]
    between = b.x(3, 2048, seed=77)
    wanted_between = b.exact(between, w_in, w_out, "swiglu")
    x, side, wrong = inputs[0].clone(), torch.cuda.Stream(), []
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # nothing of this size has run before: all is made in the capture
        y = tt.mlp(tt.mlp(x, w_in, w_out), w_in, w_out)
    twice = [b.exact(one.to(torch.bfloat16), w_in, w_out, "swiglu") for one in wanted]
    for i in range(100):
        x.copy_(inputs[i % 5])
        y.fill_(float("nan"))
        graph.replay()
        if i % 3 == 0 and b.error(tt.mlp(between, w_in, w_out), wanted_between) > ALLOWED_ERROR:
            wrong.append(f"an eager call between replays ({i})")
        if i % 10 == 0:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                beside = tt.mlp(inputs[i % 5], w_in, w_out)
            side.synchronize()
            if b.error(beside, wanted[i % 5]) > ALLOWED_ERROR:
                wrong.append(f"an eager call beside a replay ({i})")
        if b.error(y, twice[i % 5]) > 2 * ALLOWED_ERROR:
            wrong.append(f"replay {i}")
    faults.expect(not wrong, f"{len(wrong)} wrong: {wrong[:3]}")
    for _ in range(20):
        tt.mlp(inputs[0], w_in, w_out)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    for _ in range(1000):
        tt.mlp(inputs[0], w_in, w_out)
    torch.cuda.synchronize()
    after = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    faults.expect(before == after, f"memory grows from {before} to {after} in 1000 calls")
    tt.check()
    return {"replays": 100}


def many_sizes(b, faults):
    """More numbers of tokens than a stream keeps plans for, with a graph of some beside: right, and memory does not grow."""
    torch, tt = b.torch, b.tt
    model, hidden = SIZES[1]
    w_in, w_out = b.weights("swiglu", model, hidden, torch.bfloat16)
    x = b.x(PLANS_KEPT + 72, model)
    wanted = b.exact(x, w_in, w_out, "swiglu")
    graph, captured = torch.cuda.CUDAGraph(), (3, 50, 120)
    with torch.cuda.graph(graph):
        of_graph = [tt.mlp(x[:tokens], w_in, w_out) for tokens in captured]
    wrong, free = [], []
    for _ in range(3):
        for tokens in range(1, len(x) + 1):
            if b.error(tt.mlp(x[:tokens], w_in, w_out), wanted[:tokens]) > ALLOWED_ERROR:
                wrong.append(tokens)
        for y in of_graph:
            y.fill_(float("nan"))
        graph.replay()
        wrong += [("replayed", n) for n, y in zip(captured, of_graph) if b.error(y, wanted[:n]) > ALLOWED_ERROR]
        torch.cuda.synchronize()
        free.append(torch.cuda.mem_get_info()[0])
    faults.expect(not wrong, f"{len(wrong)} wrong: {wrong[:5]}")
    faults.expect(free[0] - free[2] <= 4 << 20, f"device memory shrinks: {free}")
    tt.check()
    return {"sizes": len(x), "rounds": 3, "free_bytes": free}


def compiled(b, faults):
    """torch.compile, one graph, with torch's own CUDA graphs."""
    torch, tt = b.torch, b.tt
    from torch._dynamo.utils import counters

    module = tt.Mlp(*b.weights("swiglu", 2048, 8192, torch.bfloat16), "swiglu").to(b.device)

    def step(x):
        return module(x * 2) + x

    counters.clear()
    fast = torch.compile(step, fullgraph=True, mode="reduce-overhead" if b.is_gpu else None)
    worst = 0
    with torch.no_grad():
        for i in range(6):
            x = b.x(8, 2048, seed=i)
            wanted = b.exact(x * 2, module.w_in, module.w_out, "swiglu") + x.float()
            error = b.error(fast(x).clone(), wanted)
            worst = max(worst, error)
    faults.expect(worst <= ALLOWED_ERROR, f"compiled: error {worst}")
    skipped = counters["inductor"].get("cudagraph_skips", 0)
    faults.expect(not skipped, f"torch left out its CUDA graphs {skipped} times")
    return {"worst_error": worst}


class Decoder:
    """One decode step of a transformers model with a static cache."""

    def __init__(self, b, layers, batch, small=False, model=None):
        from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

        torch = self.torch = b.torch
        self.b = b
        sizes = {"hidden_size": 256, "intermediate_size": 1024, "vocab_size": 1000} if small else {}
        config = LlamaConfig(
            **{"hidden_size": 2048, "intermediate_size": 8192, "vocab_size": 128256, "num_hidden_layers": layers, **sizes},
            num_attention_heads=32 if not small else 4, num_key_value_heads=8 if not small else 2, head_dim=64,
            max_position_embeddings=4096, rms_norm_eps=1e-5, tie_word_embeddings=True,
        )  # fmt: skip
        torch.manual_seed(0)
        if model is None:
            with torch.device(b.device):
                model = LlamaForCausalLM(config).to(torch.bfloat16).eval().requires_grad_(False)
        self.model = model
        self.kept = {}  # what graphs read, after it has been replaced
        self.ids = torch.arange(7, 7 + batch, device=b.device)[:, None]
        self.cache = StaticCache(config=config, max_cache_len=128)
        self.cache.early_initialization(
            batch, config.num_key_value_heads, config.head_dim, torch.bfloat16, torch.device(b.device)
        )
        self.counts = [one.cumulative_length for one in self.cache.layers]
        lot = torch.Generator(b.device).manual_seed(5)
        for one in self.cache.layers:
            for part in (one.keys, one.values):
                part.copy_(torch.randn(part.shape, generator=lot, device=b.device) / 2)

    def step(self):
        self.torch._foreach_zero_(self.counts)
        self.torch._foreach_add_(self.counts, CACHED)
        with self.torch.no_grad():
            return self.model(input_ids=self.ids, past_key_values=self.cache, use_cache=True).logits[:, -1]

    def captured(self, steps):
        """(what replays it, the last step's logits)"""
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.step()
            self.step()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(steps):
                logits = self.step()
        return graph, logits

    def replace(self, static_weights=False):
        self.kept = {name: module for name, module in self.model.named_modules() if name.endswith(".mlp")}
        return self.b.tt.replace_mlp(self.model, static_weights=static_weights)


def one_line(b, faults):
    """A few layers, before and after replace_mlp(), both against the same model in fp32; captured and not."""
    import copy

    torch = b.torch
    decoder = Decoder(b, LAYERS_COMPARED, batch=4, small=not b.is_gpu)
    eager_before = decoder.step().clone()
    cache = [(one.keys.clone(), one.values.clone()) for one in decoder.cache.layers]
    exact_model = copy.deepcopy(decoder.model).float()
    model, decoder.model = decoder.model, exact_model
    for one in decoder.cache.layers:
        one.keys, one.values = one.keys.float(), one.values.float()
    exact = decoder.step().float().clone()
    decoder.model = model
    del exact_model
    for one, (keys, values) in zip(decoder.cache.layers, cache):
        one.keys, one.values = keys, values
    report = decoder.replace()
    faults.expect(len(report.replaced) == LAYERS_COMPARED and not report.left, f"replace_mlp: {report}")
    found = {"report": str(report), "error_before": b.error(eager_before, exact), "error_after": b.error(decoder.step(), exact)}
    if b.is_gpu:
        graph, logits = decoder.captured(1)
        logits.fill_(float("nan"))
        graph.replay()
        found["error_captured"] = b.error(logits, exact)
        eager = decoder.step()
        graph.replay()
        faults.expect(bool(torch.equal(eager.argmax(-1), logits.argmax(-1))), "the next token differs, captured and eager")
        b.tt.check()
    for name, error in found.items():
        if name.startswith("error_"):
            faults.expect(
                error <= AGAINST_TORCH * found["error_before"] + 1e-3, f"{name} is {error}, before {found['error_before']}"
            )
    return found


def decode(b, faults):
    """All layers: microseconds of one step in a CUDA graph, before and after, replayed in turns."""
    torch, found, steps = b.torch, {}, 4
    first = Decoder(b, LAYERS_TIMED, 1)
    decoders = {1: first, 16: Decoder(b, LAYERS_TIMED, 16, model=first.model)}
    captured = {batch: {"before": decoder.captured(steps)} for batch, decoder in decoders.items()}
    report = first.replace()
    faults.expect(len(report.replaced) == LAYERS_TIMED, f"replace_mlp: {report}")
    for promised in (False, True):
        for module in first.model.modules():
            if isinstance(module, b.tt.Mlp):
                module.static_weights = promised
        for batch, decoder in decoders.items():
            captured[batch]["after_static_weights" if promised else "after"] = decoder.captured(steps)
    for batch, ways in captured.items():
        times = replayed(torch, {name: graph.replay for name, (graph, _) in ways.items()}, steps)
        before = ways["before"][1].float()
        apart = {
            name: ((one.float() - before).norm() / before.norm()).item() for name, (_, one) in ways.items() if name != "before"
        }
        for name, one in apart.items():
            faults.expect(one <= 0.05, f"batch {batch}, {name}: logits differ by {one}")
        found[f"batch {batch}"] = {
            "us": {name: round(one, 2) for name, one in times.items()},
            "speedup": {name: round(times["before"] / one, 4) for name, one in times.items()},
            "logits_apart": apart,
            "plan": b.tt.choice(batch, 2048, 8192),
        }
        print(f"   batch {batch}: {found[f'batch {batch}']}", flush=True)
    b.tt.check()
    return found


STEPS = (right, refusals, shapes, streams, threads, graphs, many_sizes, overhead, one_line, decode, compiled)
ON_CPU = (right, refusals, shapes, one_line, compiled)


if __name__ == "__main__":
    sys.exit(run_steps(__doc__, STEPS, on_cpu=ON_CPU, needs_transformers=(one_line, decode)))
