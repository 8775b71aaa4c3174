"""Trends of a service as it runs: counted by its keeper, and by the next one when that is killed."""

import signal
from collections import Counter
from os import kill
from pathlib import Path
from typing import Any

import pytest

from tests.services import Service, running_service, wait_for

TREND = "/v1/trends/clicks"


def send(service: Service, items: list[Any]) -> None:
    status, body = service.ask("POST", f"{TREND}/events", {"events": items})
    assert status == 202, body


def counts_of(service: Service) -> dict[str, int]:
    status, body = service.ask("GET", f"{TREND}/top?window=1d&limit=100")
    return {row["item"]: row["count"] for row in body["items"]} if status == 200 else {}


def wait_counted(service: Service, truth: Counter[str], within_s: float) -> None:
    wait_for(lambda: counts_of(service) == truth, within_s, f"{dict(truth)}, not {counts_of(service)}")


def test_events_come_in_and_the_board_comes_out(tmp_path: Path) -> None:
    with running_service(tmp_path / "data") as service:
        assert service.ask("PUT", TREND, {})[0] == 201
        send(service, ["a", "b", {"item": "a", "count": 4}])
        wait_counted(service, Counter(a=5, b=1), 5)
        metrics = service.ask("GET", "/metrics")[1]
        assert 'toptail_batch_items_count{route="events"} 1.0' in metrics
        counted = 'toptail_trend_events{fate="counted",trend="clicks"} 6.0'
        wait_for(lambda: counted in service.ask("GET", "/metrics")[1], 3, "six counted events")
        assert service.stop() == 0


@pytest.mark.slow
def test_a_killed_keeper_loses_nothing_and_counts_nothing_twice(tmp_path: Path) -> None:
    with running_service(tmp_path / "data") as service:
        assert service.ask("PUT", TREND, {"partitions": 3})[0] == 201
        truth: Counter[str] = Counter()
        for round_ in range(3):
            for number in range(40):
                items = [f"i{(number * each) % 17}" for each in range(50)]
                send(service, items)
                truth.update(items)
                if number == 20:  # some of it is folded and not written yet, some is in the streams
                    (keeper,) = service.children("service.keeping")
                    kill(keeper, signal.SIGKILL)
            wait_counted(service, truth, 20)
            assert service.children("service.keeping") != [keeper], round_
        restarts = 'toptail_restarts_total{process="keeper"} 3.0'
        wait_for(lambda: restarts in service.ask("GET", "/metrics")[1], 5, "three counted restarts")


@pytest.mark.slow
def test_what_was_taken_is_counted_after_a_restart_of_everything(tmp_path: Path) -> None:
    with running_service(tmp_path / "data") as service:
        assert service.ask("PUT", TREND, {})[0] == 201
        send(service, ["a", "a", "b"])
        service.process.kill()
    with running_service(tmp_path / "data") as again:
        send(again, ["b"])
        wait_counted(again, Counter(a=2, b=2), 15)
        assert again.stop() == 0
    with running_service(tmp_path / "data") as last:
        wait_counted(last, Counter(a=2, b=2), 15)
