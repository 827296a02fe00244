# SPDX-License-Identifier: Apache-2.0
"""INT and TERM at many moments: outputs are all there or none is, and nothing else is left."""

import json
import pathlib
import shutil
import signal
import subprocess
import time

OUTPUTS = ("plan.json", "trace.json", "table.csv")
MOMENTS = 12


def interrupt(command, folder, after, number):
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(after)
    process.send_signal(number)
    code = process.wait(timeout=60)
    left = {path.name for path in folder.iterdir()} - {"w.json"}
    if code not in (0, -number):
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
        stage["grid"] = {"x": 360, "y": 360}
    command = [tessera, "plan", "w.json", "--mechanism", "pdl", "-o", OUTPUTS[0], "--trace", OUTPUTS[1], "--csv",
               OUTPUTS[2]]

    def fresh():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "w.json").write_text(json.dumps(workload))

    fresh()
    began = time.time()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    whole = time.time() - began
    for moment in range(MOMENTS):
        number = (signal.SIGINT, signal.SIGTERM)[moment % 2]
        after = whole * (0.4 + 0.6 * moment / MOMENTS)
        fresh()
        for fault in interrupt(command, folder, after, number):
            yield f"{number.name} after {after:.2f} s: {fault}\n  cd {folder} && {' '.join(command)}"
    shutil.rmtree(folder)
