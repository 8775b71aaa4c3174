"""The experiments by name, in the order in which they are told; imported when they are asked for."""

from importlib import import_module

from experiments.study.study import Study

STUDIES = (
    *("churn", "coverage", "spacing", "drift", "seam", "batches", "surge", "served", "advisor"),
    *("ranks", "ties", "merging", "orders", "heavy", "countmin", "limits"),
)


def load_study(name: str) -> Study:
    study: Study = import_module(f"experiments.studies.{name}").STUDY
    return study


def load_all() -> list[Study]:
    return [load_study(name) for name in STUDIES]
