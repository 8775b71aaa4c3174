"""Metrics for Prometheus, merged over all processes of a service.

A request bumps a few plain numbers. Once a second each process writes its numbers to a file in a directory that all of
them share, and whichever is asked adds the files up: counters and histograms as sums, gauges as the table says. Files
are named after what a process is, not after its pid: who takes the place of a dead one goes on from its counters.
"""

import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
ITEMS = (1.0, 10.0, 100.0, 1000.0, 10_000.0)

# name -> sentence, labels, and buckets of a histogram or how processes are merged
COUNTERS = {
    "toptail_requests": ("Requests by route and status", ("route", "status")),
    "toptail_scores": ("Scores by what became of them", ("status",)),
    "toptail_samples_taken": ("Shards sampled by the keeper", ()),
    "toptail_audited_standings": ("Standings that were compared with exact ones", ()),
    "toptail_audit_violations": ("Of these, not true within the events in between", ()),
    "toptail_restarts": ("Processes that died and were started again", ("process",)),
}
HISTOGRAMS = {
    "toptail_request_seconds": ("Time to answer", ("route",), SECONDS),
    "toptail_batch_items": ("Scores, players or events in a request", ("route",), ITEMS),
}
GAUGES: dict[str, tuple[str, tuple[str, ...], Callable[[Iterable[float]], float]]] = {
    "toptail_requests_in_flight": ("Requests being handled", (), sum),
    "toptail_keeper_tick_timestamp_seconds": ("When the keeper finished its last tick, since 1970", (), max),
    "toptail_keeper_lag_seconds": ("How long ago that was", (), max),
    "toptail_digest_age_seconds": ("Age of the oldest samples that are behind their shard", (), max),
    "toptail_trend_tick_timestamp_seconds": ("When trends were last folded, since 1970", (), max),
    "toptail_trend_events": ("Events of a trend so far: counted, late or capped", ("trend", "fate"), max),
    "toptail_trend_floor": ("The most that an item off the board can have in the first window", ("trend",), max),
    "toptail_redis_used_bytes": ("Memory that Redis uses", (), max),
    "toptail_audited_error_percent": ("Greatest error of a served percentile in the last audit", ("board",), max),
    "toptail_board_players": ("Players of boards that are being asked for", ("board",), max),
    "toptail_shard_players": ("Players of their largest shard", ("board",), max),
}

Labels = tuple[str, ...]
Rows = dict[str, dict[Labels, list[float]]]


@dataclass(slots=True, eq=False)
class Metrics(Collector):
    """The numbers of one process: a list a metric and labels; of a histogram its buckets, then the sum."""

    rows: Rows = field(default_factory=dict)
    folder: Path | None = None
    name: str = ""

    def add(self, name: str, *labels: str, by: float = 1.0) -> None:
        """Bump a counter."""
        self._row(name, labels, 1)[0] += by

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Count a value in its bucket."""
        buckets = HISTOGRAMS[name][2]
        row = self._row(name, labels, len(buckets) + 2)
        row[bisect_left(buckets, value)] += 1
        row[-1] += value

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge."""
        self._row(name, labels, 1)[0] = value

    def clear(self, name: str) -> None:
        """Forget a metric's labels: what is set next is all there is."""
        self.rows.pop(name, None)

    def save(self) -> None:
        """Write this process' numbers where the others find them."""
        if self.folder is None:
            return
        flat = [[name, list(labels), row] for name, rows in self.rows.items() for labels, row in rows.items()]
        draft = self._path.with_suffix(".draft")
        with suppress(FileNotFoundError):  # the folder is gone, and with it whoever would read this
            draft.write_bytes(msgspec.json.encode(flat))
            draft.replace(self._path)

    def resume(self) -> None:
        """Go on counting where a process of this name stopped, so that no counter ever falls."""
        if self.folder is not None and self._path.exists():
            self.rows = _merge(row for row in _load(self._path) if row[0] not in GAUGES)

    def render(self) -> bytes:
        """All processes together, as Prometheus reads it."""
        self.save()
        rows = _merge(_load_all(self.folder)) if self.folder else self.rows
        for (ticked_s,) in rows.get("toptail_keeper_tick_timestamp_seconds", {}).values():
            # Counted by whoever is asked: a keeper that hangs cannot say how late it is.
            rows["toptail_keeper_lag_seconds"] = {(): [max(0.0, time.time() - ticked_s)]}
        registry = CollectorRegistry()
        registry.register(Metrics(rows))
        return generate_latest(registry)

    def collect(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily | GaugeMetricFamily]:
        for name, (sentence, labels) in COUNTERS.items():
            counter = CounterMetricFamily(name, sentence, labels=labels)
            for values, row in self.rows.get(name, {}).items():
                counter.add_metric(values, row[0])
            yield counter
        for name, (sentence, labels, buckets) in HISTOGRAMS.items():
            histogram = HistogramMetricFamily(name, sentence, labels=labels)
            for values, row in self.rows.get(name, {}).items():
                histogram.add_metric(values, _cumulate(buckets, row), row[-1])
            yield histogram
        for name, (sentence, labels, _) in GAUGES.items():
            gauge = GaugeMetricFamily(name, sentence, labels=labels)
            for values, row in self.rows.get(name, {}).items():
                gauge.add_metric(values, row[0])
            yield gauge

    @property
    def _path(self) -> Path:
        return (self.folder or Path()) / f"{self.name or os.getpid()}.metrics"

    def _row(self, name: str, labels: Labels, length: int) -> list[float]:
        rows = self.rows.setdefault(name, {})
        row = rows.get(labels)
        if row is None:
            row = rows[labels] = [0.0] * length
        return row


def _cumulate(buckets: tuple[float, ...], row: list[float]) -> list[tuple[str, float]]:
    total, found = 0.0, []
    for end, count in zip((*map(str, buckets), "+Inf"), row, strict=False):
        total += count
        found.append((end, total))
    return found


def _load_all(folder: Path) -> Iterator[tuple[str, Labels, list[float]]]:
    for path in sorted(folder.glob("*.metrics")):
        yield from _load(path)


def _load(path: Path) -> Iterator[tuple[str, Labels, list[float]]]:
    for name, labels, row in msgspec.json.decode(path.read_bytes(), type=list[tuple[str, list[str], list[float]]]):
        yield name, tuple(labels), row


def _merge(found: Iterable[tuple[str, Labels, list[float]]]) -> Rows:
    merged: Rows = {}
    for name, labels, row in found:
        rows = merged.setdefault(name, {})
        merge: Callable[[Iterable[float]], float] = GAUGES[name][2] if name in GAUGES else sum
        before = rows.get(labels)
        rows[labels] = row if before is None else [merge((a, b)) for a, b in zip(before, row, strict=True)]
    return merged
