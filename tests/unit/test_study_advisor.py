"""The advisor: what is recommended, and what cannot be had."""

import json

import pytest
from click.testing import CliRunner

from experiments.study.advisor import Wish, advise, advise_trend, list_caveats, predict
from experiments.study.cli import experiments
from experiments.study.replica import sample_ranks
from hybrid.samples import PARTS, SLOPE
from hybrid.trends.config import MAX_CAPACITY, TrendConfig, check_config


@pytest.mark.parametrize("players", [1, 2, 1_000, 100_000, 10_000_000])
def test_samples_keep_to_the_rule(players: int) -> None:
    ranks = sample_ranks(players)
    assert ranks[0] == 0
    assert ranks[-1] == players - 1
    for before, after in zip(ranks[:-1].tolist(), ranks[1:].tolist(), strict=True):
        assert after - before <= max(1, players / PARTS + 1)
        assert after - before <= max(1, before / SLOPE + 1)


@pytest.mark.parametrize("players", [1, 50, 5_000, 1_000_000, 10**9])
def test_the_mean_width_is_no_more_than_the_widest(players: int) -> None:
    board = advise(Wish(players=players))
    assert 0 < board.mean_width_percent <= board.width_percent
    assert board.top_n <= players


def test_large_boards_are_spread_over_nodes() -> None:
    small, large = advise(Wish(players=1_000_000)), advise(Wish(players=10**9, node_gb=16))
    assert small.shards == 8
    assert large.shards >= 2 * large.total_bytes / 16e9
    assert large.shards & (large.shards - 1) == 0


def test_memory_grows_with_windows_names_and_events() -> None:
    plain = predict(Wish(players=100_000), 8)
    assert predict(Wish(players=100_000, windows=2), 8).records_bytes == 2 * plain.records_bytes
    assert predict(Wish(players=100_000, name_bytes=60), 8).records_bytes > plain.records_bytes
    assert predict(Wish(players=100_000, events=3.0), 8).log_bytes == pytest.approx(3 * plain.log_bytes, rel=1e-6)


def test_a_trend_has_counters_for_its_rows_and_its_error() -> None:
    wish = Wish(players=1, trend_items=2_000_000, trend_rows=500, trend_error_percent=0.01)
    trend = advise_trend(wish)
    assert trend.capacity >= 4 * 500
    assert trend.floor_percent <= 0.01
    check_config(TrendConfig(capacity=trend.capacity, windows=trend.windows))
    assert advise_trend(Wish(players=1, trend_items=2**40, trend_error_percent=1e-6)).capacity == MAX_CAPACITY
    assert advise_trend(Wish(players=1, trend_items=1000)).floor_percent == 0.0


def test_what_cannot_be_had_is_said() -> None:
    wish = Wish(players=1_000_000, max_width_percent=0.01, windows=5, leaders=2_000_000)
    lines = " ".join(list_caveats(wish, advise(wish)))
    assert "10,000 parts" in lines
    assert "at most 1,000,000 leaders" in lines
    assert "at most 4 windows" in lines
    assert list_caveats(Wish(players=1_000_000), advise(Wish(players=1_000_000))) == []


def test_advice_can_be_pasted() -> None:
    arguments = ["advise", "--players", "100e6", "--max-width", "0.1%", "--windows", "2", "--trend-items", "2e6"]
    done = CliRunner().invoke(experiments, arguments)
    assert done.exit_code == 0, done.output
    specs = [json.loads(line.split("-d '")[1].rstrip("'")) for line in done.output.splitlines() if "curl" in line]
    assert specs[0] == {"top_n": 10_000, "shards": 8, "windows": ["alltime", "daily"]}
    assert specs[1]["capacity"] == 1024
