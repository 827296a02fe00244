# SPDX-License-Identifier: Apache-2.0
"""Bad values for the options of every subcommand, and files that are no files."""

import os
import re
import subprocess

from cases import ANY, FINE, REFUSED, Case

# What no option takes; and what no number is. An empty value is what a shell makes of a variable that is not set.
NO_NUMBER = ["", "0x10", "seven", "1;2", "99999999999999999999"]
BAD_NUMBERS = ["", "0", "-1", "1.5", "seven", "nan", "1e9", "2147483648", "99999999999999999999", "1,,2", "0x10", "1;2"]
BAD_WORDS = ["", "banana", "mlp;rm", "x" * 5000, "\u001b[31m", "--", "\u00e9\u00df"]

# Options that a command has, with what it needs besides. PLAN, LOOP, MACHINE, TIMELINE and ROLES are files.
NUMBERS = [
    (["plan", "llama-3-8b"], ["--tokens", "--sequences", "--cached", "--tp", "--alternatives"]),
    (["check", "llama-3-8b"], ["--tokens", "--sequences", "--cached", "--tp"]),
    (["plan", "resnet-38", "--layer", "7x7x512"], ["--images"]),
    (["check", "jacobi"], ["--iterations"]),
    (["simulate", "PLAN"], ["--explore"]),
    (["simulate", "--iterations", "2", "--roles", "ROLES"], ["--set"]),
    (["simulate", "--roles", "ROLES"], ["--iterations"]),
    (["simulate", "--study", "t3", "--model", "T-NLG", "--layer", "OP", "--config", "all_gather"], ["--tp", "--tokens"]),
    (["sweep", "two-gemms"], ["--by", "--shard", "--set", "--jobs"]),
    (["why-not", "--second", "128,32,0"], ["--first", "--resident"]),
    (["explain", "PLAN"], ["--alternatives"]),
    (["run", "llama-3.2-1b", "--decode", "--prompt-ids", "1"], ["--new-tokens", "--capacity", "--top-k"]),
    (["run", "llama-3.2-1b", "--decode", "--prompt-ids", "1"], ["--seed", "--stop-id", "--temperature", "--top-p"]),
    (["run", "llama-3.2-1b", "--decode", "--predict"], ["--sequences", "--cached", "--tp"]),
    (["run", "vgg-19", "--predict"], ["--images"]),
    (["run", "lattice-boltzmann"], ["--steps", "--tau", "--speed"]),
    (["run", "gemm-all-reduce"], ["--rows", "--columns", "--depth", "--gpus"]),
]
WORDS = [
    (["plan", "llama-3-8b"], ["--block", "--dtype", "--mechanism", "--policy", "--machine", "--layer"]),
    (["check", "llama-3-8b"], ["--block", "--dtype", "--arch", "--iterations"]),
    (["check", "resnet-38"], ["--layer"]),
    (["simulate", "PLAN"], ["--machine", "--study"]),
    (["simulate", "--study", "t3"], ["--model", "--collective", "--layer", "--config"]),
    (["sweep", "two-gemms"], ["--set", "--machine", "--format", "--result", "--study"]),
    (["why-not", "--first", "128,32,0"], ["--second", "--machine"]),
    (["probe", "--from", "h200"], ["--against", "--base"]),
    (["run", "llama-3.2-1b", "--decode"], ["--prompt-ids"]),
    (["run", "llama-3.2-1b", "--decode", "--prompt-ids", "1"], ["--weights"]),
    (["run", "lattice-boltzmann"], ["--box", "--flow", "--variant"]),
    (["run", "gemm-all-reduce", "--rows", "8", "--columns", "64", "--depth", "64"], ["--dtype"]),
]
ARGUMENTS = [["plan"], ["check"], ["simulate"], ["generate"], ["explain"], ["why-not"], ["diff"], ["sweep"],
             ["workloads"], ["machines"], ["bench"], ["bench", "banana"], ["diff", "PLAN"], [], ["banana"],
             ["--banana"], ["plan", "two-gemms", "two-gemms"], ["generate", "PLAN", "-o"], ["plan", "--hlep"],
             ["workloads", "banana"], ["machines", "banana"], ["explain", "E9999"], ["explain", "banana"]]
READERS = [["plan"], ["check"], ["simulate"], ["generate"], ["explain"], ["diff", "PLAN"],
           ["run", "--decode", "--prompt-ids", "1"], ["run", "llama-3.2-1b", "--decode", "--prompt-ids", "1", "--weights"],
           ["simulate", "--roles"], ["sweep", "--merge"], ["plan", "two-gemms", "--machine"],
           ["simulate", "PLAN", "--machine"], ["why-not", "--first", "1,1,0", "--second", "1,1,0", "--machine"]]


def unreadable(path):
    path.write_bytes(b"{}")
    path.chmod(0)


def folder(path):
    path.mkdir()


def endless_link(path):
    path.symlink_to(path.name)


ODD_FILES = {
    "folder": folder,
    "empty": b"",
    "zeros": b"\0" * 4096,
    "no end": b'{"schema": "tessera.plan/2"',
    "no JSON": b"<!doctype html>",
    "only a number": b"7",
    "array": b"[]",
    "object": b"{}",
    "null": b"null",
    "bytes": bytes(range(256)),
    "deep": b"[" * 1_000_000,
    "wide": b"[" + b"0," * 2_000_000 + b"0]",
    "members": b"{" + b",".join(b'"a%d":0' % i for i in range(100_000)) + b"}",
    "long name": b'{"schema": "' + b"x" * 10_000_000 + b'"}',
    "loop of links": endless_link,
    "schema of the future": b'{"schema": "tessera.plan/99", "x": null}',
}


def help_of(tessera, command):
    return subprocess.run([tessera, *command, "--help"], check=True, capture_output=True, text=True).stdout


def commands(tessera, above=()):
    """All, as the help lists them: ["plan"], ..., ["bench", "mlp"], ..."""
    below = help_of(tessera, above).partition("\nSubcommands:\n")[2].partition("\n\n")[0]
    for name in re.findall(r"^  ([a-z]\S*)", below, re.MULTILINE):
        yield [*above, name]
        yield from commands(tessera, (*above, name))


def valued(tessera, command):
    """The options that take a value, as the help shows them: its kind is one space behind the name."""
    return re.findall(r"^  (?:-\w,)?(--[a-z][a-z-]*) (?! |$)", help_of(tessera, command), re.MULTILINE)


def cases(tessera, files):
    """`files`: the bytes of PLAN, ROLES and so on by name."""

    def case(name, arguments, **more):
        used = {word: files[word] for word in arguments if word in files}
        return Case(name, list(arguments), {**used, **more.pop("files", {})}, **more)

    for table, values, refused in ((NUMBERS, BAD_NUMBERS, NO_NUMBER), (WORDS, BAD_WORDS, [""])):
        for command, options in table:
            for option in options:
                for value in values:
                    yield case(f"{' '.join(command)} {option} {value[:20]!r}", [*command, option, value],
                               expect=REFUSED if value in refused else ANY)
    everything = [(command, option) for command in commands(tessera) for option in valued(tessera, command)]
    assert len(everything) >= 150, "the help looks otherwise"
    for command, option in everything:
        yield case(f"{' '.join(command)} {option} empty", [*command, option, ""], expect=REFUSED, code="E0908",
                   says="needs a value, not an empty one")
    for arguments in ARGUMENTS:
        yield case("arguments " + " ".join(arguments), arguments, expect=ANY)
    for reader in READERS:
        command = " ".join(reader)
        for name, content in ODD_FILES.items():
            yield case(f"{command} reads {name}", [*reader, "./odd"], files={"odd": content}, expect=REFUSED)
        yield case(f"{command} reads /dev/zero", [*reader, "/dev/zero"], expect=REFUSED)
        yield case(f"{command} reads /dev/null", [*reader, "/dev/null"], expect=REFUSED)
        yield case(f"{command} reads nothing", [*reader, "./none.json"], expect=REFUSED, code="E0901")
        yield case(f"{command} reads a closed pipe", [*reader, "-"], expect=REFUSED, stdin=b"")
        if os.getuid() != 0:
            yield case(f"{command} may not read", [*reader, "./odd"], files={"odd": unreadable}, expect=REFUSED,
                       code="E0901")
    for option in ("-o", "--header", "--html", "--trace", "--csv", "--timeline", "--dot"):
        plan = ["plan", "two-gemms", option]
        yield case(f"plan {option} into a folder", [*plan, "./odd"], files={"odd": ODD_FILES["folder"]},
                   expect=REFUSED, code="E0902")
        yield case(f"plan {option} without a folder", [*plan, "./none/odd"], expect=REFUSED, code="E0902")
        yield case(f"plan {option} on a full disk", [*plan, "/dev/full"], expect=REFUSED, code="E0902")
        yield case(f"plan {option} twice", [*plan, "./out", *plan[2:], "./out"], expect=REFUSED, code="E0908")
        yield case(f"plan {option} fine", [*plan, "./out"], expect=FINE, outputs=("out",))
    for option in ("--header", "--csv"):
        yield case(f"a file, and a full device for {option}", ["plan", "two-gemms", "-o", "a", option, "/dev/full"],
                   expect=REFUSED, code="E0902")
    for output in ("/dev/full", "/dev/null", "/dev/stdout", "./out/"):
        yield case(f"several sizes into {output}", ["plan", "llama-65b", "--tokens", "1,64", "--header", output],
                   expect=REFUSED, code="E0902")
    yield case("two outputs, of which one cannot be written", ["plan", "two-gemms", "-o", "a", "--csv", "no/b"],
               expect=REFUSED, code="E0902")
