# SPDX-License-Identifier: Apache-2.0
"""The package: what importing costs and brings in, stubs, leaks, the interpreter's lock."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
import unittest

import tessera
from support import ROOT, python

IMPORT_BUDGET_MS = 15  # over the interpreter
PLAN_BUDGET_MS = 120  # LLaMA-65B's MLP
CHECK_BUDGET_MS = 1  # a pair of GEMMs


def processor_ms(code):
    """Processor time of a fresh interpreter that runs `code`: the least of several."""

    # Not os.times(), which counts hundredths of a second.
    def of_children():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (used.ru_utime + used.ru_stime) * 1e3

    def once():
        before = of_children()
        subprocess.run([sys.executable, "-c", code], check=True)
        return of_children() - before

    return min(once() for _ in range(7))


class Package(unittest.TestCase):
    def test_importing_is_cheap(self):
        # Beside load both numbers jump by more than the budget: what is dear is dear every time.
        taken = [processor_ms("import tessera") - processor_ms("")]
        while taken[-1] >= IMPORT_BUDGET_MS and len(taken) < 5:
            taken.append(processor_ms("import tessera") - processor_ms(""))
        self.assertLess(taken[-1], IMPORT_BUDGET_MS, taken)

    def test_importing_brings_nothing_in(self):
        code, brought, _ = python(
            "import sys; before = set(sys.modules); import tessera; print(*sorted(set(sys.modules) - before))"
        )
        self.assertEqual(code, 0)
        self.assertEqual({name.split(".")[0] for name in brought.split()} - set(sys.stdlib_module_names), {"tessera"})

    def test_planning_is_cheap(self):
        work = tessera.workload("llama-65b", tokens=768, tp=8)

        def once():
            before = time.process_time()
            tessera.plan(work, "h200")
            return (time.process_time() - before) * 1e3

        self.assertLess(min(once() for _ in range(9)), PLAN_BUDGET_MS)

    def test_checking_a_pair_is_cheap(self):
        work = tessera.workload("two-gemms")

        def once():
            before = time.process_time()
            tessera.check(work)
            return (time.process_time() - before) * 1e3

        self.assertLess(min(once() for _ in range(9)), CHECK_BUDGET_MS)

    def test_nothing_leaks(self):
        code, _, complaints = python(
            "import tessera\n"
            "def work():\n"
            "    p = tessera.Pipeline('p'); x = p.dim('x')\n"
            "    a = p.stage('a', {x: 4}); p.stage('b', {x: 4})[x].reads(a[:], policy=lambda x, y, z, w: 0)\n"
            "    plan = tessera.plan(p); tessera.simulate(plan)._repr_html_()\n"
            "    try: tessera.machine('nothing')\n"
            "    except tessera.Error as error: return plan, error\n"
            "kept = work()\n"
        )
        self.assertEqual((code, complaints), (0, ""))

    def test_memory_stays(self):
        code, grown, _ = python(
            "import resource, tessera\n"
            "def often(times):\n"
            "    for _ in range(times): tessera.simulate(tessera.plan('two-gemms')).to_json()\n"
            "    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "print(often(20) * -1 + often(100))\n"
        )
        self.assertEqual(code, 0)
        self.assertLess(int(grown), 8 * 1024)  # KiB

    def test_planning_lets_other_threads_run(self):
        # Nobody is asked to give the lock back: the other thread runs only while it is let go.
        ticks, done = [0], threading.Event()

        def tick():
            while not done.is_set():
                ticks[0] += 1
                time.sleep(0)

        interval = sys.getswitchinterval()
        sys.setswitchinterval(3600)
        other = threading.Thread(target=tick)
        other.start()
        try:
            work, patience, seen = tessera.workload("llama-65b", tokens=768, tp=8), 50, False
            while not seen and patience > 0:
                before = ticks[0]
                tessera.plan(work)
                seen, patience = ticks[0] > before, patience - 1
        finally:
            done.set()
            other.join()
            sys.setswitchinterval(interval)
        self.assertTrue(seen)

    def test_threads_agree(self):
        work = tessera.workload("llama-3-8b", tokens=64)
        found = []
        threads = [threading.Thread(target=lambda: found.append(str(tessera.plan(work)))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [str(tessera.plan(work))] * 4)

    def test_an_interrupt_ends_planning(self):
        work = tessera.workload("llama-65b", tokens=768, tp=8)

        def taken(call):
            before = time.process_time()
            call()
            return time.process_time() - before

        def interrupted():
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            with self.assertRaises(KeyboardInterrupt):
                tessera.plan(work)
                time.sleep(60)  # for an alarm that comes late

        def stop(*_):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, stop)
        try:
            whole = min(taken(lambda: tessera.plan(work)) for _ in range(3))
            self.assertLess(min(taken(interrupted) for _ in range(5)), whole / 2)
        finally:
            signal.signal(signal.SIGALRM, before)

    def test_version(self):
        with open(os.path.join(ROOT, "CMakeLists.txt")) as file:
            self.assertIn(f"project(tessera VERSION {tessera.__version__} ", file.read())

    def test_everything_public_is_exported_and_said(self):
        core = {name for name in dir(tessera._core) if not name.startswith("_")}
        self.assertEqual(core - set(dir(tessera)), {"run_command_line", "version"})
        self.assertEqual(set(tessera.__all__) - core, {"Error"})
        self.assertEqual(core - set(tessera.__all__), {"run_command_line", "version", "min", "max"})
        for name in core:
            self.assertTrue(getattr(tessera._core, name).__doc__, name)


class Stubs(unittest.TestCase):
    def test_stubs_are_those_of_the_extension(self):
        try:
            from nanobind import stubgen
        except ImportError:
            self.skipTest("nanobind is not on the path")
        stub = stubgen.StubGen(tessera._core, quiet=True)
        stub.put(tessera._core)
        with open(os.path.join(ROOT, "python", "tessera", "_core.pyi")) as file:
            self.assertEqual(
                stub.get(),
                file.read(),
                "write them anew: PYTHONPATH=build/<preset>/python:build/python "
                "python3 -m nanobind.stubgen -m tessera._core -o python/tessera/_core.pyi",
            )
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(tessera.__file__), "py.typed")))


if __name__ == "__main__":
    unittest.main()
