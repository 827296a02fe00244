#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py TESSERA SOURCE BUILD [--seed N] [--only TEXT] [--jobs N] [--unlimited]

Gives the tool some 3700 mistaken and hostile inputs, one process each, and checks every answer: an exit code that is
documented, a refusal with a code and a place, no file that is half there, within 4 s of one core, 4 s of sleep and
512 MiB of its own, beside what it maps. A case that fails is printed as a command that can be pasted, and its files are
kept in BUILD/failed. TESSERA_HOSTILE_PART=3/10 takes every tenth case from the third: what repeats them all day
(scripts/test --stress) gives another part each time.
"""

import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True

import companions
import documents
import known
import large
import mutations
import options
import signals
from cases import ANY, FINE, REFUSED, Case

SECONDS = 4          # of a core; and asleep
LOOK = 0.1           # seconds between looks at whether it sleeps
PATIENCE = 60        # seconds: only a hang takes that long
LEAST_CASES = 1500   # fewer are not the corpus
ALL_SECONDS = 240    # of cores for all cases together: two minutes of two, whoever else has them
BYTES = 512 << 20
# What takes values of several types, or members of any name.
FREE = r"rows\.\d+\.(values|results)\.|(grid|\.at) unknown$|accesses\.\d+\.\d+ (zero|huge|negative)$"
LONGEST_ANSWER = 1 << 16  # of a refusal: what a terminal can still scroll back over


def document_cases(document, rng):
    def case(what, text, command, expect, code=""):
        words = ["file.json" if word == "FILE" else word for word in command]
        files = {"file.json": text.encode("utf-8", "surrogatepass")}
        return Case(f"{document.name}: {what}: {command[0]}", words, files, expect, code,
                    blamed="file.json" if expect == REFUSED and not code else "", beside=document.beside)

    tree = mutations.parse(document.text)
    count = 0
    for what, text, mistake in mutations.changes(tree, rng, document.changes):
        command = document.commands[count % len(document.commands)]
        count += 1
        mistake = mistake and document.strict and not re.search(FREE, what)
        yield case(what, text, command, REFUSED if mistake else ANY)
    yield case("x behind a NUL byte", document.text + "\0x", document.commands[0], REFUSED)
    for what, text in mutations.truncations(document.text, rng, 10):
        yield case(what, text, document.commands[0], REFUSED)
    for command in document.commands:
        as_it_is = (REFUSED, documents.ENOUGH) if document.beside else (FINE,)
        yield case("as it is", mutations.dump(tree), command, *as_it_is)


def corpus(tessera, source, folder, seed, unlimited):
    rng = random.Random(seed)
    collected = documents.collect(tessera, source, folder)
    texts = {document.name: document.text for document in collected}
    texts |= documents.unchanged(tessera, folder, known.gemms(texts["workload two-gemms"], 60, 60),
                                 known.with_sms(texts["machine h200"], 66))
    for document in collected:
        yield from document_cases(document, rng)
    yield from options.cases(tessera, {"PLAN": texts["plan wait_kernel"].encode(), "ROLES": texts["roles"].encode()})
    yield from known.cases(texts)
    if not unlimited:  # they are about time
        yield from large.cases(texts, rng)
    yield from companions.cases(texts)


def limit(process, unlimited):
    """Limits of a process that has just begun: set between fork and exec, they would cost a copy of this one's pages."""
    try:
        resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))
        if unlimited:
            return
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        # What it takes, and not what it maps: cuBLASLt's file alone has more bytes than that.
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (BYTES, BYTES))
        resource.prlimit(process.pid, resource.RLIMIT_AS, (4 * BYTES, 4 * BYTES))
    except ProcessLookupError:  # it is over
        pass


def faults(case, code, out, err, left):
    """What is wrong with an answer, in words."""
    first = next((line for line in err.splitlines() if re.search(r"\berror\b", line)), "")
    found = re.search(r"error (E\d{4}): ", first)
    if code < 0:
        yield f"ended by signal {-code}"
        return
    if code not in (0, 1, 2, 3):
        yield f"exit code {code}"
    if case.exit_code is not None and code != case.exit_code:
        yield f"exit code {code} instead of {case.exit_code}"
    if "defect of tessera" in err or "runtime error" in err or "Sanitizer" in err:
        yield "a defect: " + err[:200]
    if found and found[1] == "E0937":
        yield "memory runs out instead of being estimated"
    if code == 0 and first:
        yield "fine, but it says: " + first[:200]
    if code == 0 and re.search(r"(?<![\w.])-?(nan|inf)(?![\w-])", out):
        yield "prints nan or inf"
    if code != 0 and not found and "stuck" not in out and "no conclusion" not in out:
        yield "a refusal without a code: " + err[:200]
    if code != 0 and len(err) > LONGEST_ANSWER:
        yield f"a refusal of {len(err)} bytes"
    if "\u001b" in out or "\u001b" in err:
        yield "prints an escape sequence"
    if case.expect == FINE and code != 0:
        yield "refused: " + first[:300]
    if case.expect == REFUSED and code == 0:
        yield "not refused"
    if case.code and found and found[1] != case.code:
        yield f"{found[1]} instead of {case.code}: " + first[:300]
    # E0905 is about a file as a whole: it is another kind of file.
    line = "" if found and found[1] == "E0905" else r":\d+"
    if case.blamed and code != 0 and not re.match(r"(\./)?" + re.escape(case.blamed) + line + ": ", first):
        yield "no file and line: " + first[:300]
    if case.says and case.says not in re.sub(r"\s+", " ", out + err):
        yield f"does not say \"{case.says}\": " + (first or out)[:300]
    missing = set(case.outputs) - left
    if code == 0 and missing:
        yield "does not write " + ", ".join(sorted(missing))
    unexpected = left - set(case.files) - set(case.outputs if code == 0 else ())
    if unexpected:
        yield "leaves " + ", ".join(sorted(unexpected))


def put_beside(tessera, folder, scripts):
    """The tool in a folder of its own, which is not among what a case leaves."""
    folder.mkdir()
    try:
        os.link(tessera, folder / "tessera")
    except OSError:  # BUILD is on another disk
        shutil.copy2(tessera, folder / "tessera")
    for name, script in scripts.items():
        (folder / name).write_text(script)
        (folder / name).chmod(0o700)
    return str(folder / "tessera")


def program(tessera, folder, case):
    return tessera if case.beside is None else str(folder.with_name(folder.name + "-tool") / "tessera")


def sleeps(pid):
    """Whether no thread of a process, or of those that it started, runs, could run or waits for a disk."""
    try:
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            if (thread / "stat").read_text().rpartition(")")[2].split()[0] in "RD":
                return False
            if not all(map(sleeps, (thread / "children").read_text().split())):
                return False
    except OSError:  # it is over
        return False
    return True


def answer(process, given, unlimited):
    """What it prints; or, as a word, why it is ended. Waiting for a core is no sleep: others may have it."""
    until = time.monotonic() + PATIENCE
    asleep = 0
    while True:
        try:
            return process.communicate(given, timeout=LOOK)
        except subprocess.TimeoutExpired:
            given = None
            asleep += sleeps(process.pid)
            if time.monotonic() > until or (asleep * LOOK >= SECONDS and not unlimited):
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return "does not end" if time.monotonic() > until else f"sleeps for {SECONDS} s"


def run(tessera, folder, case, unlimited):
    folder.mkdir(parents=True)
    if case.beside is not None:
        tessera = put_beside(tessera, pathlib.Path(program(tessera, folder, case)).parent, case.beside)
    for name, content in case.files.items():
        if callable(content):
            content(folder / name)
        else:
            (folder / name).write_bytes(content)
    try:
        process = subprocess.Popen([tessera, *case.arguments], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True,
                                   env={"HOME": str(folder), "NO_COLOR": "1"})
    except ValueError:  # a NUL byte in an argument: no shell can give it either
        return []
    limit(process, unlimited)
    said = answer(process, case.stdin or b"", unlimited)
    if isinstance(said, str):
        return [said]
    left = {path.name for path in folder.iterdir()}
    out, err = (text.decode(errors="replace") for text in said)
    return list(faults(case, process.returncode, out, err, left))


def attempt(job):
    """What is wrong with an answer, and the seconds of a core that it took."""
    tessera, folder, case, unlimited = job
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = run(tessera, folder, case, unlimited)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not found:
        shutil.rmtree(folder)
        if case.beside is not None:
            shutil.rmtree(pathlib.Path(program(tessera, folder, case)).parent)
    return found, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def limits_hold(folder):
    """Whether programs that sleep, and that take a core, meet their limits; if not, this script has a mistake."""
    endings = {"sleep 30": f"sleeps for {SECONDS} s", "while :; do :; done": f"ended by signal {int(signal.SIGXCPU)}"}
    met = True
    for number, (line, ending) in enumerate(endings.items()):
        tool = folder / f"tool{number}"
        tool.write_text(f"#!/bin/sh\n{line}\n")
        tool.chmod(0o700)
        met = run(str(tool), folder / f"case{number}", Case(line, []), False) == [ending] and met
        shutil.rmtree(folder / f"case{number}")
        tool.unlink()
    return met


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("tessera")
    parser.add_argument("source")
    parser.add_argument("build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--unlimited", action="store_true", help="no limits of time and memory (sanitizers)")
    wanted = parser.parse_args()
    tessera = str(pathlib.Path(wanted.tessera).resolve())
    failed = pathlib.Path(wanted.build).resolve() / "failed"
    shutil.rmtree(failed, ignore_errors=True)
    failed.mkdir(parents=True)
    all_cases = [case for case in corpus(tessera, wanted.source, failed, wanted.seed, wanted.unlimited) if wanted.only in case.name]
    cases_there = len(all_cases)
    if part := os.environ.get("TESSERA_HOSTILE_PART"):
        first, step = map(int, part.split("/"))
        all_cases = all_cases[first % step::step]
    began = time.time()
    bad = 0
    jobs = [(tessera, failed / str(number), case, wanted.unlimited) for number, case in enumerate(all_cases)]
    with concurrent.futures.ProcessPoolExecutor(wanted.jobs) as pool:
        answers = list(zip(jobs, pool.map(attempt, jobs, chunksize=8 if len(jobs) > 500 else 1)))
    for job, (found, _) in answers:
        _, folder, case, _ = job
        # A core that others share takes longer for the same work: once more, with nothing beside it.
        if found == [f"ended by signal {int(signal.SIGXCPU)}"]:
            shutil.rmtree(folder)
            found, _ = attempt(job)
        if found:
            bad += 1
            print(f"{case.name}\n  {'; '.join(found)}\n  cd {shlex.quote(str(folder))} && "
                  f"{shlex.join([program(tessera, folder, case), *case.arguments])[:1000]}", flush=True)
    if not wanted.only or wanted.only == "signals":
        two_gemms = (pathlib.Path(wanted.source) / "workloads/two-gemms.json").read_text()
        for fault in signals.faults(tessera, two_gemms, failed / "signals"):
            bad += 1
            print(fault, flush=True)
        if not limits_hold(failed):
            bad += 1
            print("a program that sleeps, or that takes a core, gets by", flush=True)
    if not wanted.only and cases_there < LEAST_CASES:
        bad += 1
        print(f"{cases_there} cases are fewer than {LEAST_CASES}", flush=True)
    for job, (_, seconds) in sorted(answers, key=lambda one: -one[1][1])[:3]:
        print(f"{seconds:.2f} s of a core: {job[2].name}")
    spent = sum(seconds for _, (_, seconds) in answers)
    if spent > ALL_SECONDS and not wanted.unlimited:
        bad += 1
        print(f"all cases take more than {ALL_SECONDS} s of cores")
    print(f"{len(all_cases)} cases, {bad} failed, {time.time() - began:.0f} s, {spent:.0f} s of cores, seed {wanted.seed}")
    return 1 if bad or not all_cases else 0


if __name__ == "__main__":
    sys.exit(main())
