"""The record's part of the benchmark: it measures every way to write on a Redis of its own, and loses nothing."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from experiments.bench import durability, flights, memory, raw, record_part, stands, writes
from experiments.bench.batches import draw_players, make_batches, name_of
from experiments.bench.boards import count_groups, list_logs, list_records
from experiments.bench.budgets import is_broken
from experiments.bench.catalog import PARTS, RECORD, load_part
from experiments.bench.cli import bench
from experiments.bench.parts import Job
from experiments.bench.record_budgets import make_budgets
from experiments.bench.record_report import render_sections
from experiments.bench.record_results import FAST, FULL, Results, load_results, parse_results
from experiments.bench.results import FOLDER, ROOT, render_results
from experiments.bench.servers import open_server
from hybrid.config import BoardConfig
from hybrid.engine import Engine
from hybrid.keys import Keys
from hybrid.link import Node, parse_url
from hybrid.log import parse_entry
from hybrid.servers import find_server

COMMITTED = FOLDER / "record.json"


@pytest.fixture(scope="module")
def fast_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `toptail bench record --fast --out FOLDER` saves."""
    out, data = tmp_path_factory.mktemp("bench"), tmp_path_factory.mktemp("data")
    options = ["--fast", "--out", str(out), "--data", str(data), "--date", "2026-01-02"]
    done = CliRunner().invoke(bench, ["record", *options])
    assert done.exit_code == 0, done.output
    assert "Figures to reach" in done.output
    assert not list(data.iterdir())
    return out / "record.json"


@pytest.fixture(scope="module")
def fast(fast_file: Path) -> Results:
    return load_results(fast_file)


@pytest.fixture
def finds(monkeypatch: pytest.MonkeyPatch) -> Callable[[Results], None]:
    """Makes the next run find the given results at once."""
    return lambda found: monkeypatch.setattr(record_part, "measure", lambda *_: found)


def test_a_fast_run_measures_every_way_to_write(fast: Results) -> None:
    names = [contestant.name for contestant in writes.CONTESTANTS]
    assert [(row.contestant, row.in_flight) for row in fast.writes] == [(name, n) for n in (8, 2) for name in names]
    assert all(row.seconds > 0 and row.python_s > 0 and row.missing == 0 for row in fast.writes)
    ways = [(8, 100), (FAST.callers, 1), (1, 1)]
    levels = [(fsync, *way) for way in ways for fsync in durability.LEVELS]
    assert [(row.fsync, row.callers, row.batch) for row in fast.submits] == levels
    assert all(0 < row.p50_s <= row.p99_s and row.missing == 0 for row in fast.submits)


def test_a_lone_caller_has_a_group_for_each_submit_and_many_callers_share_theirs(fast: Results) -> None:
    for row in fast.submits:
        assert row.scripts >= row.groups
        if row.callers == 1:
            assert row.groups == row.submits
        elif row.batch == 1:
            assert row.groups < row.submits


def test_every_key_is_weighed_once_and_by_both_scales(fast: Results) -> None:
    fills = [fill.name for fill in memory.list_fills(FAST)]
    kinds = (*memory.KINDS, memory.PLAIN)
    assert [(row.fill, row.kind) for row in fast.memory] == [(fill, kind) for fill in fills for kind in kinds]
    rows = {(row.fill, row.kind): row for row in fast.memory}
    assert rows[memory.MANY, memory.RECORDS].keys == rows[memory.MANY, memory.PLAIN].keys == 8
    assert rows[memory.MANY, memory.TOKENS].keys == 0
    assert rows[memory.MANY_IDS, memory.TOKENS].keys == 8
    for fill in (memory.MANY, memory.MANY_IDS):
        for kind in (memory.RECORDS, memory.LOG, memory.PLAIN):
            row = rows[fill, kind]
            assert row.freed_bytes == pytest.approx(row.usage_bytes, rel=0.2)


def test_keys_are_sorted_by_kind_and_strangers_are_the_rest() -> None:
    stem = b"tt:{abc/1.0}"
    keys = [stem + end for end in (b":rec:alltime", b":day:20000", b":log", b":min:9", b":meta")]
    found = memory.sort_keys([*keys, b"tt:{abc}:top:alltime", b"tt:{abc}:state", b"tt:boards"])
    sizes = dict.fromkeys(memory.KINDS, 1) | {memory.TOP: 2, memory.REST: 2}
    assert {kind: len(names) for kind, names in found.items()} == sizes


def test_the_stamp_names_the_server_and_its_version_and_no_path(fast_file: Path, fast: Results) -> None:
    server = find_server()
    assert fast.server == f"{server.name}-server {'.'.join(map(str, server.version))}"
    assert fast.stamp.date == "2026-01-02"
    assert {"redis", "hiredis", "uvloop"} <= fast.stamp.packages.keys()
    assert str(ROOT) not in fast_file.read_text(encoding="utf-8")


def test_results_come_back_from_json_as_they_were(fast: Results) -> None:
    assert parse_results(render_results(fast)) == fast


def test_a_fast_run_does_not_touch_the_committed_results(fast: Results, finds: Callable[[Results], None]) -> None:
    before = COMMITTED.read_bytes()
    finds(fast)
    assert CliRunner().invoke(bench, ["record", "--fast"]).exit_code == 0
    assert COMMITTED.read_bytes() == before


def test_the_committed_results_are_of_a_full_run() -> None:
    assert load_results(COMMITTED).sizes == FULL


def test_without_a_name_all_parts_are_measured_and_saved(
    fast: Results, finds: Callable[[Results], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    others = {name: load_part(name) for name in PARTS if name != RECORD}
    saved = {name: part.parse_results((FOLDER / f"{name}.json").read_text("utf-8")) for name, part in others.items()}
    for name, part in others.items():
        monkeypatch.setattr(part, "measure", lambda *_, found=saved[name]: found)
    finds(fast)
    missed = any(is_broken(part.make_budgets(saved[name])) for name, part in others.items())
    assert CliRunner().invoke(bench, ["--fast", "--out", str(tmp_path)]).exit_code == int(missed)
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.json" for name in PARTS}


@pytest.mark.parametrize(
    ("arguments", "quoted"), [(["records"], "'records'"), (["record", "--render"], "takes no 'record'")]
)
def test_a_wrong_part_is_refused_and_quoted(arguments: list[str], quoted: str) -> None:
    done = CliRunner().invoke(bench, arguments)
    assert done.exit_code == 2
    assert quoted in done.output


def test_without_a_redis_server_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    done = CliRunner().invoke(bench, ["record", "--fast"])
    assert done.exit_code == 1
    assert "Install Redis 6.2.0 or newer" in done.output


def test_the_record_is_measured_without_the_sketches_peers() -> None:
    peers = "crick", "fastdigest", "tdigest"
    code = f"import sys; sys.modules.update(dict.fromkeys({peers!r})); import experiments.bench.record_part"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_score_that_is_lost_exits_1_whatever_the_size(fast: Results, finds: Callable[[Results], None]) -> None:
    for lossy in (
        replace(fast, writes=[replace(fast.writes[0], missing=1), *fast.writes[1:]]),
        replace(fast, writes=[replace(fast.writes[0], missing=-1), *fast.writes[1:]]),
        replace(fast, submits=[replace(fast.submits[0], missing=1), *fast.submits[1:]]),
    ):
        finds(lossy)
        assert CliRunner().invoke(bench, ["record", "--fast"]).exit_code == 1


def test_a_missed_figure_exits_1_and_is_saved_all_the_same(
    fast: Results, finds: Callable[[Results], None], tmp_path: Path
) -> None:
    finds(_reaching(fast, seconds=100.0))
    assert CliRunner().invoke(bench, ["record", "--out", str(tmp_path)]).exit_code == 1
    assert json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))["writes"][-1]["seconds"] == 100.0


def test_a_run_that_reaches_every_figure_exits_0(
    fast: Results, finds: Callable[[Results], None], tmp_path: Path
) -> None:
    finds(_reaching(fast, seconds=0.01))
    assert CliRunner().invoke(bench, ["record", "--out", str(tmp_path)]).exit_code == 0


def _reaching(found: Results, seconds: float) -> Results:
    """The results of a full run in which raw takes 0.01 s, and all of ours the given time."""
    raws = {writes.RAW.name, writes.RAW_BEST.name}
    in_flight = {FAST.in_flight: FULL.in_flight, FAST.few_in_flight: FULL.few_in_flight}
    callers = {FAST.in_flight: FULL.in_flight, FAST.callers: FULL.callers, 1: 1}
    return replace(
        found,
        sizes=FULL,
        writes=[
            replace(row, in_flight=in_flight[row.in_flight], seconds=0.01 if row.contestant in raws else seconds)
            for row in found.writes
        ],
        submits=[replace(row, callers=callers[row.callers]) for row in found.submits],
    )


def test_every_figure_can_be_missed(fast: Results) -> None:
    good = _reaching(fast, seconds=0.01)
    bad = replace(
        _reaching(fast, seconds=100.0),
        submits=[replace(row, missing=1) for row in good.submits],
        memory=[
            replace(row, usage_bytes=2 * row.usage_bytes, freed_bytes=2 * row.freed_bytes)
            if row.kind == memory.RECORDS
            else row
            for row in good.memory
        ],
    )
    assert {budget.verdict for budget in make_budgets(good)} == {"reached"}
    assert {budget.verdict for budget in make_budgets(bad)} == {"missed"}


def test_the_page_states_the_ratio_to_both_kinds_of_raw_at_a_glance(fast: Results) -> None:
    slow = _reaching(fast, seconds=2.0)
    rows = [replace(row, seconds=0.5) if row.contestant == writes.RAW_BEST.name else row for row in slow.writes]
    page = "\n".join(render_sections(replace(slow, writes=rows)))
    assert "| best | 1,000 scores/s | 0.01 of raw, 0.25 of raw with GT |" in page


def test_players_have_names_of_16_to_24_characters_and_no_two_the_same() -> None:
    names = [name_of(number) for number in range(20_000)]
    assert len(set(names)) == 20_000
    assert {len(name) for name in names} == set(range(16, 25))


def test_the_same_seed_gives_the_same_batches_in_fresh_objects() -> None:
    numbers = draw_players(1, 50, 30)
    first, again = (make_batches(numbers, 1, 20, has_ids=True) for _ in range(2))
    assert first == again
    assert [len(batch.players) for batch in first] == [20, 10]
    assert first[0].players[0] is not again[0].players[0]
    assert make_batches(numbers, 2, 20)[0].scores != first[0].scores


def test_at_most_so_many_callers_are_in_flight_and_everything_is_sent_once() -> None:
    flying, most = 0, 0

    async def send(item: int) -> int:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0)
        flying -= 1
        return item

    flight = asyncio.run(flights.fly(send, range(10), 3))
    assert most == 3
    assert sorted(flight.answers) == list(range(10))
    assert len(flight.latencies_s) == 10


def test_raw_writes_every_score_and_log_entries_of_the_given_size(tmp_path: Path) -> None:
    async def write() -> None:
        async with open_server(tmp_path) as server, raw.Pipes(server.redis.url) as pipes:
            async with Engine(Node(parse_url(server.redis.url))) as engine:
                board, _ = await engine.boards.create("raw", BoardConfig())
            batches = make_batches(np.arange(300), 0, 100)
            for batch in batches:
                await pipes.send_batch(raw.pack_batch(board, batch, 50.0))
            stored: dict[str, float] = {}
            for key in raw.RECORDS:
                stored |= {name.decode(): score for name, score in await server.ask("ZRANGE", key, 0, -1, "WITHSCORES")}
            assert stored == {p: s for batch in batches for p, s in zip(batch.players, batch.scores, strict=True)}
            logged = await server.ask_all([("XRANGE", key, "-", "+") for key in raw.LOGS])
            assert sum(len(fields[1]) for entries in logged for _, fields in entries) == 300 * 50
            better = raw.pack_batch(board, replace(batches[0], scores=[0] * 100), 1.0, "GT")
            await pipes.send_batch(better)
            (kept,) = await server.ask_all([("ZMSCORE", raw.RECORDS[0], *stored)])
            assert all(score in (None, stored[name]) for name, score in zip(stored, kept, strict=True))

    flights.run(write())


def test_the_log_is_measured_as_it_is_stored_and_a_lost_player_is_missed(tmp_path: Path) -> None:
    async def measure() -> None:
        async with stands.open_stand(replace(FAST, scores=200, players=100), Job(data_dir=tmp_path)) as stand:
            entries = []
            for log in list_logs(stand.board):
                entries += await stand.server.ask("XRANGE", log, "-", "+")
            assert await count_groups(stand.server, stand.board) == len(entries)
            assert sum(len(parse_entry(entry).events.players) for entry in entries) == 200
            assert stand.log_bytes == sum(len(text) for _, fields in entries for text in fields) / 200
            records = list_records(stand.board)
            assert await stand.count_missing(records) == 0
            await stand.server.ask("ZREMRANGEBYRANK", records[3], 0, 1)
            assert await stand.count_missing(records) == 2

    flights.run(measure())


def test_the_record_alone_leaves_the_top_alone(tmp_path: Path) -> None:
    async def count_leaders(is_alone: bool) -> int:
        async with stands.open_stand(replace(FAST, scores=200, players=100), Job(data_dir=tmp_path)) as stand:
            board, _ = await stand.engine.boards.create("bench", BoardConfig())
            record = stand.alone if is_alone else stand.engine.record
            outcomes = await record.submit(board, stand.make_batches()[0])
            assert outcomes.accepted == FAST.batch
            return int(await stand.server.ask("ZCARD", Keys().board(board.id).top("alltime")))

    assert flights.run(count_leaders(is_alone=True)) == 0
    assert flights.run(count_leaders(is_alone=False)) > 0
