# SPDX-License-Identifier: Apache-2.0
"""What a warm call of the MLP takes of the host, and of what parts."""

import ctypes
import time

from .gpu_steps import replayed

CALLS = 100  # of one sample of the host's time: fewer than the launch queue holds


def overhead(b, faults):
    """Host microseconds of a warm call, with nothing waited for: the operators, the C interface beneath by ctypes, what
    torch takes for the same, and parts of a call."""
    torch, tt = b.torch, b.tt
    w_in, w_out = b.weights("swiglu", 2048, 8192, torch.bfloat16)
    gate, up = tt.unpack_gate_up(w_in)
    x, F = b.x(1, 2048), torch.nn.functional
    out, none, overload = torch.empty_like(x), x[:0], torch.ops.tessera.mlp.default
    module = tt.Mlp(w_in, w_out, "swiglu")
    library, options = tt._operators._loaded, tt._library.options(2048, 8192, "swiglu", "bfloat16")
    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    stream = torch.cuda.current_stream().cuda_stream
    assert library.tessera_mlp_get(options, handle) == 0
    assert library.tessera_mlp_workspace(handle, 1, stream, size) == 0, tt._library.text_of(library)
    workspace = torch.empty(size.value, device=b.device, dtype=torch.uint8)
    at = [one.data_ptr() for one in (x, w_in, w_out, out)]
    ways = {
        "mlp": lambda: torch.ops.tessera.mlp(x, w_in, w_out, "swiglu"),
        "mlp_out": lambda: torch.ops.tessera.mlp_out(x, w_in, w_out, out, "swiglu"),
        "function": lambda: tt.mlp(x, w_in, w_out),
        "module": lambda: module(x),
        # Dispatch, checks and the result's allocation, and nothing beneath.
        "no_tokens": lambda: torch.ops.tessera.mlp(none, w_in, w_out, "swiglu"),
        "overload": lambda: overload(x, w_in, w_out, "swiglu"),
        "overload_no_tokens": lambda: overload(none, w_in, w_out, "swiglu"),
        # Of torch alone: an operator that computes nothing, by its name and by its overload; memory that comes and goes.
        "torch_operator": lambda: torch.ops.aten.alias(x),
        "torch_overload": lambda: torch.ops.aten.alias.default(x),
        "torch_memory": lambda: torch.empty_like(x),
        # Of the rows by ctypes, what ctypes takes.
        "ctypes": lambda: library.tessera_mlp_run(handle, *at, 0, workspace.data_ptr(), size.value, stream),
        "c_interface": lambda: library.tessera_mlp_run(handle, *at, 1, workspace.data_ptr(), size.value, stream),
        "three_linears": lambda: F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), w_out),
        "one_linear": lambda: F.linear(x, gate),
    }
    taken = {name: [] for name in ways}
    with torch.no_grad():
        for round_number in range(13):
            for name, way in ways.items():
                torch.cuda.synchronize()
                began = time.perf_counter()
                for _ in range(CALLS):
                    way()
                once = (time.perf_counter() - began) / CALLS * 1e6
                if round_number >= 2:
                    taken[name].append(once)
    found = {name: round(min(times), 2) for name, times in taken.items()}
    # A call that waited for room in the launch queue would show the GPU's time, not the host's.
    found["gpu_us"] = round(gpu_us(b, ways["mlp"]), 2)
    for name in ("mlp", "overload"):
        found[f"{name}, over_c_interface"] = round(found[name] - (found["c_interface"] - found["ctypes"]), 2)
    found["plan"] = tt.choice(1, 2048, 8192)
    found["cuda_calls"] = cuda_calls(b, ways["mlp"])
    print(f"   host us: {found}", flush=True)
    return found


def cuda_calls(b, work, calls=50):
    """What a warm call asks of CUDA: how often, and the host's microseconds of each as the profiler sees them."""
    from torch.profiler import ProfilerActivity, profile

    b.sync()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for _ in range(calls):
            work()
        b.sync()
    return {
        one.key: [round(one.count / calls, 2), round(one.self_cpu_time_total / one.count, 2)]
        for one in seen.key_averages()
        if one.key.startswith(("cuda", "cu")) and one.count >= calls
    }


def gpu_us(b, work):
    """GPU microseconds of one call, from a graph of ten."""
    torch = b.torch
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        for _ in range(10):
            work()
    return replayed(torch, {"one": graph.replay}, 10)["one"]
