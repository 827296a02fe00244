# SPDX-License-Identifier: Apache-2.0
"""What programs for torch on a GPU have in common: the package without its extension, steps with faults of their own, and
times of graphs in turns."""

import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import statistics
import sys
import time
import traceback
import types
import warnings

PYTHON = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.path.join(PYTHON, "tessera")


def import_tessera(library):
    """The package; without its extension, a bare one that has the operators."""
    try:
        import tessera
    except ImportError:
        tessera = types.ModuleType("tessera")
        tessera.__path__ = [PACKAGE]
        sys.modules["tessera"] = tessera
    if library:
        tessera.__path__ = [*tessera.__path__, library]
    if PACKAGE not in tessera.__path__ and not importlib.util.find_spec("tessera.torch"):
        tessera.__path__ = [*tessera.__path__, PACKAGE]
    return importlib.import_module("tessera.torch")


class Faults(list):
    def expect(self, fine, text):
        if not fine:
            self.append(text)
            print(f"   FAULT: {text}", flush=True)


class Bench:
    def __init__(self, torch, tt, device):
        self.torch, self.tt, self.device = torch, tt, device
        self.is_gpu = device == "cuda"

    def sync(self):
        if self.is_gpu:
            self.torch.cuda.synchronize()

    def weights(self, form, model, hidden, dtype, seed=0):
        torch = self.torch
        lot = torch.Generator(self.device).manual_seed(seed)
        rows = 2 * hidden if form == "swiglu" else hidden
        w_in = torch.randn(rows, model, generator=lot, device=self.device).div_(model**0.5).to(dtype)
        return w_in, torch.randn(model, hidden, generator=lot, device=self.device).div_(hidden**0.5).to(dtype)

    def x(self, *sizes, dtype=None, seed=1):
        lot = self.torch.Generator(self.device).manual_seed(seed)
        return self.torch.randn(*sizes, generator=lot, device=self.device).to(dtype or self.torch.bfloat16)

    def exact(self, x, w_in, w_out, form):
        return self.tt._operators.by_torch(x.float(), w_in.float(), w_out.float(), form)

    def error(self, seen, wanted):
        seen = seen.float()
        if not bool(self.torch.isfinite(seen).all()):
            return float("inf")
        return ((seen - wanted).norm() / wanted.norm()).item()


def in_bf16(torch, model):
    """The model with parameters of bf16, as from_pretrained() makes it. model.to() would round the frequencies of positions,
    too, which are a buffer: behind 1,000 tokens logits are off by five times what bf16 comes to otherwise."""
    for one in model.parameters():
        one.data = one.data.to(torch.bfloat16)
    return model.eval().requires_grad_(False)


def replayed(torch, ways, steps, rounds=21):
    """Medians, in turns."""
    taken = {name: [] for name in ways}
    for round_number in range(rounds + 3):
        for name, replay in ways.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            replay()
            end.record()
            end.synchronize()
            if round_number >= 3:
                taken[name].append(begin.elapsed_time(end) * 1e3 / steps)
    return {name: statistics.median(times) for name, times in taken.items()}


def run_steps(text, steps, on_cpu=(), only_named=(), needs_transformers=()):
    """A program of steps, each with faults of its own. The exit status: 1 where one has failed."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library")
    parser.add_argument("--json")
    parser.add_argument("--only", nargs="+", choices=[step.__name__ for step in (*steps, *only_named)], default=[])
    parser.add_argument("--seconds", type=float, default=1e9, help="no step begins after so many")
    parser.add_argument("--device", choices=("cuda", "cpu") if on_cpu else ("cuda",), default="cuda")
    given = parser.parse_args()
    started = time.perf_counter()
    import torch

    warnings.simplefilter("ignore")
    tt = import_tessera(given.library)
    values = {
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "kernels": tt.why_not_compiled() or "there",
        "steps": {},
    }
    with contextlib.suppress(ImportError):
        import transformers

        values["transformers"] = transformers.__version__
    if given.device == "cuda":
        if tt.why_not_compiled():
            sys.exit(f"no kernels: {tt.why_not_compiled()}")
        values["gpu"] = torch.cuda.get_device_name()
    b, bad = Bench(torch, tt, given.device), 0
    for step in (*steps, *only_named) if given.device == "cuda" else on_cpu:
        if step.__name__ not in given.only if given.only else step in only_named:
            continue
        print(f"-- {step.__name__}", flush=True)
        faults, began, found = Faults(), time.perf_counter(), {}
        if step in needs_transformers and "transformers" not in values:
            found = {"skipped": "transformers is not installed"}
        elif began > started + given.seconds:
            found = {"skipped": f"{given.seconds:g} seconds are over"}
        else:
            try:
                found = step(b, faults) or {}
                b.sync()
            except Exception as error:  # noqa: BLE001  the other steps say more
                traceback.print_exc()
                faults.append(f"{type(error).__name__}: {error}")
        bad += bool(faults)
        values["steps"][step.__name__] = {**found, "seconds": round(time.perf_counter() - began, 2), "faults": list(faults)}
        print(
            f"   {found.get('skipped') or ('FAILED' if faults else 'right')}, {time.perf_counter() - began:.1f} s", flush=True
        )
        if given.json:
            with open(given.json, "w") as out:
                json.dump(values, out, indent=2)
                out.write("\n")
    return 1 if bad else 0
