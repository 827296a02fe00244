#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What others take for a token, for `bench/decode/table` to put beside ours: the same models with random weights, the
same numbers of sequences and cached tokens, and 8 steps to a graph, as bench_decode measures.

  bench/decode/peers.py results/h200/decode_peers.json --commit <hash>
  bench/decode/peers.py out.json --models llama-3.2-1b --batches 1 --only launches floor

  launches   a graph of launches: each product by cuBLAS, cuBLASLt or Triton, whichever is fastest (peer_kernels.py)
  compile    transformers' model with its static cache by torch.compile, max-autotune, whole graph; captured
  floor      reading as many bytes, by a Triton kernel
  prefill    a prompt of 512 tokens by transformers, one forward pass in bf16; captured where that can be done

Compiling takes minutes: sizes that would begin after --seconds are left out, with a line, and what is measured is
written after each size. Needs torch, Triton and transformers. Exit status 1: a peer computes something else, or broke;
what is right is in the record all the same. 3: a package is missing."""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARMS = ("launches", "compile", "floor", "prefill")
STEPS = 8  # to a graph
WARM, ROUNDS = 5, 60
PROMPT = 512
# Of logits against fp32, as a whole. On a CPU transformers in bf16 is at 0.03 through 16 random layers of 1024 and at
# 0.045 through 32; without the rotation it is at 1.2, with a cached token too few at 0.5.
MOST_ERROR = 0.15


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--models", default="llama-3.2-1b,llama-3-8b", help="names of workloads/, or config.json files")
    parser.add_argument("--cached", default="128,1024")
    parser.add_argument("--batches", default="1,16,64")
    parser.add_argument("--only", nargs="+", choices=ARMS, default=list(ARMS), metavar="ARM", help=", ".join(ARMS))
    parser.add_argument("--seconds", type=float, default=540, help="after which nothing more is begun (default 540)")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--device", default="cuda", help="cpu: to try it, with TRITON_INTERPRET=1; says nothing of times")
    a = parser.parse_args(words)
    a.models = a.models.split(",")
    for name in ("cached", "batches"):
        numbers = getattr(a, name).split(",")
        if not all(one.isdecimal() and int(one) > 0 for one in numbers):
            parser.error(f"--{name} takes numbers above 0: 1,16,64")
        setattr(a, name, [int(one) for one in numbers])
    for model in a.models:
        if not path_of(model).is_file():
            parser.error(f"there is no {path_of(model)}")
    return a


def path_of(model):
    path = pathlib.Path(model)
    return path if path.suffix == ".json" else ROOT / "workloads" / f"{model}.json"


def about(a):
    """As bench/common/run_models."""
    import torch
    import transformers
    import triton

    def query(field):
        if a.device != "cuda":
            return "none"
        words = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits", "-i", "0"]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()

    def number(field):
        text = query(field)
        return float(text) if text.replace(".", "", 1).isdecimal() else None  # "[N/A]"

    return {"commit": a.commit, "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ"),
            "machine": query("name"), "driver": query("driver_version"),
            "max_sm_clock_mhz": number("clocks.max.sm"), "power_limit_w": number("power.limit"),
            "sm_clock_mhz_before": number("clocks.sm"),
            "command": " ".join(["bench/decode/peers.py", pathlib.Path(a.out).name, *sys.argv[2:]]),
            "torch": torch.__version__, "triton": triton.__version__, "transformers": transformers.__version__}


class Clock:
    """Captures work, and times what was captured: all in turns, hot, by events on the stream."""

    def __init__(self, device):
        import torch
        self.torch, self.is_gpu = torch, device == "cuda"

    def capture(self, work):
        """What replays it. Runs it twice before: what is compiled or chosen at the first call is not captured."""
        if not self.is_gpu:
            work()
            return work
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            work()
            work()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        return graph.replay

    def once(self, replay):
        if not self.is_gpu:
            began = time.perf_counter()
            replay()
            return lambda: 1e6 * (time.perf_counter() - began)
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        replay()
        end.record()
        return lambda: 1e3 * begin.elapsed_time(end)

    def in_turns(self, replays, rounds):
        """A list of microseconds for each."""
        for _ in range(WARM if self.is_gpu else 0):
            for one in replays:
                one()
        kept = [[self.once(one) for one in replays] for _ in range(rounds)]
        if self.is_gpu:
            self.torch.cuda.synchronize()
        return [[each() for each in column] for column in zip(*kept)]


def row(variant, detail, times, per=1, error=None):
    ordered = sorted(one / per for one in times)
    found = {"variant": variant, "detail": detail, "us": round(statistics.median(ordered), 2),
             "us_p10": round(ordered[len(ordered) // 10], 2), "us_p90": round(ordered[len(ordered) * 9 // 10], 2)}
    return found if error is None else {**found, "relative_error": float(f"{error:.3g}")}


def relative_error(found, reference):
    difference = (found.double() - reference.double()).norm() / reference.double().norm()
    return float(difference)  # NaN compares as wrong


class Size:
    """One model, batch and number of cached tokens."""

    def __init__(self, a, clock, shape, config, weights, cached, batch):
        import peer_kernels
        from transformers import LlamaConfig
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        self.a, self.clock, self.shape, self.weights, self.cached, self.batch = a, clock, shape, weights, cached, batch
        self.config = LlamaConfig(**config)
        rotary = LlamaRotaryEmbedding(self.config)
        # The steps of a graph, and one for each of the runs before it is captured, which do not go back.
        self.step = peer_kernels.Step(shape, weights, batch, cached, cached + 2 * STEPS, rotary.inv_freq)
        self.reference = None
        self.wrong, self.left_out = [], []
        self.made = []  # (variant, detail, replay, steps, error)

    def accept(self, variant, detail, work, steps, error):
        """Captures it, unless it computes something else."""
        if not error <= MOST_ERROR:
            self.wrong.append(f"{variant}, {detail}: a relative error of {error:.3g}")
            return
        self.made.append((variant, detail, self.clock.capture(work), steps, error))

    def exact(self):
        if self.reference is None:
            self.reference = self.step.reference()
        return self.reference

    # ---- launches

    def fastest(self, works):
        """The index of the fastest of several that do the same; each is captured and timed."""
        replays, kept = [], []
        for i, work in enumerate(works):
            try:
                replays.append(self.clock.capture(work))
                kept.append(i)
            except Exception as error:  # a configuration that does not fit this GPU; others do
                print(f"   left out: {str(error).splitlines()[0][:100]}", file=sys.stderr)
                if self.clock.is_gpu:
                    self.clock.torch.cuda.synchronize()
        medians = [statistics.median(one) for one in self.clock.in_turns(replays, 7 if self.clock.is_gpu else 1)]
        return kept[medians.index(min(medians))]

    def can_start_early(self):
        """Whether programmatic dependent launch can be captured here."""
        if not self.clock.is_gpu:
            return False
        choice = self.step.choices_of("out")[-1]
        try:
            self.clock.capture(lambda: [self.step.product("out", layer, choice, True) for layer in (0, 0)])
            return True
        except Exception as error:
            print(f"   no programmatic launches: {str(error).splitlines()[0][:100]}", file=sys.stderr)
            self.clock.torch.cuda.synchronize()
            return False

    def add_launches(self):
        import peer_kernels
        step, layers = self.step, range(self.shape.layers)
        step.begin()
        starts_early = self.can_start_early()

        def product_of_all_layers(name, choice):
            # Each layer's weights, one after the other: none is in the L2.
            return lambda: [step.product(name, layer, choice, starts_early)
                            for layer in (layers if name != "head" else [0] * 4)]

        choices = {}
        for name in peer_kernels.PRODUCTS:
            fit = step.choices_of(name)
            choices[name] = fit[self.fastest([product_of_all_layers(name, one) for one in fit])]
            step.begin()  # products add to x
        splits = [0, 1, 2, 4, 8, 16, 32]
        if self.cached < 512:
            splits = splits[:5]
        step.rewind()
        best = splits[self.fastest([lambda one=one: [step.attention(layer, one, starts_early) for layer in layers]
                                    for one in splits])]

        def text(chosen):
            return chosen if chosen in peer_kernels.BLAS else "Triton " + "x".join(map(str, chosen[:2]))

        arms = [(blas, dict.fromkeys(peer_kernels.PRODUCTS, blas), False) for blas in peer_kernels.BLAS]
        fastest = ", ".join(f"{name} {text(one)}" for name, one in choices.items())
        arms.append((fastest, choices, False))
        if starts_early:
            arms.append((fastest + ", programmatic", choices, True))
        attention = "torch's attention" if best == 0 else f"attention in {best} parts"
        for detail, chosen, pdl in arms:
            step.begin()
            logits = step.token(chosen, best, pdl).clone()
            error = relative_error(logits, self.exact())

            def work(chosen=chosen, pdl=pdl):
                step.rewind()
                for _ in range(STEPS):
                    step.token(chosen, best, pdl)

            step.begin()
            self.accept("launches", f"{detail}; {attention}", work, STEPS, error)

    # ---- transformers

    def transformers_model(self):
        """Its parameters are parts of the fused ones."""
        import torch
        from transformers import LlamaForCausalLM
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        s, weights = self.shape, self.weights
        named = {"model.embed_tokens.weight": weights.embedding, "model.norm.weight": weights.norm,
                 "lm_head.weight": weights.head}
        for i, one in enumerate(weights.layers):
            q, k, v = one["qkv"].split([s.heads * s.size, s.kv * s.size, s.kv * s.size])
            gate, up = one["gate_up"].chunk(2)
            named |= {f"model.layers.{i}.{name}.weight": matrix for name, matrix in (
                ("input_layernorm", one["norm"]), ("post_attention_layernorm", one["mlp_norm"]),
                ("self_attn.q_proj", q), ("self_attn.k_proj", k), ("self_attn.v_proj", v),
                ("self_attn.o_proj", one["out"]), ("mlp.gate_proj", gate), ("mlp.up_proj", up),
                ("mlp.down_proj", one["down"]))}
        with torch.device("meta"):
            model = LlamaForCausalLM(self.config)
        model.load_state_dict(named, assign=True)
        model.model.rotary_emb = LlamaRotaryEmbedding(self.config).to(weights.embedding.device)
        model.set_attn_implementation("sdpa")
        return model.eval().requires_grad_(False)

    def add_compile(self):
        import torch
        from transformers import StaticCache

        step, s = self.step, self.shape
        device, dtype = self.weights.embedding.device, self.weights.embedding.dtype
        model = self.transformers_model()
        cache = StaticCache(config=self.config, max_cache_len=step.capacity)
        cache.early_initialization(self.batch, s.kv, s.size, dtype, device)
        counts = [one.cumulative_length for one in cache.layers]
        ids = torch.empty(self.batch, 1, dtype=torch.long, device=device)

        def begin():
            rewind()
            ids.copy_(step.first_ids[:, None])
            for i, one in enumerate(cache.layers):
                one.keys.copy_(step.keys[i])
                one.values.copy_(step.values[i])

        def rewind():
            torch._foreach_zero_(counts)
            torch._foreach_add_(counts, self.cached)

        def token(ids):
            logits = model(input_ids=ids, past_key_values=cache, use_cache=True).logits[:, -1]
            return logits, logits.argmax(-1, keepdim=True)

        torch.compiler.reset()
        # Not "max-autotune": that captures by itself, and its replays cost the host more than the GPU takes.
        compiled = torch.compile(token, mode="max-autotune-no-cudagraphs" if self.clock.is_gpu else None,
                                 fullgraph=True, dynamic=False)
        begin()
        error = relative_error(compiled(ids)[0], self.exact())

        def work():
            rewind()
            for _ in range(STEPS):
                ids.copy_(compiled(ids)[1])

        begin()
        self.accept("compile", "transformers by torch.compile, max-autotune, static cache, in one graph", work, STEPS,
                    error)

    def add_prefill(self):
        import torch

        model = self.transformers_model()
        ids = (torch.arange(self.batch * PROMPT, device=self.weights.embedding.device) * 7 % self.shape.vocabulary)
        ids = ids.view(self.batch, PROMPT)

        def work():
            return model(input_ids=ids, use_cache=True, logits_to_keep=1).logits

        detail = f"transformers, {PROMPT} tokens in one pass"
        try:
            self.made.append(("prefill", detail, self.clock.capture(work), 1, None))
        except Exception as error:
            print(f"   the prompt's pass cannot be captured: {str(error).splitlines()[0][:100]}", file=sys.stderr)
            if self.clock.is_gpu:
                torch.cuda.synchronize()
            self.made.append(("prefill", detail + ", launched by the host", work, 1, None))

    # ---- the reading of as many bytes

    def add_floor(self):
        import peer_kernels
        import torch

        device = self.weights.embedding.device
        words = self.shape.step_bytes(self.cached, self.batch) // 4
        memory = torch.empty(words, dtype=torch.int32, device=device).random_()
        for programs in (132 * 4, 132 * 8, 132 * 16):
            sums = torch.zeros(programs, dtype=torch.int64, device=device)

            def work(programs=programs, sums=sums):
                peer_kernels.read_through[(programs,)](memory, sums, words, BLOCK=4096, num_warps=8)

            work()
            right = int(sums.sum()) & 0xFFFFFFFF == int(memory.sum(dtype=torch.int64)) & 0xFFFFFFFF
            self.accept("floor", f"{programs} programs", work, 1, 0.0 if right else 1.0)

    def measure(self, arm, began):
        self.clock.torch.backends.cuda.preferred_blas_library("default")  # launches choose for themselves
        getattr(self, f"add_{arm}")()
        print(f"   {arm}: ready after {time.monotonic() - began:.0f} s", file=sys.stderr)

    def rows(self):
        times = self.clock.in_turns([one[2] for one in self.made], self.a.rounds)
        return [row(variant, detail, of, steps, error)
                for (variant, detail, _, steps, error), of in zip(self.made, times)]


def measure_size(size, arms, began, a):
    """Rows, and what went wrong."""
    for arm in arms:
        if time.monotonic() - began > a.seconds:
            size.left_out.append(f"{arm}: not begun, {a.seconds:.0f} s were over")
            continue
        try:
            size.measure(arm, began)
        except Exception as error:  # the other arms say something without this one
            size.wrong.append(f"{arm}: {type(error).__name__}: {(str(error).splitlines() or ['?'])[0][:200]}")
            if size.clock.is_gpu:
                size.clock.torch.cuda.synchronize()
    rows = size.rows()
    for one in rows:
        print(f"   {one['variant']:9} {one['us']:9.2f} ({one['us_p10']:.2f}...{one['us_p90']:.2f})  {one['detail']}")
    for one in size.wrong + size.left_out:
        print(f"   NOT THERE: {one}")
    return rows


def main():
    a = parse(sys.argv[1:])
    try:
        import torch
        import transformers
        import triton
    except ImportError as missing:
        print(f"peers.py: {missing}; torch, Triton and transformers are needed", file=sys.stderr)
        return 3
    began = time.monotonic()
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    import peer_kernels

    torch.set_grad_enabled(False)
    clock, what, record, wrong = Clock(a.device), about(a), {}, False
    for model in a.models:
        config = {name: value for name, value in json.loads(path_of(model).read_text()).items()
                  if not name.startswith("_")}
        shape = peer_kernels.Shape(config)
        weights = peer_kernels.Weights(shape, a.device, torch.bfloat16 if a.device == "cuda" else torch.float32)
        name = path_of(model).stem
        one = record[name] = {"about": what, "model": name, "layers": shape.layers, "samples": a.rounds,
                              "unit": "microseconds for a token, or for a prompt; medians", "sizes": []}
        for batch in a.batches:  # what is compiled for a batch serves its other numbers of cached tokens, in part
            for cached in a.cached:
                print(f"{name}, {cached} cached, batch {batch}")
                arms = [arm for arm in ARMS if arm in a.only and (arm != "prefill" or (batch, cached) == (1, a.cached[0]))]
                size = Size(a, clock, shape, config, weights, cached, batch)
                rows = measure_size(size, arms, began, a)
                wrong = wrong or bool(size.wrong)
                one["sizes"].append({"cached": cached, "batch": batch, "bytes": shape.step_bytes(cached, batch),
                                     "variants": rows, "not_there": size.wrong + size.left_out})
                pathlib.Path(a.out).write_text(json.dumps(record, indent=1) + "\n")
                del size
                if a.device == "cuda":
                    torch.cuda.empty_cache()
        del weights
    print(f"wrote {a.out}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
