#!/usr/bin/env python3
"""Runs fuzz targets on all cores until each has reached its executions, or its hour, over all runs together.

Knows libFuzzer's options and output; does not build targets and does not know what they test.

    cmake --preset fuzz-fast && cmake --build build/fuzz-fast       comparisons not traced: up to three times as fast
    tools/fuzz_total.py FOLDER --seconds 500 --first codec_zstd codec_lz4

FOLDER keeps ledger.txt (a line per target: executions and core seconds of all runs), the corpora, and found/ with the
inputs that failed and the end of the program's output. The program may be ended at any moment, also by a signal; the
next run with the same FOLDER continues, because the work of a process is in its log until it is in the ledger.

A free core is given to the target that lacks the most core seconds for each one that it has; targets named with --first
come before all others. The status is 1 if something was found.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

# `make fuzz` detects uses of a stack frame after its function returned. Here that would take half of the time, and for
# kernels that run as fibres nearly all of it.
ASAN_OPTIONS = "malloc_context_size=6:quarantine_size_mb=16:detect_stack_use_after_return=0"
GUESSED_RATE = 2000.0  # executions per core second of a target that never ran
BREAKS = re.compile(r"^(crash|timeout|oom|leak|slow-unit)-")
COUNTED = re.compile(rb"^#(\d+)\s", re.MULTILINE)
TOTAL = re.compile(rb"^stat::number_of_executed_units:\s*(\d+)", re.MULTILINE)


@dataclass
class Target:
    """Totals of one target over all runs."""

    name: str
    executions: int = 0
    core_seconds: float = 0.0
    broken: bool = False
    pieces: list[Piece] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.before = (self.executions, self.core_seconds)

    def rate(self) -> float:
        """The rate of this run if it is known yet; an earlier run may have been on another machine."""
        seconds = self.core_seconds - self.before[1]
        return (self.executions - self.before[0]) / seconds if seconds >= 5 else GUESSED_RATE

    def lacks(self, goal: Goal) -> float:
        """Core seconds until the goal, minus those of running pieces."""
        if self.broken:
            return 0.0
        executions = self.executions + sum(piece.executions() for piece in self.pieces)
        seconds = self.core_seconds + sum(piece.age() for piece in self.pieces)
        return max(0.0, min((goal.executions - executions) / self.rate(), goal.core_seconds - seconds))


@dataclass
class Goal:
    executions: int
    core_seconds: float


@dataclass
class Piece:
    """One process. Its log is named after its target, so that it can be counted after this process has ended."""

    process: subprocess.Popen
    log: Path
    begin: float

    def age(self) -> float:
        return time.monotonic() - self.begin

    def executions(self) -> int:
        return executions_in(self.log)


def executions_in(log: Path) -> int:
    """The total at the end of the log, or the last printed count if the process was killed."""
    try:
        text = log.read_bytes()
    except FileNotFoundError:
        return 0
    totals = TOTAL.findall(text) or COUNTED.findall(text)
    return int(totals[-1]) if totals else 0


class Ledger:
    """ledger.txt, which is replaced atomically."""

    def __init__(self, file: Path, names: list[str]):
        self.file = file
        self.targets = {name: Target(name) for name in names}
        for line in file.read_text().splitlines() if file.exists() else []:
            name, executions, seconds, *rest = line.split()
            self.targets[name] = Target(name, int(executions), float(seconds), "broken" in rest)

    def save(self) -> None:
        temporary = self.file.with_suffix(".new")
        with temporary.open("w") as out:
            for target in sorted(self.targets.values(), key=lambda target: target.name):
                broken = " broken" if target.broken else ""
                out.write(f"{target.name} {target.executions} {target.core_seconds:.0f}{broken}\n")
        temporary.replace(self.file)


class Run:
    """The processes of one run, up to `jobs` at a time until `end`."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.folder = options.folder.resolve()
        self.programs = options.programs.resolve()
        self.goal = Goal(options.executions, options.core_seconds)
        self.end = time.monotonic() + options.seconds
        self.names = options.targets or sorted(
            p.name for p in self.programs.iterdir() if os.access(p, os.X_OK) and p.is_file()
        )
        for part in ("corpus", "found", "logs"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self.ledger = Ledger(self.folder / "ledger.txt", self.names)
        self.started = 0
        self.stopping = False
        self.count_left_logs()

    def count_left_logs(self) -> None:
        """Adds the logs of a run that was killed."""
        for log in sorted((self.folder / "logs").glob("*.log")):
            name = log.name.split("@")[0]
            target = self.ledger.targets.setdefault(name, Target(name))
            target.executions += executions_in(log)
            target.core_seconds += log.stat().st_mtime - float(log.name.split("@")[1])
            log.unlink()
        self.ledger.save()

    def go(self) -> bool:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: setattr(self, "stopping", True))
        reported = time.monotonic()
        while not self.over():
            self.reap()
            while len(self.running()) < self.options.jobs and self.start_one():
                pass
            if not self.running():
                break
            if time.monotonic() - reported > 30:
                reported = time.monotonic()
                self.report()
            time.sleep(0.2)
        self.stop_all()
        self.report()
        return not any(self.ledger.targets[name].broken for name in self.names)

    def over(self) -> bool:
        return self.stopping or time.monotonic() >= self.end

    def running(self) -> list[Piece]:
        return [piece for name in self.names for piece in self.ledger.targets[name].pieces]

    def start_one(self) -> bool:
        """Starts a process of the target that lacks the most; false if all have reached their goal."""

        def want(target: Target) -> tuple[bool, float]:
            return target.name in self.options.first, target.lacks(self.goal) / (len(target.pieces) + 1)

        left = self.end - time.monotonic()
        lacking = [t for t in map(self.ledger.targets.get, self.names) if t.lacks(self.goal) / (len(t.pieces) + 1) > 1]
        if not lacking or left < 3:
            return False
        target = max(lacking, key=want)
        self.start(target, min(self.options.piece, left, target.lacks(self.goal) / (len(target.pieces) + 1) + 2))
        return True

    def start(self, target: Target, seconds: float) -> None:
        log = self.folder / "logs" / f"{target.name}@{time.time():.0f}@{os.getpid()}-{self.started}.log"
        self.started += 1
        corpus = self.folder / "corpus" / target.name
        corpus.mkdir(exist_ok=True)
        seeds = self.options.seeds / target.name
        command = [
            str(self.programs / target.name),
            f"-max_total_time={max(1, int(seconds))}",
            f"-max_len={self.options.max_len}",
            "-timeout=60",
            "-rss_limit_mb=3000",
            "-print_final_stats=1",
            f"-artifact_prefix={self.folder}/found/{target.name}-",
            str(corpus),
            *([str(seeds)] if seeds.is_dir() else []),
        ]
        with log.open("wb") as out:
            process = subprocess.Popen(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "ASAN_OPTIONS": ASAN_OPTIONS, "UBSAN_OPTIONS": "print_stacktrace=1"},
                start_new_session=True,  # a signal to this program's group must not reach the process
            )
        target.pieces.append(Piece(process, log, time.monotonic()))

    def reap(self) -> None:
        for name in self.names:
            target = self.ledger.targets[name]
            for piece in [piece for piece in target.pieces if piece.process.poll() is not None]:
                self.account(target, piece)

    def account(self, target: Target, piece: Piece) -> None:
        target.pieces.remove(piece)
        target.executions += piece.executions()
        target.core_seconds += piece.age()
        if piece.process.returncode not in (0, -signal.SIGKILL, -signal.SIGUSR1):
            target.broken = True
            print(f"{target.name} BROKE (status {piece.process.returncode}): see {self.folder}/found", flush=True)
            shutil.copy(piece.log, self.folder / "found" / f"{target.name}-{piece.log.name.split('@')[2]}")
        self.ledger.save()
        piece.log.unlink()

    def stop_all(self) -> None:
        """SIGUSR1 makes libFuzzer end after the current input and print its totals."""
        for piece in self.running():
            piece.process.send_signal(signal.SIGUSR1)
        patience = time.monotonic() + self.options.patience
        while self.running() and time.monotonic() < patience:
            self.reap()
            time.sleep(0.05)
        for piece in self.running():
            piece.process.kill()
            piece.process.wait()
        self.reap()

    def report(self) -> None:
        left = max(0.0, self.end - time.monotonic())
        print(f"-- {left:.0f} s left; target, executions, core s, a core s, still lacks core s")
        for name in self.names:
            t = self.ledger.targets[name]
            done = t.executions + sum(piece.executions() for piece in t.pieces)
            seconds = t.core_seconds + sum(piece.age() for piece in t.pieces)
            state = "BROKEN" if t.broken else "done" if t.lacks(self.goal) <= 1 else f"{t.lacks(self.goal):.0f}"
            print(f"{name:22} {done:12} {seconds:8.0f} {t.rate():8.0f} {state}")
        found = [p.name for p in (self.folder / "found").iterdir() if BREAKS.match(p.name.split("-", 1)[-1])]
        print(f"found: {' '.join(sorted(found)) or 'nothing'}", flush=True)


def parsed(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, required=True, help="of this run")
    parser.add_argument("--targets", nargs="+", default=[], metavar="TARGET", help="all programs if none is named")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--executions", type=int, default=10_000_000, help="of a target, in all runs")
    parser.add_argument("--core-seconds", type=float, default=3600, help="of a target that is too slow for them")
    parser.add_argument("--piece", type=float, default=60, help="most seconds of one process")
    parser.add_argument("--patience", type=float, default=10, help="seconds for processes to end by themselves")
    parser.add_argument("--first", nargs="+", default=[], metavar="TARGET", help="get cores before the others")
    parser.add_argument("--max-len", type=int, default=1024, help="bytes of an input")
    parser.add_argument("--programs", type=Path, default=Path("build/fuzz-fast/fuzz"))
    parser.add_argument("--seeds", type=Path, default=Path("fuzz/corpus"))
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(0 if Run(parsed(sys.argv[1:])).go() else 1)
