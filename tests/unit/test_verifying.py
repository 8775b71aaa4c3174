"""What an audit allows: as much as changed in between, and no more."""

from datetime import UTC, datetime
from typing import Any

import pytest

from service.verifying import Comparison, compare, summarise
from toptail import PercentileStanding, RankStanding

NOW = datetime(2026, 11, 18, tzinfo=UTC)
COMMON: dict[str, Any] = {"score": 5, "window": "alltime", "players": 1001, "as_of": NOW, "top_percent": 60.0}


def exact(**change: Any) -> RankStanding:
    return RankStanding(**{**COMMON, "rank": 501, "percentile": 50.0, "seq": 100, **change})


def served(**change: Any) -> PercentileStanding:
    given: dict[str, Any] = {"percentile": 50.0, "percentile_low": 49.9, "percentile_high": 50.1, "seq": 100}
    return PercentileStanding(**{**COMMON, "rank_low": 500, "rank_high": 502, **given, **change})


def violations(first: Any, second: RankStanding) -> list[str]:
    return Comparison("ann", first, second).violations()


def test_what_is_right_violates_nothing() -> None:
    assert violations(served(), exact()) == []
    assert violations(exact(), exact()) == []


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (served(), exact(rank=503), "rank 503 not in 500..502"),
        (served(), exact(rank=499), "rank 499"),
        (exact(), exact(rank=502), "rank 502"),
        (served(), exact(percentile=50.2), "percentile 50.2"),
        (exact(), exact(percentile=50.1), "percentile 50.1"),
        (served(percentile=51.0), exact(), "outside its own interval"),
        (served(players=1000), exact(), "1000 players, not 1001"),
        (served(top_percent=59.0), exact(), "claims more"),
    ],
)
def test_what_is_wrong_is_found_where_nothing_changed(first: Any, second: RankStanding, said: str) -> None:
    found = violations(first, second)
    assert any(said in one for one in found)


def test_each_change_in_between_allows_one_rank() -> None:
    assert violations(served(), exact(rank=505, seq=103)) == []
    assert violations(served(), exact(rank=506, seq=103)) != []
    assert violations(served(seq=103), exact(rank=497, seq=100)) == []
    assert violations(served(), exact(players=1004, seq=103)) == []
    assert violations(served(), exact(players=1005, seq=103)) != []


def test_each_change_in_between_allows_two_players_of_percentile() -> None:
    assert violations(served(), exact(percentile=50.1 + 0.2 * 3, seq=103)) == []
    assert violations(served(), exact(percentile=50.1 + 0.2 * 3 + 0.01, seq=103)) != []


def test_only_players_with_the_same_record_in_both_are_compared() -> None:
    pairs: list[tuple[Any, Any]] = [
        (served(), exact()),
        (None, exact()),
        (served(), None),
        (served(score=4), exact()),
        (served(at=NOW), exact()),
        (served(subscore=1), exact()),
        (served(window="daily:2026-11-18"), exact()),
    ]
    found = compare([str(number) for number in range(len(pairs))], *map(list, zip(*pairs, strict=True)))
    assert [row.player for row in found] == ["0"]


def test_the_table_has_a_line_for_each_tenth_and_one_for_all() -> None:
    rows = [
        Comparison("a", exact(rank=1, percentile=100.0), exact(rank=1, percentile=100.0)),
        Comparison("b", served(), exact(percentile=50.05)),
        Comparison("c", served(), exact(percentile=50.3, seq=101)),
        Comparison("counted", served(rank_low=501, rank_high=501, percentile_low=50.0, percentile_high=50.0), exact()),
        Comparison("d", served(rank_high=1001), exact(rank=1001)),
    ]
    first, middle, last, everyone = summarise(rows)
    assert (first.label, first.samples, first.leaders, first.coverage) == ("0-10 %", 1, 1, None)
    assert (middle.label, middle.samples, middle.estimates, middle.coverage) == ("40-50 %", 3, 2, 0.5)
    assert middle.max_error == pytest.approx(0.3)
    assert middle.mean_width == pytest.approx(0.2)
    assert last.label == "90-100 %"
    assert (everyone.label, everyone.samples, everyone.leaders) == ("all", 5, 1)
    assert summarise([]) == []
