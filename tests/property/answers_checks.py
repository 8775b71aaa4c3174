"""Every answer there is, compared with the oracle's.

An answer carries the number of events that it includes. Where that is all of them it must be true to the player; where
it is older, the truth may have moved by one for each event since, no more.
"""

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import pytest

from hybrid.distribution import Bin, Quantile
from hybrid.engine import Engine
from hybrid.errors import RankingUnavailable
from hybrid.seek import Entry
from hybrid.standing import Estimate, Exact, Standing
from tests.oracle import NaiveBoard, NaiveRow
from tests.property.answers_world import Retired, World
from tests.standings_oracle import (
    NaiveStanding,
    check,
    check_order,
    naive_newcomer,
    naive_quantile,
    naive_standings,
)

SHARES = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0]


@dataclass
class Checks:
    """What can be asked of one world; everything that is compared is counted in its events."""

    world: World
    deaths: int = 0

    @property
    def live(self) -> list[Callable[[Engine, str], Awaitable[None]]]:
        """Of a window that has its records."""
        return [
            self.players,
            self.alone,
            self.dense,
            self.newcomers,
            self.pages,
            self.neighbors,
            self.quantiles,
            self.bins,
        ]

    async def some(self) -> None:
        """One question about one window."""
        world, dice, luck = self.world, self.world.dice, self.world.dice.random()
        if world.retired and luck < 0.3:
            await self.past(world.engine, dice.choice(sorted(world.retired)))
        elif world.oracle.views and world.events["deaths"] > self.deaths:  # the top may be behind
            self.deaths = world.events["deaths"]
            await self.players(world.engine, dice.choice(sorted(world.oracle.views)))
        elif world.oracle.views:
            question = self.storm if luck > 0.9 else self.cursor if luck > 0.85 else dice.choice(self.live)
            await question(world.engine, dice.choice(sorted(world.oracle.views)))

    async def all(self) -> None:
        """Every question about every window, when everything was sampled."""
        for window in sorted(self.world.oracle.views):
            await self.world.engine.standings.of_players(self.world.board, ["nobody"], window=window)
        for _ in range(3):
            await self.world.keepers[0].tick()
        for window in sorted(self.world.oracle.views):
            for question in self.live:
                await question(self.world.engine, window)
        for window in sorted(self.world.retired):
            await self.past(self.world.engine, window)

    async def players(self, engine: Engine, window: str) -> None:
        dice, world = self.world.dice, self.world
        ranking, is_exact = dice.choice(["unique", "competition"]), dice.random() < 0.2
        truth = naive_standings(world.oracle, window)
        names = [*truth, "nobody"]
        rows = list(
            await engine.standings.of_players(world.board, names, window=window, ranking=ranking, is_exact=is_exact)
        )
        assert rows.pop() is None
        events, answers = await world.events_logged(), []
        for name, got in zip(truth, rows, strict=True):
            assert got is not None, name
            row = world.oracle.views[window][name]
            assert (got.player, got.score, got.window) == (name, row.points, window)
            self.compare(got, truth[name], ranking, events - got.seq)
            assert not is_exact or (isinstance(got, Exact) and got.seq == events)
            answers.append(got)
        if all(got.seq == events for got in answers):
            check_order(answers)
            world.events["orders"] += 1

    async def alone(self, engine: Engine, window: str) -> None:
        """A player gets the same answer alone and among others."""
        names = self.world.oracle.ranking(window)
        many = list(await engine.standings.of_players(self.world.board, names, window=window))
        for name in self.world.dice.sample(names, min(len(names), 3)):
            alone = await engine.standings.of_player(self.world.board, name, window=window)
            assert alone == many[names.index(name)]
            self.world.events["alone"] += 1

    async def dense(self, engine: Engine, window: str) -> None:
        """Leaders have dense ranks, and nobody else."""
        truth, board = naive_standings(self.world.oracle, window), self.world.board
        if await self.staleness(engine, window):
            return
        leaders = [name for name in truth if truth[name].unique <= board.config.top_n]
        rows = await engine.standings.of_players(board, leaders, window=window, ranking="dense")
        for name, got in zip(leaders, rows, strict=True):
            assert isinstance(got, Exact)
            check(board, got, truth[name], ranking="dense")
            self.world.events["dense"] += 1
        others = [name for name in truth if truth[name].unique > board.config.top_n]
        if others:
            with pytest.raises(RankingUnavailable):
                await engine.standings.of_players(board, others[:1], window=window, ranking="dense")

    async def newcomers(self, engine: Engine, window: str) -> None:
        world, dice = self.world, self.world.dice
        ranking, is_exact = dice.choice(["unique", "competition"]), dice.random() < 0.2
        scores = self.scores()
        rows = await engine.standings.of_scores(world.board, scores, window=window, ranking=ranking, is_exact=is_exact)
        events = await world.events_logged()
        for points, got in zip(scores, rows, strict=True):
            assert got is not None
            assert (got.player, got.score, got.at_ms, got.subscore) == (None, points, None, None)
            self.compare(got, naive_newcomer(world.oracle, window, points), ranking, events - got.seq, "newcomers")
            assert not is_exact or isinstance(got, Exact)

    async def pages(self, engine: Engine, window: str) -> None:
        """All rows by cursor, some from a rank on, and all of them as a stream."""
        board, limit = self.world.board, self.world.dice.randint(3, 40)
        entries = await self.walk(engine, window, limit)
        ranking = self.world.oracle.ranking(window)
        self.compare_rows(self.world.oracle.views[window], ranking, entries, 1)
        first = self.world.dice.randint(1, len(ranking) + 2)
        page = await engine.pages.page(board, limit=limit, from_rank=first, window=window)
        self.compare_rows(self.world.oracle.views[window], ranking[first - 1 : first - 1 + limit], page.entries, first)
        assert (page.cursor is None) == (first - 1 + limit >= len(ranking))
        stream = [entry async for entry in engine.pages.rows(board, window=window)]
        assert stream == entries

    async def walk(self, engine: Engine, window: str, limit: int, cursor: str | None = None) -> list[Entry]:
        """All rows, page by page, from a cursor on."""
        entries: list[Entry] = []
        while True:
            page = await engine.pages.page(self.world.board, limit=limit, cursor=cursor, window=window)
            assert len(page.entries) == limit or page.cursor is None
            entries += page.entries
            cursor = page.cursor
            if cursor is None:
                return entries

    async def cursor(self, engine: Engine, window: str) -> None:
        """Who goes while somebody turns pages takes no other row along."""
        page = await engine.pages.page(self.world.board, limit=self.world.dice.randint(1, 6), window=window)
        if page.cursor is None:
            return
        shown = [entry.place.player.decode() for entry in page.entries]
        gone = {shown[-1], self.world.dice.choice(shown)}
        for player in gone:
            await self.world.remove(player)
        rows, ranking = self.world.oracle.views.get(window, {}), self.world.oracle.ranking(window)
        if window in self.world.retired:
            kept = self.world.retired[window]
            rows, ranking = kept.board.views[window], [n for n in kept.leaders if n not in kept.gone]
        first = len(shown) - len(gone)
        rest = await self.walk(engine, window, 7, page.cursor)
        self.compare_rows(rows, ranking[first:], rest, first + 1)
        self.world.events["cursors"] += 1

    async def storm(self, _: Engine, window: str) -> None:
        """Answers while others write: true of whoever did not move, but for the events that they do not include."""
        world, dice = self.world, self.world.dice
        events = [world.event(dice.choice(world.players)) for _ in range(dice.randint(1, 6))]
        gone = dice.choice([None, *world.players[:20]])
        names = world.oracle.ranking(window)
        still = [name for name in names if name not in {gone, *(event.player for event in events)}]
        found: list[Standing | None] = []
        rows: list[Entry] = []

        async def write(engine: Engine) -> None:
            outcomes = await engine.record.submit(world.board, world.to_batch(events))
            assert outcomes.error is None
            world.note(events)
            if gone is not None:
                await engine.remove_player(world.board, gone)
                world.note_removal(gone)

        async def read(engine: Engine) -> None:
            found.extend(await engine.standings.of_players(world.board, still, window=window))
            rows.extend(await self.walk(engine, window, 9))

        async def keep(engine: Engine) -> None:
            await world.keepers[world.engines.index(engine)].tick()

        deeds = [write, read, keep] if dice.random() < 0.5 else [write, read, keep, keep]
        await world.storm(deeds)
        truth, logged = naive_standings(world.oracle, window), await world.events_logged()
        for name, got in zip(still, found, strict=True):
            assert got is not None, name
            self.compare(got, truth[name], "unique", logged - got.seq, "players in storms")
        shown = Counter(row.place.player.decode() for row in rows)
        assert all(shown[name] == 1 for name in still), shown

    async def neighbors(self, engine: Engine, window: str) -> None:
        world, ranking = self.world, self.world.oracle.ranking(window)
        assert await engine.pages.neighbors(world.board, "nobody", window=window) is None
        if not ranking:
            return
        reach, rank = world.dice.randint(0, 8), world.dice.randint(1, len(ranking))
        found = await engine.pages.neighbors(world.board, ranking[rank - 1], reach=reach, window=window)
        assert found is not None
        assert (found.players, found.seq) == (len(ranking), await world.events_logged())
        rows = [*found.above, found.entry, *found.below]
        first = max(rank - reach, 1)
        self.compare_rows(world.oracle.views[window], ranking[first - 1 : rank + reach], rows, first)

    async def quantiles(self, engine: Engine, window: str) -> None:
        """A score that is proved to reach its percentile, and the next worse one is not."""
        if await self.staleness(engine, window) or not self.world.oracle.views[window]:
            return
        for got in await engine.distribution.quantiles(self.world.board, self.shares(), window=window):
            self.compare_quantile(got, self.world.oracle, window)
            await self.check_proof(engine, window, got)
            self.world.events["quantiles"] += 1

    async def bins(self, engine: Engine, window: str) -> None:
        allowed = await self.staleness(engine, window)
        scale, most = self.world.dice.choice(["linear", "log"]), self.world.dice.randint(1, 12)
        bins = await engine.distribution.bins(self.world.board, most, scale=scale, window=window)
        self.compare_bins(bins, self.world.oracle.views[window], allowed)

    async def past(self, engine: Engine, window: str) -> None:
        """A window whose records are gone: leaders are exact, others nobody, scores within their intervals."""
        await self.past_leaders(engine, window, self.world.retired[window])
        await self.past_scores(engine, window, self.world.retired[window])
        if self.world.dice.random() < 0.2:
            await self.cursor(engine, window)

    async def past_leaders(self, engine: Engine, window: str, kept: Retired) -> None:
        board, dice = self.world.board, self.world.dice
        ranking, rest = dice.choice(["unique", "competition", "dense"]), kept.rest(kept.removed)
        truth, leaders = naive_standings(rest, window), [n for n in kept.leaders if n not in kept.removed]
        names = [*kept.board.views[window], "nobody"]
        rows = await engine.standings.of_players(board, names, window=window, ranking=ranking)
        for name, got in zip(names, rows, strict=True):
            if name not in leaders:
                assert got is None, (name, got)
                continue
            assert isinstance(got, Exact), name
            check(board, got, truth[name], ranking=ranking)
            self.world.events["past leaders"] += 1
        self.compare_rows(rest.views[window], leaders, await self.walk(engine, window, dice.randint(1, 5)), 1)
        if leaders:
            rank, reach = dice.randint(1, len(leaders)), dice.randint(0, 4)
            found = await engine.pages.neighbors(board, leaders[rank - 1], reach=reach, window=window)
            assert found is not None
            first, around = max(rank - reach, 1), [*found.above, found.entry, *found.below]
            self.compare_rows(rest.views[window], leaders[first - 1 : rank + reach], around, first)

    async def past_scores(self, engine: Engine, window: str, kept: Retired) -> None:
        """The digest still counts whoever was removed since, as its answers may."""
        board, ranking, scores = self.world.board, self.world.dice.choice(["unique", "competition"]), self.scores()
        allowed = len(kept.removed)
        for points, got in zip(
            scores, await engine.standings.of_scores(board, scores, window=window, ranking=ranking), strict=True
        ):
            assert got is not None
            self.compare(got, naive_newcomer(kept.board, window, points), ranking, allowed, "past scores")
        bins = await engine.distribution.bins(board, 6, window=window)
        self.compare_bins(bins, kept.board.views[window], 0)
        if not kept.removed and kept.board.views[window]:
            for quantile in await engine.distribution.quantiles(board, self.shares(), window=window):
                self.compare_quantile(quantile, kept.board, window)
                self.world.events["past quantiles"] += 1

    # How it is compared.

    def compare(self, got: Standing, truth: NaiveStanding, ranking: str, allowed: int, what: str = "players") -> None:
        check(self.world.board, got, truth, ranking=ranking, allowed=allowed)
        assert (got.rank if isinstance(got, Exact) else got.rank_low) >= 1, got
        events = self.world.events
        events[what] += 1
        events[f"{what}, some events old"] += allowed > 0
        if isinstance(got, Estimate):
            events[f"{what} within an interval"] += allowed == 0 and got.percentile_low < got.percentile_high

    def compare_rows(
        self, rows: dict[str, NaiveRow], ranking: Sequence[str], entries: Sequence[Entry], first: int
    ) -> None:
        assert [entry.rank for entry in entries] == list(range(first, first + len(ranking)))
        assert [entry.place.player.decode() for entry in entries] == list(ranking)
        for name, entry in zip(ranking, entries, strict=True):
            assert self.world.board.key.decode(entry.place.key).points == rows[name].points
        self.world.events["rows"] += len(entries)

    def compare_quantile(self, got: Quantile, board: NaiveBoard, window: str) -> None:
        """The score that truly reaches the percentile lies between what might and what is proved to."""
        true, proved = naive_quantile(board, window, got.q), got.score
        sign = 1 if board.config.direction == "high" else -1
        possible = got.low if sign == 1 else got.high
        assert proved == (got.high if sign == 1 else got.low)
        least, most = (math.inf if score is None else sign * score for score in (possible, proved))
        assert least <= (math.inf if true is None else sign * true) <= most, (got, true)

    async def check_proof(self, engine: Engine, window: str, got: Quantile) -> None:
        board = self.world.board
        is_high = board.config.direction == "high"
        best, worst = (board.key.score.high, board.key.score.low)[:: 1 if is_high else -1]
        next_worse = best if got.score is None else int(got.score) - (1 if is_high else -1)
        asked = [next_worse] if got.score is None else [int(got.score)]
        asked += [next_worse] if got.score is not None and got.score != worst else []
        for score, standing in zip(asked, await engine.standings.of_scores(board, asked, window=window), strict=True):
            assert standing is not None
            if score == got.score:
                proved = standing.percentile if isinstance(standing, Exact) else standing.percentile_low
                assert proved >= 100 * got.q - 1e-9, (got, standing)
            elif isinstance(standing, Estimate) and standing.percentile_low < standing.percentile_high:
                # Only of these: the top and counting can prove more than the samples, which quantiles are made from.
                assert standing.percentile_low < 100 * got.q - 1e-9, (got, standing)

    def compare_bins(self, bins: Sequence[Bin], rows: dict[str, NaiveRow], allowed: int) -> None:
        points = [row.points for row in rows.values()]
        assert abs(sum(row.count for row in bins) - len(points)) <= allowed
        if not allowed and points:
            assert (bins[0].start, bins[-1].end) == (min(points), max(points))
        for row in bins:
            truth = sum(row.start <= p < row.end or (row is bins[-1] and p == row.end) for p in points)
            assert row.low - allowed <= truth <= row.high + allowed, (row, truth)
            assert row.low <= row.count <= row.high, row
            self.world.events["bins"] += 1

    def scores(self) -> list[int]:
        config, dice = self.world.config, self.world.dice
        low, high = int(config.score_min), int(config.score_max)
        return [low, high, *(dice.randint(low, min(high, 45)) for _ in range(6))]

    def shares(self) -> list[float]:
        return self.world.dice.sample(SHARES, 3)

    async def staleness(self, engine: Engine, window: str) -> int:
        """How many events the oldest thing that an answer is made from does not include."""
        served, events = await engine.tail.served(self.world.board, window), await self.world.events_logged()
        if served.top is None:
            return 0 if served.view is None else events - served.view.seq
        if served.view is None or served.top.has_all:
            return events - served.top.seq
        return events - min(served.top.seq, served.view.seq)
