"""What a run was made with: study, seed, kind of data, machine, versions, commit. No paths, no hosts."""

from dataclasses import dataclass

import msgspec

from experiments.bench.results import Stamp
from experiments.bench.stamp import make_stamp
from experiments.study.study import Job

PACKAGES = ("toptail", "numpy", "pyarrow", "datasketches", "matplotlib")


@dataclass(frozen=True, slots=True)
class Manifest:
    """`source` says what was measured: what is drawn or found, one's own data, or a live board."""

    study: str
    seed: int
    is_fast: bool
    source: str
    seconds: float
    stamp: Stamp


def make_manifest(name: str, job: Job, *, date: str, seconds: float) -> Manifest:
    return Manifest(name, job.seed, job.is_fast, _source(job), round(seconds, 1), make_stamp(date, PACKAGES))


def render_manifest(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def parse_manifest(text: bytes) -> Manifest:
    return msgspec.json.decode(text, type=Manifest)


def _source(job: Job) -> str:
    if job.board is not None:
        return "a live board"
    if job.data is not None:
        return f"own data, {len(job.data):,} rows"
    return "workloads.py"
