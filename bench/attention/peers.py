#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What torch's attention takes in the sizes that bench_attention measures, by cuDNN and by FlashAttention 2, in
graphs of several calls on rotating operands.

  bench/attention/peers.py results/h200/attention_peers.json --commit <hash>
  bench/attention/peers.py out.json --models llama --tokens 512 2048

Sizes that would begin after --seconds are left out, with a line. Exit status 3: a package is missing."""
import argparse
import datetime
import json
import statistics
import subprocess
import sys
import time

# As in bench/attention/main.cpp: heads, key heads, head size, causal, window, tokens.
MODELS = {
    "gpt3": (12, 12, 128, False, 0, (512, 1000, 1024, 2048, 4096, 8192)),
    "llama": (8, 8, 128, True, 0, (512, 1000, 1024, 2048, 4096, 8192)),
    "llama3-8b": (32, 8, 128, True, 0, (512, 1024, 2048, 4096, 8192)),
    "llama3.2-1b": (32, 8, 64, True, 0, (512, 2048, 8192)),
    "gpt3-6.7b": (32, 32, 80, True, 0, (2048,)),
    "phi3": (32, 32, 96, True, 0, (2048,)),
    "gemma": (8, 4, 256, True, 0, (2048, 8192)),
}
ROUNDS = 12
REST = 4


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--tokens", nargs="+", type=int, default=[])
    parser.add_argument("--seconds", type=float, default=100, help="after which nothing more is begun (default 100)")
    parser.add_argument("--commit", default="unknown")
    return parser.parse_args(words)


def about(a):
    import torch

    def query(field):
        words = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits", "-i", "0"]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()

    return {
        "commit": a.commit,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ"),
        "machine": query("name"),
        "driver": query("driver_version"),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "max_sm_clock_mhz": int(query("clocks.max.sm")),
        "sm_clock_mhz_before": int(query("clocks.sm")),
        "command": " ".join(["bench/attention/peers.py", *sys.argv[1:]]),
    }


def operands(heads, key_heads, size, tokens):
    """Sets of [1, heads, tokens, size], rows of a token side by side in memory, larger than the L2 together."""
    import torch

    one = 2 * tokens * size * (2 * heads + 2 * key_heads)
    count = max(3, min(12, -(-600_000_000 // one)))

    def make(n):
        return torch.randn(1, tokens, n, size, device="cuda", dtype=torch.bfloat16).transpose(1, 2)

    return [(make(heads), make(key_heads), make(key_heads)) for _ in range(count)]


def captured(call, sets, calls):
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for one in sets[:2]:
            call(*one)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        kept = [call(*sets[i % len(sets)]) for i in range(calls)]
    del kept
    return graph


def once(graph, calls):
    import torch

    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1000 / calls


def measure(name, tokens):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    heads, key_heads, size, causal, _, _ = MODELS[name]
    pairs = tokens * (tokens + 1) // 2 if causal else tokens * tokens
    flops = 4 * pairs * heads * size
    calls = max(2, min(40, int(4e11 / flops)))
    sets = operands(heads, key_heads, size, tokens)

    def by(backend):
        def call(q, k, v):
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=causal, enable_gqa=heads != key_heads
                )

        return call

    row = {"tokens": tokens, "flops": flops, "variants": []}
    graphs = []
    for peer, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        try:
            graphs.append((peer, captured(by(backend), sets, calls), [], []))
        except RuntimeError as error:
            print(f"{name} {tokens}: {peer} does not run: {str(error).splitlines()[0]}", flush=True)
    for i in range(ROUNDS + 3):
        for _, graph, hot, _ in graphs:
            graph.replay()
            us = once(graph, calls)
            if i >= 3:
                hot.append(us)
    for _ in range(6):
        for _, graph, hot, cool in graphs:
            graph.replay()
            torch.cuda.synchronize()
            time.sleep(REST * statistics.median(hot) * calls * 1e-6)
            cool.append(once(graph, calls))
    for peer, _, hot, cool in graphs:
        us = statistics.median(hot)
        row["variants"].append(
            {"variant": peer, "us": round(us, 2), "us_cool": round(statistics.median(cool), 2)}
        )
        print(f"{name:12} {tokens:5}  {peer:6} {us:8.2f} us  {flops / us / 1e6:6.1f} TFLOP/s  cool {statistics.median(cool):8.2f}",
              flush=True)
    return row


def main(words):
    a = parse(words)
    try:
        import torch  # noqa: F401
    except ImportError as error:
        print(f"peers.py: {error}", file=sys.stderr)
        return 3
    begun = time.monotonic()
    record = {"about": about(a)}
    for name in a.models:
        for tokens in a.tokens or MODELS[name][5]:
            if time.monotonic() - begun > a.seconds:
                print(f"{name} {tokens}: left out, {a.seconds:g} s are over", flush=True)
                continue
            record.setdefault(name, {"sizes": []})["sizes"].append(measure(name, tokens))
            with open(a.out, "w", encoding="utf-8") as file:
                json.dump(record, file, indent=1)
                file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
