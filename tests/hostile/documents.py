# SPDX-License-Identifier: Apache-2.0
"""The documents that are changed: all that are shipped, and what the tool makes of them. Each has the cheapest
commands that read all of it."""

import pathlib
import subprocess
from dataclasses import dataclass


@dataclass
class Document:
    name: str
    text: str
    commands: list       # argument lists; FILE is the document
    strict: bool = True  # every member is ours: a wrong type anywhere is a mistake
    changes: int = 90
    beside: object = None  # as a Case's: what reads the document as it is then says ENOUGH


CHECK = [["check", "FILE"]]
DECODE = ["run", "FILE", "--decode", "--prompt-ids", "1"]
# In place of the program that launches kernels: how far a document got that nothing is wrong with.
ENOUGH = "E0931"
NO_GPU = {"tessera-decode": f"#!/bin/sh\necho 'error {ENOUGH}: no GPU' >&2; exit 3\n"}
WHY_NOT = ["why-not", "--first", "128,32,0", "--second", "128,32,0", "--machine", "FILE"]


def made(tessera, folder, *arguments):
    path = pathlib.Path(folder) / "made.json"
    write = [] if arguments[-1] == "--timeline" else ["-o"]
    subprocess.run([tessera, *arguments, *write, str(path)], check=True, capture_output=True)
    text = path.read_text()
    path.unlink()
    return text


def unchanged(tessera, folder, large_workload, small_machine):
    """Texts by name that are valid and stay as they are: too large, or read beside others."""
    given = pathlib.Path(folder) / "given.json"

    def made_of(content, *arguments):
        given.write_bytes(content)
        text = made(tessera, folder, *arguments)
        given.unlink()
        return text

    small = large_workload.replace(b'"x": 60, "y": 60', b'"x": 4, "y": 4')
    return {"plan of 4 x 4": made_of(small, "plan", str(given), "--mechanism", "wait_kernel"),
            "large plan": made_of(large_workload, "plan", str(given), "--mechanism", "wait_kernel"),
            "plan for 66 SMs": made_of(small_machine, "plan", "two-gemms", "--machine", str(given)),
            "plan for an a100": made(tessera, folder, "plan", "two-gemms", "--machine", "a100"),
            "plan of rows": made(tessera, folder, "plan", "two-gemms", "--mechanism", "wait_kernel", "--policy", "RowSync"),
            "timeline of lora": made(tessera, folder, "plan", "lora", "--timeline")}


def collect(tessera, source, folder):
    source = pathlib.Path(source)

    def read(name):
        return (source / name).read_text()

    out = []
    for name in ("a100", "v100", "t3", "h200"):
        commands = [WHY_NOT]
        if name == "t3":
            commands.append(["sweep", "--study", "t3", "--parameters", "--machine", "FILE"])
        out.append(Document(f"machine {name}", read(f"machines/{name}.json"), commands))
    for name in ("two-gemms", "lora"):
        out.append(Document(f"workload {name}", read(f"workloads/{name}.json"), CHECK + [["plan", "FILE"]]))
    out.append(Document("workload jacobi", read("workloads/jacobi.json"), [["check", "FILE", "--iterations", "3"]]))
    for name in ("gpt-3-145b", "llama-3-8b", "llama-3-70b", "llama-3.2-1b", "llama-65b", "qwen2.5-72b"):
        commands = [["check", "FILE"], ["check", "FILE", "--block", "attention", "--tokens", "16"],
                    ["check", "FILE", "--block", "layer", "--tokens", "16"],
                    ["sweep", "--study", "t3", "--parameters", "--model", "FILE"]]
        out.append(Document(f"config {name}", read(f"workloads/{name}.json"), commands, False, 40))
    for name in ("llama-3-8b", "llama-3.2-1b", "qwen2.5-0.5b", "qwen3-0.6b"):
        out.append(Document(f"decoder {name}", read(f"workloads/{name}.json"), [DECODE], False, 40, NO_GPU))
    out.append(Document("network resnet-38", read("workloads/resnet-38.json"),
                        [["check", "FILE", "--layer", "56x56x64"]], changes=50))
    out.append(Document("network vgg-19", read("workloads/vgg-19.json"),
                        [["check", "FILE", "--layer", "56x56x64"]], changes=50))
    for mechanism in ("wait_kernel", "fused", "pdl"):
        text = made(tessera, folder, "plan", "two-gemms", "--mechanism", mechanism)
        out.append(Document(f"plan {mechanism}", text, [["generate", "FILE"], ["simulate", "FILE"]]))
    timeline = made(tessera, folder, "plan", "two-gemms", "--timeline")
    out.append(Document("timeline", timeline, [["explain", "FILE"], ["diff", "FILE", "FILE"]], changes=120))
    out.append(Document("roles", read("bench/few_tokens/mixtral_chain.json"),
                        [["simulate", "--iterations", "2", "--roles", "FILE"]], changes=110))
    table = made(tessera, folder, "sweep", "two-gemms", "--set", "sms=100,132", "--format", "json")
    out.append(Document("sweep table", table, [["sweep", "--merge", "FILE"]], changes=60))
    return out
