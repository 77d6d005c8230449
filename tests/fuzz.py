"""The fuzzer: random calls of the whole public API, with arguments that lie, change or raise midway.

    python tests/fuzz.py --seconds 300 --jobs 2         # or --calls N; --seed K for other calls
    python tests/fuzz.py --replay SEED                  # one call, printed and judged

Every call is made from one seed alone (fuzz_arguments.py), anew on each backend, and must end in a
clean exception or in the right bits (fuzz_judge.py). Calls run in processes of their own, which say
before each which it is: one that crashes, or does not end, is a finding like any other. Their
address space is bounded, so a call that asks for too much gets a MemoryError; under
AddressSanitizer, which maps terabytes itself, its own limits stand for that.
"""

import argparse
import collections
import contextlib
import faulthandler
import json
import mmap
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import fuzz_judge
from fuzz_arguments import WEIGHTED, make, public, show

ROOM = 2 << 30  # bytes of address space for a process's calls
HANG = 30.0 * fuzz_judge.PATIENCE  # seconds for a call, on a machine that has other things to do
_SPAN = 10**9  # seeds that belong to each --seed
_RECORD = struct.Struct("qd")  # the seed of the call that runs, and when it began
_SANITIZER = "allocator_may_return_null=1:max_allocation_size_mb=3000:hard_rss_limit_mb=8000"
_SHOWN = 5  # seeds of one kind of finding
# Calls of a process: arrays of objects are not collected where they refer to what holds them.
_LIFE = 20_000


class Finding(NamedTuple):
    seed: int
    call: str
    kind: str
    text: str


class Report:
    """What came of a run."""

    def __init__(self) -> None:
        self.calls = 0
        self.ends: collections.Counter[tuple[str, str]] = collections.Counter()  # call, outcome
        self.findings: dict[tuple[str, str, str], list[Finding]] = {}

    def add(self, finding: Finding) -> None:
        """Take a finding in, and print it if there was none like it."""
        same = self.findings.setdefault((finding.call, finding.kind, finding.text[:60]), [])
        same.append(finding)
        if len(same) == 1:
            print(f"{finding.call}: {finding.kind}: {finding.text}")
            print(f"    python tests/fuzz.py --replay {finding.seed}", flush=True)

    def print(self, seconds: float) -> None:
        print(f"{'call':32} {'calls':>8} {'results':>8}")
        for name in public():
            of = {end: count for (call, end), count in self.ends.items() if call == name}
            total = sum(of.values())
            share = f"{of.get('result', 0) / total:8.0%}" if total else ""
            print(f"{name:32} {total:8} {share}")
        for (name, kind, _), same in self.findings.items():
            seeds = ", ".join(str(each.seed) for each in same[:_SHOWN])
            print(f"{len(same)} of {name}: {kind}: {same[0].text:.90}: --replay {seeds}")
        print(
            f"\n{self.calls} calls in {seconds:.0f} s, {len(self.ends)} kinds of outcome, "
            f"{sum(map(len, self.findings.values()))} findings of {len(self.findings)} kinds"
        )


# --- a process that calls -------------------------------------------------------------------------


def work(record: str, first: int, last: int, step: int, seconds: float) -> None:
    """Make the calls of every `step`-th seed, and say in JSON what came of them."""
    until = time.monotonic() + seconds
    if fuzz_judge.SANITIZED:
        faulthandler.register(signal.SIGUSR1)
    else:
        faulthandler.enable()
        faulthandler.register(signal.SIGUSR1)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        room = pages * mmap.PAGESIZE + ROOM
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
    ends: collections.Counter[str] = collections.Counter()

    def tell(**what: object) -> None:
        print(json.dumps(what), flush=True)
        ends.clear()

    with open(record, "r+b") as file, mmap.mmap(file.fileno(), _RECORD.size) as now:
        for done, seed in enumerate(range(first, last, step)):
            _RECORD.pack_into(now, 0, seed, time.monotonic())
            if time.monotonic() > until:
                break
            try:
                outcomes, fault = fuzz_judge.check(seed)
            except MemoryError:  # the judge's own: that of a call is an outcome of it
                ends["?\tnot judged"] += 1
                continue
            name = outcomes[0].call.name
            ends[f"{name}\t{outcomes[0].kind}"] += 1
            if fault:
                tell(seed=seed, call=name, kind=fault.kind, text=fault.text, ends=ends)
                if fault.fatal:
                    break
            elif done % 100 == 99:
                tell(ends=ends)
        else:
            _RECORD.pack_into(now, 0, last, time.monotonic())
    tell(ends=ends)


# --- the process that watches ---------------------------------------------------------------------


class Worker:
    """A process that calls, its record and what it says."""

    def __init__(
        self, command: list[str], first: int, last: int, step: int, seconds: float
    ) -> None:
        self.first, self.last, self.step = first, last, step
        self.directory = tempfile.TemporaryDirectory()
        self.paths = [Path(self.directory.name, name) for name in ("record", "out", "err")]
        self.paths[0].write_bytes(_RECORD.pack(first, time.monotonic()))
        environment = dict(os.environ, PYTHONHASHSEED="0")
        if fuzz_judge.SANITIZED:
            own = os.environ.get("ASAN_OPTIONS", "")
            environment["ASAN_OPTIONS"] = f"{own}:{_SANITIZER}"
        with self.paths[1].open("w") as out, self.paths[2].open("w") as err:
            self.process = subprocess.Popen(
                [*command, "--work", str(self.paths[0]), *map(str, (first, last, step, seconds))],
                stdout=out,
                stderr=err,
                env=environment,
            )
        self.hung, self.seen = False, (first, 0.0)

    def ended(self) -> bool:
        now = _RECORD.unpack(self.paths[0].read_bytes())
        # Two looks that agree, as one may fall amid the writing.
        if now == self.seen and time.monotonic() - now[1] > HANG and self.process.poll() is None:
            self.hung = True
            self.process.send_signal(signal.SIGUSR1)  # to say where
            time.sleep(0.5)
            self.process.kill()
            self.process.wait()
        self.seen = now
        return self.process.poll() is not None

    def read(self, report: Report) -> int:
        """What it said, into the report; the first seed that is left."""
        told = None
        for line in self.paths[1].read_text().splitlines():
            said = json.loads(line)
            for end, count in said.pop("ends", {}).items():
                name, kind = end.split("\t")
                report.ends[name, kind] += count
            if said:
                report.add(Finding(**said))
                told = said["seed"]
        seed: int = _RECORD.unpack(self.paths[0].read_bytes())[0]
        if self.hung or self.process.returncode:
            words, kind = self._last_words(), f"crash ({self.process.returncode})"
            if self.hung or "MemoryError" in words:
                kind = "hang" if self.hung else "memory"
            report.add(Finding(seed, public_name(seed), kind, words))
            told = seed
        left = seed + self.step if told == seed else seed
        report.calls += (left - self.first) // self.step
        self.directory.cleanup()
        return left

    def _last_words(self) -> str:
        lines = self.paths[2].read_text(errors="replace").splitlines()
        marks = ("runtime error", "ERROR: AddressSanitizer", "Fatal Python error")
        found = [line for line in lines if any(mark in line for mark in marks)]
        ours = [line for line in lines if "posenc/" in line or "_core" in line]
        at = [line for line in ours or lines if "Extension modules" not in line]
        return " | ".join(
            map(str.strip, [*found[:1], *at[:3]] if found or self.hung else lines[-3:])
        )


def public_name(seed: int) -> str:
    """The name of a seed's call, which is drawn first."""
    return random.Random(seed).choice(WEIGHTED)


def hunt(
    command: list[str], first: int, calls: int, seconds: float, jobs: int, report: Report
) -> None:
    """Run the calls in `jobs` processes, and begin a new one after each that ends too early."""
    until, last = time.monotonic() + seconds, first + calls

    def begin(seed: int) -> Worker:
        end = min(last, seed + _LIFE * jobs)
        return Worker(command, seed, end, jobs, until - time.monotonic())

    running = [begin(first + job) for job in range(jobs)]
    try:
        while running:
            time.sleep(0.05)
            for worker in [worker for worker in running if worker.ended()]:
                running.remove(worker)
                left = worker.read(report)
                if left < last and time.monotonic() < until:
                    running.append(begin(left))
    finally:
        for worker in running:
            worker.process.kill()


def replay(seed: int) -> bool:
    """Print and judge one call; whether nothing is wrong with it."""
    with fuzz_judge.using(next(iter(fuzz_judge.backends()))):
        print(make(seed))
    outcomes, fault = fuzz_judge.check(seed)
    for outcome in outcomes:
        shown = show(outcome.result) if outcome.error is None else repr(outcome.error)
        print(f"{outcome.backend}: {shown} in {outcome.seconds:.3f} s")
    print(f"{fault.kind}: {fault.text}" if fault else "nothing is wrong")
    return fault is None


def without_valid_calls() -> Iterator[Finding]:
    """Public calls that `fuzz_arguments` cannot make."""
    for name in public():
        outcome = None
        for seed in range(20):
            outcome = fuzz_judge.run(seed, next(iter(fuzz_judge.backends())), name, spoil=False)
            if outcome.error is None:
                break
        else:
            assert outcome is not None
            yield Finding(-1, name, "no valid call", f"{outcome.error!r:.200}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="random calls of the whole public API, judged")
    parser.add_argument("--seconds", type=float, help="how long (default: until --calls are made)")
    parser.add_argument(
        "--calls", type=int, help="how many (default: 10000, or as --seconds allow)"
    )
    parser.add_argument("--seed", type=int, default=0, help="which calls (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes (default: 1)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="make and judge one call")
    parser.add_argument("--work", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.work:
        record, *numbers, seconds = given.work
        work(record, *map(int, numbers), float(seconds))  # type: ignore[call-arg]
        return 0
    if given.replay is not None:
        faulthandler.enable()
        return 0 if replay(given.replay) else 1
    begin, report = time.monotonic(), Report()
    calls = given.calls or (10_000 if given.seconds is None else _SPAN)
    for finding in without_valid_calls():
        report.add(finding)
    with contextlib.suppress(KeyboardInterrupt):
        command = [sys.executable, __file__]
        hunt(command, given.seed * _SPAN, calls, given.seconds or 1e9, given.jobs, report)
    report.print(time.monotonic() - begin)
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
