"""How far a run is: measuring code hands its steps to a `Track`, which passes them on and shows a bar."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

T = TypeVar("T")


class Track(Protocol):
    """Passes the steps of a job on, one by one."""

    def __call__(self, steps: Sequence[T], description: str) -> Iterable[T]: ...


def make_progress(console: Console) -> Progress:
    """One bar a job; use it as a context, and `make_track` of it inside."""
    columns = (TextColumn("{task.description:36}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console)


def make_track(progress: Progress) -> Track:
    def track(steps: Sequence[T], description: str) -> Iterable[T]:
        return progress.track(steps, description=description)

    return track
