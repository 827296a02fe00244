# SPDX-License-Identifier: Apache-2.0
"""INT and TERM when the outputs are half written: they are all there or none is, and nothing else is left."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

OUTPUTS = ("plan.json", "trace.json", "table.csv")
PATIENCE = 120  # seconds: only a hang takes that long
ATTEMPTS = 20   # at a moment that may be over when it is seen


def sizes(folder):
    """Of the files there, by name; the process's number is left out of names that stand for others."""
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                name = entry.name.rsplit(".", 2)[0] + ".tmp" if entry.name.endswith(".tmp") else entry.name
                found[name] = entry.stat().st_size
            except FileNotFoundError:  # renamed since
                pass
    return found


# What is seen in the folder when the signal is sent.
MOMENTS = {"nothing is written": lambda seen: True,
           "an output is there": lambda seen: seen.keys() & set(OUTPUTS)}
for _name in OUTPUTS:
    MOMENTS[_name + " is begun"] = lambda seen, name=_name + ".tmp": name in seen
    MOMENTS[_name + " is half written"] = lambda seen, name=_name + ".tmp": seen.get(name, 0) > 0


def interrupt(command, folder, number, moment):
    """The exit code, and what is left. None: no end."""
    # A shell lets what it starts in the background ignore INT.
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and not moment(sizes(folder)) and time.monotonic() < deadline:
        time.sleep(0.0002)  # a look, not a moment: what is waited for is seen in the folder
    process.send_signal(number)
    try:
        code = process.wait(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        code = None
    return code, {path.name for path in folder.iterdir()} - {"w.json"}


def wrong(code, number, left):
    if code is None:
        yield "does not end"
    elif code not in (0, -number):
        yield f"exit code {code}"
    if left not in (set(), set(OUTPUTS)):
        yield "leaves " + ", ".join(sorted(left))
    if code == 0 and not left:
        yield "fine, but nothing is written"


def faults(tessera, two_gemms, folder):
    """Lines of text; empty if all is well."""
    folder = pathlib.Path(folder)
    workload = json.loads(two_gemms)
    for stage in workload["stages"]:
        stage["grid"] = {"x": 200, "y": 200}
    command = [tessera, "plan", "w.json", "--mechanism", "pdl", "-o", OUTPUTS[0], "--trace", OUTPUTS[1], "--csv",
               OUTPUTS[2]]
    for name, moment in MOMENTS.items():
        for number in (signal.SIGINT, signal.SIGTERM):
            for attempt in range(ATTEMPTS):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                (folder / "w.json").write_text(json.dumps(workload))
                code, left = interrupt(command, folder, number, moment)
                found = list(wrong(code, number, left))
                for fault in found:
                    yield f"{number.name} when {name}: {fault}\n  cd {folder} && {' '.join(command)}"
                # An output may be there only when all are, and the program at its end.
                if found or code != 0 or name == "an output is there":
                    break
            else:
                yield f"{number.name} when {name}: {ATTEMPTS} times the program ended before the signal"
    shutil.rmtree(folder)
