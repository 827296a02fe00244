# SPDX-License-Identifier: Apache-2.0
"""The command `tessera` of the package: the executable's bytes, exit codes and signals."""

import os
import signal
import subprocess
import sys
import unittest

from support import Folder

COMMAND = [sys.executable, "-m", "tessera"]


def both(*words, **options):
    """What executable and package answer: exit code, standard output, standard error."""
    answers = []
    for program in ([os.environ["TESSERA_BINARY"]], COMMAND):
        run = subprocess.run([*program, *words], capture_output=True, text=True, **options)
        answers.append((run.returncode, run.stdout, run.stderr))
    return answers


class CommandLine(unittest.TestCase):
    def test_same_answers(self):
        for words in (
            ["--version"],
            ["--help"],
            ["plan", "--help"],
            ["plan", "llama-65b", "--tokens", "768", "--tp", "8"],
            ["plan", "llama-65b", "--tokens", "1,64", "--json"],
            ["check", "jacobi", "--iterations", "3"],
            ["explain", "E0103"],
            [],
            ["plam"],
            ["plan", "llama-66b"],
            ["simulate", "nothing.json"],
        ):
            with self.subTest(words):
                executable, package = both(*words)
                self.assertEqual(package, executable)

    def test_standard_input_and_files(self):
        with Folder() as at:
            for program, name in (([os.environ["TESSERA_BINARY"]], "one.json"), (COMMAND, "two.json")):
                subprocess.run([*program, "-q", "plan", "two-gemms", "-o", at(name)], check=True, stdout=subprocess.DEVNULL)
            with open(at("one.json"), "rb") as one, open(at("two.json"), "rb") as two:
                plan = one.read()
                self.assertEqual(two.read(), plan)
            executable, package = both("simulate", "-", input=plan.decode())
            self.assertEqual(package, executable)
            self.assertEqual(package[0], 0)

    def test_what_needs_a_gpu_says_where_it_looked(self):
        run = subprocess.run([*COMMAND, "tune", "llama-65b", "--tokens", "1"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 3)
        self.assertIn("E0936", run.stderr)

    def test_a_reader_that_leaves_ends_it_quietly(self):
        reading, writing = os.pipe()
        os.close(reading)
        run = subprocess.Popen([*COMMAND, "plan", "two-gemms"], stdout=writing, stderr=subprocess.PIPE)
        os.close(writing)
        _, said = run.communicate()
        self.assertEqual((run.returncode, said), (-signal.SIGPIPE, b""))

    def test_ctrl_c_ends_it(self):
        # Standard input that never comes: the command waits until it is interrupted.
        # What a shell starts in the background ignores interrupts, and what it starts does: not here.
        run = subprocess.Popen([*COMMAND, "simulate", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        while not handles(run.pid, signal.SIGPIPE):
            self.assertIsNone(run.poll())
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(timeout=60), -signal.SIGINT)
        self.assertEqual(run.stderr.read(), b"")
        run.stdin.close()
        run.stderr.close()


def handles(process, number):
    """Has the command line taken over? It makes SIGPIPE end the process, which Python ignores."""
    with open(f"/proc/{process}/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    ignored, caught = (int(fields[name], 16) for name in ("SigIgn", "SigCgt"))
    started = caught & (1 << (signal.SIGTERM - 1))
    return started and not ignored & (1 << (number - 1))


if __name__ == "__main__":
    unittest.main()
