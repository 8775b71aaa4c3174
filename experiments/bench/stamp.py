"""What a figure was measured on: processor, Python, packages, commit. No host names, no paths."""

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from experiments.bench.results import ROOT, Stamp


def make_stamp(date: str, packages: Sequence[str]) -> Stamp:
    return Stamp(
        date=date,
        cpu=_cpu(),
        cores=os.cpu_count() or 1,
        python=platform.python_version(),
        packages={name: _version(name) for name in packages},
        commit=_commit(),
    )


def render_machine(stamp: Stamp, seed: int, *others: str) -> str:
    """A sentence with everything that the stamp knows, and what else took part."""
    taking_part = ", ".join([*others, *(f"{name} {version}" for name, version in stamp.packages.items())])
    return (
        f"Measured {stamp.date} on {stamp.cpu}, {stamp.cores} cores, Python {stamp.python}, commit {stamp.commit}, "
        f"first seed {seed}, with {taking_part}."
    )


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """The commit, with "-dirty" when tracked files differ from it; "unknown" outside a clone."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    command = [git, "--no-optional-locks", "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() or "unknown"
