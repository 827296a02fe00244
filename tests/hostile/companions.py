# SPDX-License-Identifier: Apache-2.0
"""Commands that need the programs which launch kernels: without them, and with others in their place."""

from cases import ANY, FINE, REFUSED, Case

# A command, and the program that it starts.
COMMANDS = [
    (["run", "llama-65b", "--tp", "8", "--tokens", "1"], "tessera-gpu"),
    (["run", "llama-65b", "--tp", "8", "--tokens", "768", "--planned"], "tessera-gpu"),
    (["run", "p.json"], "tessera-gpu"),
    (["run", "lattice-boltzmann"], "tessera-flow"),
    (["tune", "llama-65b", "--tp", "8", "--tokens", "1"], "tessera-gpu"),
    (["bench", "mlp", "llama-65b", "--tp", "8", "--tokens", "1"], "tessera-bench"),
    (["bench", "workload", "lora"], "tessera-bench"),
    (["bench", "overhead"], "copy_chain"),
    (["bench", "ablation"], "ablation"),
    (["probe", "--quick"], "tessera-probe"),
]
REFUSES = "#!/bin/sh\necho 'error E0931: no GPU' >&2; exit 3\n"
# What is wrong before any program is started.
MISTAKES = [
    (["run", "llama-65b", "--tokens", "0"], "E0909"),
    (["run", "llama-65b", "--tokens", "1,2", "--planned", "--html", "t.html"], "E0906"),
    (["run", "./none.json"], "E0901"),
    (["run", "llama-65b", "--planned", "--machine", "nowhere"], "E0602"),
    (["tune", "banana"], ""),
    (["tune", "llama-65b", "--for", "banana"], "E0908"),
    (["bench", "mlp", "banana"], ""),
    (["bench", "banana", "llama-65b"], "E0908"),
    (["probe", "--banana"], "E0908"),
]


def cases(texts):
    plan = {"p.json": texts["plan pdl"].encode()}
    for arguments, program in COMMANDS:
        words = " ".join(arguments[:2])
        files = plan if "p.json" in arguments else {}

        def case(what, script, **more):
            beside = {} if script is None else {program: script}
            return Case(f"companion: {words}: {what}", arguments, files, beside=beside, **more)

        yield case("missing", None, expect=REFUSED, code="E0936", says="not beside this program")
        yield case("not a program", "\0\1\2", expect=ANY)
        yield case("for an interpreter that is not there", "#!/nowhere/sh\n", expect=REFUSED, code="E0936",
                   says="does not start")
        yield case("fine", "#!/bin/sh\necho done\n", expect=FINE, says="done")
        yield case("refuses", REFUSES, expect=REFUSED, code="E0931")
        yield Case(f"companion: {words}: refuses, as JSON", ["--json", *arguments], files, REFUSED, "E0931",
                   says='"code": "E0931"', beside={program: REFUSES})
        for signal in ("KILL", "SEGV", "ABRT"):
            yield case(f"ends by {signal}", f"#!/bin/sh\nkill -{signal} $$\n", expect=REFUSED, code="E0936",
                       says="was ended by signal")
        for what, script in (("cannot be loaded", "echo 'x: cannot open liby.so' >&2; exit 127"),
                             ("ends with 42", "exit 42"), ("gives no reason", "exit 3")):
            yield case(what, f"#!/bin/sh\n{script}\n", expect=REFUSED, code="E0936", says="ended with exit code")
            yield Case(f"companion: {words}: {what}, as JSON", ["--json", *arguments], files, REFUSED, "E0936",
                       says='"code": "E0936"', beside={program: f"#!/bin/sh\n{script}\n"})
        yield case("reads what is not there", "#!/bin/sh\nread line && exit 3; exit 0\n", expect=FINE)
    for arguments, code in MISTAKES:
        # A program that would say that it was started.
        beside = {name: "#!/bin/sh\necho started; exit 0\n" for name in ("tessera-gpu", "tessera-bench", "tessera-probe")}
        yield Case("companion: mistake: " + " ".join(arguments), arguments, {}, REFUSED, code, beside=beside)
