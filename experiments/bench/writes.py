"""Write speed in batches: the record, in all its strategies, and raw commands, in turn on the same server.

A round has a server of its own, on which every contestant starts from nothing; of all rounds the best counts. Each
round another contestant begins, so that none always meets the youngest server.
"""

from dataclasses import dataclass, replace
from typing import Protocol

from experiments.bench.boards import list_records
from experiments.bench.parts import Job
from experiments.bench.progress import Track
from experiments.bench.raw import LOGS, RECORDS, pack_batch
from experiments.bench.record_results import SHARDS, Sizes, WriteSpeed
from experiments.bench.stands import Stand, open_stand
from hybrid.config import BoardConfig
from hybrid.windows import KINDS


class Contestant(Protocol):
    """A way to write all scores."""

    @property
    def name(self) -> str: ...

    async def run(self, stand: Stand, in_flight: int) -> WriteSpeed:
        """Write them once, see that they are there, and leave nothing behind."""
        ...


@dataclass(frozen=True, slots=True)
class Ours:
    """The record's own way, for one kind of board; alone, or with the top that follows it."""

    name: str
    config: BoardConfig
    has_ids: bool = False
    is_alone: bool = False

    async def run(self, stand: Stand, in_flight: int) -> WriteSpeed:
        batches = stand.make_batches(has_ids=self.has_ids)
        board, _ = await stand.engine.boards.create("bench", self.config)
        record = stand.alone if self.is_alone else stand.engine.record
        row, answers = await stand.time(self.name, lambda batch: record.submit(board, batch), batches, in_flight)
        missing = row.scores - sum(outcomes.accepted for outcomes in answers)
        missing += await stand.count_missing(list_records(board))
        await stand.engine.boards.delete(board.name)
        stand.alone.forget(board)
        return replace(row, missing=missing)


@dataclass(frozen=True, slots=True)
class Raw:
    """Bare commands; `options` are those of ZADD."""

    name: str
    options: tuple[str, ...] = ()

    async def run(self, stand: Stand, in_flight: int) -> WriteSpeed:
        batches = [pack_batch(stand.board, b, stand.log_bytes, *self.options) for b in stand.make_batches()]
        row, _ = await stand.time(self.name, stand.pipes.send_batch, batches, in_flight)
        missing = await stand.count_missing(RECORDS)
        await stand.server.ask("UNLINK", *RECORDS, *LOGS)
        return replace(row, missing=missing)


RAW, RAW_BEST = Raw("raw ZADD + XADD"), Raw("raw ZADD GT + XADD", ("GT",))
BEST = Ours("best", BoardConfig(shards=SHARDS))
BEST_IDS = Ours("best, an id each", BEST.config, has_ids=True)
WINDOWS = Ours("best, four windows", BoardConfig(shards=SHARDS, windows=KINDS))
LATEST = Ours("latest", BoardConfig(shards=SHARDS, strategy="latest"))
SUM = Ours("sum, an id each", BoardConfig(shards=SHARDS, strategy="sum"), has_ids=True)
CASES = (BEST, BEST_IDS, WINDOWS, LATEST, SUM)
ALONE_CASES = tuple(replace(case, name=f"{case.name}, record alone", is_alone=True) for case in CASES)
ALONE, ALONE_IDS = ALONE_CASES[:2]
CONTESTANTS: tuple[Contestant, ...] = (RAW, RAW_BEST, *CASES, *ALONE_CASES)


async def measure_writes(sizes: Sizes, job: Job, track: Track) -> tuple[float, list[WriteSpeed]]:
    """Bytes of an event in the log of `best`, and the best run of each contestant."""
    found: list[WriteSpeed] = []
    log_bytes = 0.0
    for turn in track(range(sizes.repeats), "record: writes"):
        async with open_stand(sizes, job) as stand:
            log_bytes = stand.log_bytes
            found += await _run_round(stand, turn % len(CONTESTANTS))
    return log_bytes, [
        min((row for row in found if (row.contestant, row.in_flight) == (c.name, n)), key=lambda row: row.seconds)
        for n in (sizes.in_flight, sizes.few_in_flight)
        for c in CONTESTANTS
    ]


async def _run_round(stand: Stand, first: int) -> list[WriteSpeed]:
    rows = []
    for in_flight in (stand.sizes.in_flight, stand.sizes.few_in_flight):
        for contestant in CONTESTANTS[first:] + CONTESTANTS[:first]:
            rows.append(await contestant.run(stand, in_flight))
            await stand.server.settle()
    return rows
