"""Checks the files of hosted CI: each step is a `make` target of this Makefile with variables that it reads, and jobs,
expressions and schedules are well formed. Also runs `actionlint` if it is installed. Uses no network.

usage: check_workflows.py [FOLDER]      the status is 1 if something is wrong
"""

from __future__ import annotations

import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
# A container starts without git and make.
_BEFORE_MAKE = re.compile(r"apt-get update && apt-get install -y --no-install-recommends [\w -]+")
_EVENTS = {"push", "pull_request", "schedule", "workflow_dispatch"}
_CRON = re.compile(r"[\d*/,-]+( [\d*/,-]+){4}")
_EXPRESSION = re.compile(r"\$\{\{ *(.*?) *\}\}")
_KNOWN_CONTEXTS = {"github.ref"}


def made(makefile: str) -> tuple[set[str], set[str]]:
    """The phony targets of a Makefile, and the variables that it reads."""
    targets = {word for line in re.findall(r"^\.PHONY: *(.+)$", makefile, re.M) for word in line.split()}
    return targets, set(re.findall(r"\$\(([A-Z_]+)\)", makefile))


def faults(workflow: Any, targets: set[str], variables: set[str]) -> list[str]:
    """One line for each thing that is wrong with a parsed workflow."""
    found = []
    events = workflow.get("on", workflow.get(True)) or {}  # YAML 1.1 reads a bare `on` as true
    found += [f"unknown event {event}" for event in events if event not in _EVENTS]
    for entry in events.get("schedule") or []:
        if not _CRON.fullmatch(entry.get("cron", "")):
            found.append(f"cron {entry.get('cron')!r} does not have five fields")
    if "permissions" not in workflow:
        found.append("no permissions are set, so the token has write access")
    jobs = workflow.get("jobs") or {}
    if not jobs:
        found.append("there are no jobs")
    for name, job in jobs.items():
        found += [f"job {name}: {fault}" for fault in _job_faults(job, set(jobs), targets, variables)]
    return found


def _job_faults(job: Any, jobs: set[str], targets: set[str], variables: set[str]) -> Iterator[str]:
    for key in ("runs-on", "timeout-minutes", "steps"):
        if key not in job:
            yield f"{key} is missing"
    needs = job.get("needs") or []
    for needed in [needs] if isinstance(needs, str) else needs:
        if needed not in jobs:
            yield f"needs {needed}, which is not a job"
    matrix = (job.get("strategy") or {}).get("matrix") or {}
    for values in matrix.values():
        for value in values:
            if not isinstance(value, str):
                yield f"matrix value {value!r} is not quoted: 3.10 would become 3.1"
    known = _KNOWN_CONTEXTS | {f"matrix.{key}" for key in matrix}
    for expression in _EXPRESSION.findall(str(job)):
        if expression not in known:
            yield f"unknown expression {expression}"
    for step in job.get("steps") or []:
        if ("uses" in step) == ("run" in step):
            yield f"a step must have one of `uses` and `run`: {step}"
        elif "uses" in step:
            if not re.fullmatch(r"[\w.-]+/[\w./-]+@(v\d+|[0-9a-f]{40})", step["uses"]):
                yield f"{step['uses']} names no version"
        else:
            yield from _command_faults(step["run"], targets, variables)


def _command_faults(run: str, targets: set[str], variables: set[str]) -> Iterator[str]:
    for line in filter(None, map(str.strip, run.splitlines())):
        words = shlex.split(_EXPRESSION.sub("x", line))
        if words[0] == "sudo":
            words = words[1:]
        if words[:1] != ["make"]:
            if not _BEFORE_MAKE.fullmatch(line):
                yield f"`{line}` is not a make target"
            continue
        goals = [word for word in words[1:] if "=" not in word]
        if not goals:
            yield f"`{line}` names no target"
        yield from (f"`{line}`: the Makefile has no target {goal}" for goal in goals if goal not in targets)
        set_here = [word.partition("=")[0] for word in words[1:] if "=" in word]
        yield from (f"`{line}`: the Makefile reads no variable {name}" for name in set_here if name not in variables)


def main() -> None:
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".github" / "workflows"
    targets, variables = made((ROOT / "Makefile").read_text())
    paths = sorted(folder.glob("*.yml"))
    found = [
        f"{path.name}: {fault}"
        for path in paths
        for fault in faults(yaml.safe_load(path.read_text()), targets, variables)
    ]
    if found or not paths:
        sys.exit("\n".join(found) or f"{folder} has no workflows")
    if actionlint := shutil.which("actionlint"):
        subprocess.run([actionlint, *map(str, paths)], check=True, timeout=120)
    print(f"{len(paths)} workflows: each step is a make target" + ("; actionlint agrees" if actionlint else ""))


if __name__ == "__main__":
    main()
