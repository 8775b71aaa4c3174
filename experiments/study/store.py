"""Results as files, a folder a study: tidy Parquet and the same as CSV, a manifest, the figure.

    churn/manifest.json  churn/error.parquet  churn/error.csv  churn/churn.svg

The figure is made from the Parquet files alone, by whoever has them.
"""

from dataclasses import dataclass
from pathlib import Path

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from experiments.bench.results import ROOT
from experiments.study.catalog import STUDIES
from experiments.study.manifest import Manifest, parse_manifest, render_manifest
from experiments.study.plots import render_svg, style
from experiments.study.study import Study, Tables

FOLDER = ROOT / "experiments" / "results" / "studies"
OWN_FOLDER = Path("toptail-experiments")  # of runs that are not ours to keep

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Stored:
    """What a run found, and what it was made with."""

    tables: Tables
    manifest: Manifest


def save_run(folder: Path, tables: Tables, manifest: Manifest) -> None:
    """Everything that was measured; what an earlier run left in the folder is gone."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in [path for suffix in ("parquet", "csv", "svg") for path in folder.glob(f"*.{suffix}")]:
        old.unlink()
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
        pa_csv.write_csv(table, folder / f"{name}.csv")
    (folder / MANIFEST).write_bytes(render_manifest(manifest))


def list_runs(folder: Path) -> list[str]:
    """The studies that have results here, in the order in which they are told."""
    return [name for name in STUDIES if (folder / name / MANIFEST).exists()]


def load_run(folder: Path) -> Stored:
    tables = {path.stem: pq.read_table(path) for path in sorted(folder.glob("*.parquet"))}
    return Stored(tables, parse_manifest((folder / MANIFEST).read_bytes()))


def save_figure(folder: Path, study: Study) -> Path:
    """Draw what is stored in the folder."""
    path = folder / f"{study.name}.svg"
    with style():
        path.write_bytes(render_svg(study.draw(load_run(folder).tables)))
    return path
