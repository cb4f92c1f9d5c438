"""Runs in the sandbox as its first process: starts runners, feeds them, reads their clocks, compares what they wrote.

It is sent there as text and knows only the standard library. A candidate lives in a process of its own, with no right to
make another process or thread, and this one is closed to it: its clock, its seed and its findings are out of reach.
The clock of a runner is the CPU time of its whole process, read here through the kernel, from one call to the next: whatever
it does after it said that it was done, or before it was asked, counts.
"""

from __future__ import annotations

import base64
import ctypes
import fcntl
import json
import math
import mmap
import os
import random
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

ALIGN = 64
GUARD = 256
"""Bytes behind each array that nobody may write."""
SHIFTS = 16
"""Places of 64 bytes that an array's address may differ by from call to call."""
POISON, FENCE = 0x7F, 0xA5
KINDS = ("fresh", "fresh", "same place", "few changed")
"""What is new in a round: places and values; values; three values of each array. In every four rounds each comes up; the last
is left out where a maker draws values, which may hang together."""
_PAGE = 4096
PAUSE = 0.002
"""Seconds between rounds: what disturbs one shall not disturb the next."""
_NOT_DUMPABLE = (4, 0, 0, 0, 0)
_PROCESS_CPU = 2
_NOT_RANDOM = 0x0040000
"""ADDR_NO_RANDOMIZE"""
_PROGRAM, _PARKED = 6, 64
"""Descriptor of the program, whose name depends on it; descriptors from here on are free."""


_GLANCE = 0.2
"""Seconds between two looks at how much a runner that is waited for has computed."""


def quickest(times: Sequence[float]) -> float:
    """The lowest tenth: whatever disturbs a computation makes it slower."""
    return sorted(times)[len(times) // 10]


class Lost(Exception):
    """A runner died, or did not answer in time."""


class Starved(Lost):
    """It would have answered, but the machine gave it no time."""


class Runner:
    """A process that calls one kernel, and the memory shared with it."""

    def __init__(self, command: Sequence[str], size: int, plan: Mapping[str, Any]) -> None:
        """`command` is a program and its arguments, before those that say where arrays and pipes are: descriptors 3, 4, 5."""
        memory = os.memfd_create("arrays")
        os.ftruncate(memory, size)
        self._map = mmap.mmap(memory, size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        (ask, self._ask), (self._tell, tell) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _become(command, (memory, ask, tell), size, plan["memory_mb"])
        for fd in (memory, ask, tell):
            os.close(fd)
        self._clock = (~self.pid << 3) | _PROCESS_CPU
        self._deadline = time.clock_gettime(time.CLOCK_MONOTONIC) + plan["seconds"]
        self._cpu_seconds = plan["cpu_seconds"]
        self.wait()
        self.last = self.cpu()
        """Its clock when it was last done."""

    def cpu(self) -> int:
        """Nanoseconds of CPU time that its process has had."""
        return time.clock_gettime_ns(self._clock)

    def ask(self, dims: Sequence[int], scalars: Sequence[float], calls: Sequence[Sequence[int]]) -> None:
        if select.select([self._tell], [], [], 0)[0]:
            raise Lost("it says that it is done before it was asked")
        head = struct.pack(
            f"{4 + len(dims)}q{len(scalars)}d", len(calls), len(calls[0]), len(dims), len(scalars), *dims, *scalars
        )
        os.write(self._ask, head + b"".join(struct.pack(f"{len(call)}q", *call) for call in calls))

    def wait(self) -> None:
        """Until it says that it is ready. Raises Lost."""
        most = self.cpu() + int(self._cpu_seconds * 1e9)
        while not select.select([self._tell], [], [], _GLANCE)[0]:
            if self.cpu() > most:
                raise Lost(f"it computes for more than {self._cpu_seconds:g} s")
            if time.clock_gettime(time.CLOCK_MONOTONIC) > self._deadline:
                raise Starved("the machine is overloaded") if self._state() == "R" else Lost("it does not return")
        if os.read(self._tell, 1) != b"r":
            os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
            code = os.waitstatus_to_exitcode(status)
            raise Lost(f"its process ended by signal {-code}" if code < 0 else f"its process ended with status {code}")
        # The kernel counts a process's time exactly when it leaves the processor, and else by ticks.
        while self._state() == "R":
            if self.cpu() > most:
                raise Lost("it goes on after it said that it was done")
            os.sched_yield()

    def threads(self) -> int:
        return int(self._stat()[17])

    def _state(self) -> str:
        return self._stat()[0]

    def _stat(self) -> list[str]:
        """Fields of /proc/PID/stat behind the name."""
        with open(f"/proc/{self.pid}/stat") as stat:  # noqa: PTH123  pathlib takes longer to import than this to run
            return stat.read().rpartition(")")[2].split()


def _become(command: Sequence[str], shared: Sequence[int], size: int, memory_mb: int) -> None:
    """Of the child: nothing open but its own descriptors, no further process or thread, bounded memory.

    Two runners of one library are alike to the byte in where things lie, since that alone changes times by some per cent.
    """
    try:
        parked = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _PARKED) for fd in (os.open(os.devnull, os.O_RDWR), *shared)]
        for stream, fd in enumerate((parked[0], parked[0], *parked)):
            os.dup2(fd, stream)
        ctypes.CDLL(None).personality(_NOT_RANDOM)
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))
        arguments = [*command, "3", str(size), "4", "5"]
        if command[0].startswith("./"):
            os.dup2(_local(command[0]), _PROGRAM)
            os.execve(_PROGRAM, arguments, os.environ)
        os.execvp(command[0], arguments)
    finally:
        os._exit(4)


def _local(path: str) -> int:
    """A program of the working directory, whose files cannot be executed."""
    program = os.memfd_create("program")
    with open(path, "rb") as file:  # noqa: PTH123
        os.write(program, file.read())
    return program


class Arrays:
    """Where the arrays of each call lie in a runner's memory: every slot has room to shift them about."""

    def __init__(self, sizes: Sequence[int], slots: int) -> None:
        """`sizes` in bytes."""
        self.sizes = sizes
        self._starts: list[int] = []
        place = 0
        for _ in range(slots):
            for size in sizes:
                self._starts.append(place)
                place += -(-size // ALIGN) * ALIGN + GUARD + SHIFTS * ALIGN
        self.total = -(-place // _PAGE) * _PAGE

    def offsets(self, slot: int, shift: int) -> list[int]:
        first = slot * len(self.sizes)
        return [start + shift * ALIGN for start in self._starts[first : first + len(self.sizes)]]


class Bench:
    """Candidate and expert on the same values, by turns."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._rng = random.Random(plan["seed"])
        self._referee = ctypes.CDLL(os.path.abspath(plan["referee"]))  # noqa: PTH100
        self._referee.worst.restype = ctypes.c_double
        self._arrays: list[dict[str, Any]] = plan["arrays"]
        self._slots = Arrays([a["elements"] * a["width"] for a in self._arrays], plan["calls"])
        size = self._slots.total
        self._maker = Runner(plan["maker"], size, plan) if "maker" in plan else None
        """Draws the inputs, where they are not uniform."""
        self._kinds = KINDS if self._maker is None else KINDS[:-1]
        self._expert = Runner(plan["expert"], size, plan)
        # What the expert's process was started from is gone before anything of the candidate's runs.
        for path in plan["secret"]:
            os.unlink(path)  # noqa: PTH108
        self._candidate = Runner(plan["candidate"], size, plan)
        self._sides = (("expert", self._expert), ("candidate", self._candidate))
        self._processor = os.sched_getaffinity(0)
        self._shifts = [0] * plan["calls"]
        self._before: list[bytes] = []
        self._order: list[str] = []

    def run(self) -> dict[str, Any]:
        """Rounds until the ratio is known well enough, or a round shows what ends the matter."""
        rounds: list[dict[str, Any]] = []
        while len(rounds) < self._plan["most"] and not self._settled(rounds):
            time.sleep(PAUSE)
            rounds.append(self._round(len(rounds)))
            if rounds[-1]["error"] > 1 or rounds[-1]["input"] or rounds[-1]["fence"] or rounds[-1]["stale"]:
                break
        for name, runner in self._sides:
            gaps = [*(r.pop(f"{name}_before") for r in rounds), runner.cpu() - runner.last]
            for r, gap, after in zip(rounds, gaps, gaps[1:]):
                # To both of its neighbours, so that no round is cheap because another one did its work.
                r[f"{name}_aside"] = gap + after
        return {"rounds": rounds}

    def _settled(self, rounds: Sequence[dict[str, Any]]) -> bool:
        """Whether both halves say the same: what disturbed one did not disturb the other."""
        if len(rounds) < self._plan["least"]:
            return False
        halves = rounds[: len(rounds) // 2], rounds[len(rounds) // 2 :]
        ratios = [quickest([r["candidate"] for r in half]) / quickest([r["expert"] for r in half]) for half in halves]
        return abs(math.log(ratios[0] / ratios[1])) < self._plan["agreement"]

    def _round(self, number: int) -> dict[str, Any]:
        if number % len(self._kinds) == 0:
            self._order = [self._kinds[0], *self._rng.sample(self._kinds[1:], len(self._kinds) - 1)]
        kind = self._order[number % len(self._kinds)]
        calls = self._prepare(kind)
        times: dict[str, int] = {}
        for name, runner in self._sides[:: 1 if number % 2 else -1]:
            times[f"{name}_before"], times[name] = self._time(runner, calls)
        return {"kind": kind, **times, **self._compare(calls), "threads": self._candidate.threads()}

    def _time(self, runner: Runner, calls: Sequence[Sequence[int]]) -> tuple[int, int]:
        """CPU nanoseconds of a runner since its last window, and of this one."""
        os.sched_setaffinity(runner.pid, self._processor)
        last, before = runner.last, runner.cpu()
        runner.ask(self._plan["dims"], self._plan["scalars"], calls)
        runner.wait()
        runner.last = runner.cpu()
        return before - last, runner.last - before

    def _prepare(self, kind: str) -> list[list[int]]:
        """Values for both, and outputs that hold nothing."""
        calls: list[list[int]] = []
        for slot in range(self._plan["calls"]):
            if kind == "fresh":
                self._shifts[slot] = self._rng.randrange(SHIFTS)
            calls.append(self._slots.offsets(slot, self._shifts[slot]))
        if self._maker is not None:
            self._maker.ask([self._rng.getrandbits(62)], [], calls)
            self._maker.wait()
        for call in calls:
            for array, offset in zip(self._arrays, call):
                self._prepare_array(array, offset, kind)
        return calls

    def _prepare_array(self, array: dict[str, Any], offset: int, kind: str) -> None:
        ours, theirs = (ctypes.c_void_p(runner.address + offset) for runner in (self._expert, self._candidate))
        size = array["elements"] * array["width"]
        if array["output"]:
            ctypes.memset(ours, POISON, size)
            ctypes.memset(theirs, POISON, size)
        elif self._maker is not None:
            for side in (ours, theirs):
                ctypes.memmove(side, self._maker.address + offset, size)
        else:
            bounds = (ctypes.c_double(array["low"]), ctypes.c_double(array["high"]))
            seed = ctypes.c_uint64(self._rng.getrandbits(64))
            if kind == "few changed":
                self._referee.change(ours, ctypes.c_long(array["elements"]), seed, *bounds, ctypes.c_long(3))
            else:
                self._referee.fill(ours, ctypes.c_long(array["elements"]), seed, *bounds)
            ctypes.memmove(theirs, ours, size)
        ctypes.memset(self._candidate.address + offset + size, FENCE, GUARD)

    def _compare(self, calls: Sequence[Sequence[int]]) -> dict[str, Any]:
        """error: largest, as a multiple of what is allowed; input: one was changed; fence: a byte behind an array was;
        stale: outputs are those of the round before."""
        error, changed, fence = 0.0, False, False
        outputs: list[bytes] = []
        for call in calls:
            for array, offset in zip(self._arrays, call):
                ours, theirs = self._expert.address + offset, self._candidate.address + offset
                size = array["elements"] * array["width"]
                if array["output"]:
                    error = max(error, self._error(array, ours, theirs))
                    outputs.append(ctypes.string_at(theirs, size))
                else:
                    changed |= ctypes.string_at(ours, size) != ctypes.string_at(theirs, size)
                fence |= ctypes.string_at(theirs + size, GUARD) != bytes([FENCE]) * GUARD
        stale = error > 1 and any(output in self._before for output in outputs)
        self._before = outputs
        return {"error": min(error, 1e30), "input": changed, "fence": fence, "stale": stale}

    def _error(self, array: dict[str, Any], ours: int, theirs: int) -> float:
        if array["width"] != 4:
            size = array["elements"] * array["width"]
            return 0.0 if ctypes.string_at(ours, size) == ctypes.string_at(theirs, size) else math.inf
        pointers = (ctypes.c_void_p(theirs), ctypes.c_void_p(ours))
        allowed = (ctypes.c_double(array["absolute"]), ctypes.c_double(array["relative"]))
        return self._referee.worst(*pointers, ctypes.c_long(array["elements"]), *allowed)


def outputs(plan: dict[str, Any]) -> dict[str, Any]:
    """What the candidate writes for given inputs: for each case, for each output, its bytes in base64; and whether it wrote
    where it may not."""
    cases = [{**case, "arrays": [base64.b64decode(text) for text in case["arrays"]]} for case in plan["cases"]]
    slots = Arrays([max(len(case["arrays"][a]) for case in cases) for a in range(len(plan["outputs"]))], 1)
    runner = Runner(plan["candidate"], slots.total, plan)
    told: list[list[str]] = []
    changed, fence = False, False
    for number, case in enumerate(cases):
        offsets = slots.offsets(0, number % SHIFTS)
        for offset, data in zip(offsets, case["arrays"]):
            ctypes.memmove(runner.address + offset, data + bytes([FENCE]) * GUARD, len(data) + GUARD)
        runner.ask(case["dims"], case["scalars"], [offsets])
        runner.wait()
        told.append([])
        for offset, data, output in zip(offsets, case["arrays"], plan["outputs"]):
            seen = ctypes.string_at(runner.address + offset, len(data) + GUARD)
            fence |= seen[len(data) :] != bytes([FENCE]) * GUARD
            if output:
                told[-1].append(base64.b64encode(seen[: len(data)]).decode())
            else:
                changed |= seen[: len(data)] != data
    return {"outputs": told, "input": changed, "fence": fence}


def main() -> None:
    """The plan comes on standard input; the report is the one line on standard output that begins with its nonce."""
    plan = json.load(sys.stdin)
    ctypes.CDLL(None).prctl(*_NOT_DUMPABLE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.sched_setaffinity(0, {random.Random(plan["nonce"]).choice(sorted(os.sched_getaffinity(0)))})
    try:
        report = outputs(plan) if "cases" in plan else Bench(plan).run()
    except (Lost, BrokenPipeError) as lost:
        report = {"lost": str(lost) or "its process ended", "starved": isinstance(lost, Starved)}
    print("\n" + plan["nonce"] + json.dumps(report), flush=True)
    os._exit(0)
