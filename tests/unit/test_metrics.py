"""Metrics of several processes: added up, and never falling when one takes another's place."""

import time
from pathlib import Path

from service.metrics import Metrics


def value_of(metrics: Metrics, name: str) -> float:
    """What Prometheus would read."""
    return next(float(line.split(" ")[-1]) for line in metrics.render().decode().splitlines() if line.startswith(name))


def test_counters_and_histograms_of_all_processes_add_up(tmp_path: Path) -> None:
    one, two = Metrics(folder=tmp_path, name="worker-0"), Metrics(folder=tmp_path, name="worker-1")
    for metrics, count in ((one, 2), (two, 3)):
        for _ in range(count):
            metrics.add("toptail_requests", "GET /", "200")
            metrics.observe("toptail_request_seconds", 0.5, "GET /")
        metrics.save()
    for metrics in (one, two):
        assert value_of(metrics, 'toptail_requests_total{route="GET /",status="200"}') == 5
        assert value_of(metrics, 'toptail_request_seconds_count{route="GET /"}') == 5
        assert value_of(metrics, 'toptail_request_seconds_sum{route="GET /"}') == 2.5
        assert value_of(metrics, 'toptail_request_seconds_bucket{le="0.25",route="GET /"}') == 0


def test_who_takes_a_place_goes_on_counting(tmp_path: Path) -> None:
    before = Metrics(folder=tmp_path, name="worker-0")
    before.add("toptail_requests", "GET /", "200", by=7)
    before.set("toptail_requests_in_flight", 3)
    before.save()
    after = Metrics(folder=tmp_path, name="worker-0")
    after.resume()
    after.add("toptail_requests", "GET /", "200")
    assert value_of(after, "toptail_requests_total{") == 8
    assert "toptail_requests_in_flight 3" not in after.render().decode()


def test_the_first_of_its_name_has_nothing_to_resume(tmp_path: Path) -> None:
    metrics = Metrics(folder=tmp_path, name="keeper")
    metrics.resume()
    assert metrics.rows == {}


def test_a_keeper_that_hangs_is_seen_to_be_late(tmp_path: Path) -> None:
    keeper, worker = Metrics(folder=tmp_path, name="keeper"), Metrics(folder=tmp_path, name="worker-0")
    keeper.set("toptail_keeper_tick_timestamp_seconds", time.time() - 100)
    keeper.save()
    assert 100 <= value_of(worker, "toptail_keeper_lag_seconds") < 160


def test_a_folder_that_is_gone_is_no_failure(tmp_path: Path) -> None:
    Metrics(folder=tmp_path / "gone", name="keeper").save()
