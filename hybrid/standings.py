"""Where players stand: exact for leaders, a proved interval for the tail, exact for everybody on demand.

    record   the keys of all who were asked for, one call a shard
    top      who is better than the floor: his rank there, if the top has the very key that the record has
    view     everybody else: two binary searches in memory
    count    whoever is left is counted in all shards: when exactness was asked for, while there are no samples or the
             top is not proved, when record and top disagree, and when the view cannot say that he is no leader

A leader is a player whose exact rank is at most `top_n`. A block of ties that reaches over the floor has one percentile
on both sides: the samples count the floor's score exactly, and where they do not, it is counted.

Questions of one turn of the event loop are answered together; a player gets the same answer alone and among others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hybrid.batching import Batcher
from hybrid.config import Board, Number
from hybrid.errors import RankingUnavailable
from hybrid.events import check_player, check_players, check_scores
from hybrid.orderkey import Ints, Keys
from hybrid.past import PastWindows
from hybrid.record import Record
from hybrid.seek import Place, Seeker
from hybrid.standing import Bools, Moment, Rows, Standing, estimated_places, exact_places, parse_ranking
from hybrid.tail import Served, Tail
from hybrid.top import Leaders, Top

NEWCOMER = b"\xff"  # comes after every player of the same key: no UTF-8 begins so

_MOST_BATCHERS = 1000


@dataclass(frozen=True, slots=True)
class _Question:
    """Rows to be placed, and how: `names` as they stand in Redis, `own` 1 for players, 0 for newcomers."""

    rows: Rows
    names: Sequence[bytes]
    ranking: str
    is_exact: bool
    own: int

    @property
    def board(self) -> Board:
        return self.rows.board

    def names_of(self, rows: Ints) -> list[bytes]:
        return [self.names[row] for row in rows.tolist()]

    def is_leader(self, ranks: Ints) -> Bools:
        """Which rows are answered with a rank, by their unique ranks."""
        return (ranks <= self.board.config.top_n) | self.is_exact


class Standings:
    """Standings of all boards behind one link."""

    def __init__(
        self, record: Record, top: Top, tail: Tail, seek: Seeker, past: PastWindows, *, now_ms: Callable[[], int]
    ) -> None:
        self._record = record
        self._top = top
        self._tail = tail
        self._seek = seek
        self._past = past
        self._now_ms = now_ms
        self._batchers: dict[tuple[str, str | None, bool, str], Batcher[tuple[Board, str], Standing | None]] = {}

    async def of_player(
        self, board: Board, player: str, *, window: str | None = None, is_exact: bool = False, ranking: str = "unique"
    ) -> Standing | None:
        """Where a player stands, None if he has no record; answered together with others."""
        check_player(player)
        name = (board.id, window, is_exact, parse_ranking(ranking))
        batcher = self._batchers.get(name)
        if batcher is None:
            if len(self._batchers) >= _MOST_BATCHERS:
                self._batchers = {name: other for name, other in self._batchers.items() if not other.is_idle}

            async def answer(asked: list[tuple[Board, str]]) -> Sequence[Standing | None]:
                board, _ = asked[-1]  # as it is known now: what may be changed of it may have been
                players = [player for _, player in asked]
                return list(await self.of_players(board, players, window=window, is_exact=is_exact, ranking=ranking))

            batcher = self._batchers[name] = Batcher(answer)
        return await batcher.ask((board, player))

    async def of_players(
        self,
        board: Board,
        players: Sequence[str],
        *,
        window: str | None = None,
        is_exact: bool = False,
        ranking: str = "unique",
    ) -> Rows:
        """Where players stand, in their order."""
        names = check_players(players)
        found = board.window(window, self._now_ms())
        past = await self._past.find(board, found)
        if past is not None:
            return past.of_players(board, players, names, parse_ranking(ranking))
        keys = await self._record.find_keys(board, found.name, names)
        rows = Rows.unknown(board, found.name, players, keys)
        return await self._place(_Question(rows, names, parse_ranking(ranking), is_exact, own=1))

    async def of_scores(
        self,
        board: Board,
        scores: Sequence[Number],
        *,
        window: str | None = None,
        is_exact: bool = False,
        ranking: str = "unique",
    ) -> Rows:
        """Where newcomers with these scores would stand, each by himself, last among equals."""
        points = check_scores(board, scores)
        found = board.window(window, self._now_ms())
        past = await self._past.find(board, found)
        if past is not None:
            return past.of_points(board, points, parse_ranking(ranking))
        rows = Rows.unknown(board, found.name, [None] * len(points), board.key.worst(points))
        return await self._place(_Question(rows, [NEWCOMER] * len(points), parse_ranking(ranking), is_exact, own=0))

    async def _place(self, question: _Question) -> Rows:
        here = np.flatnonzero(~np.isnan(question.rows.keys))
        left = here if question.is_exact else await self._from_top_and_view(question, here)
        if left.size:
            await self._count(question, left)
        if question.ranking == "dense":
            await self._make_dense(question, here)
        return question.rows

    async def _from_top_and_view(self, question: _Question, here: Ints) -> Ints:
        """Place whoever the top or the view can place; returns the rows that are left."""
        board, window, keys = question.board, question.rows.window, question.rows.keys
        served = await self._tail.served(board, window)
        top, asked = served.top, np.empty(0, np.int64)
        if top is not None:
            asked = here[keys[here] <= top.floor.key]
            if asked.size:
                top = await self._top.leaders(board, window, question.names_of(asked), keys[asked])
        if top is None:
            return here
        is_above = _is_above(keys, question.names, top.floor)
        left = [await self._from_view(question, top, served, here[~is_above[here]])]
        if is_above.any():
            is_in = is_above[asked] if not question.own else is_above[asked] & (top.keys == keys[asked])
            is_above[asked[is_in]] = False
            left.append(here[is_above[here]])
            left.append(self._from_top(question, top, served, asked, np.flatnonzero(is_in)))
        return np.concatenate(left)

    def _from_top(self, question: _Question, top: Leaders, served: Served, asked: Ints, found: Ints) -> Ints:
        """Place rows that the top has: of those asked for, the ones found in it."""
        rows, own, view = asked[found], question.own, served.view
        keys, up_to, better = question.rows.keys[rows], top.up_to[found], top.better[found]
        moment, is_known = Moment(top.rows, self._now_ms(), top.seq), np.ones(len(rows), bool)
        if not top.has_all:
            if view is None:
                return rows
            moment = Moment(view.players, view.as_of_ms, min(view.seq, top.seq))
            # Whoever shares the floor's score shares it with players who are not in the top.
            key = question.board.key
            points = key.points(keys)
            is_cut = points == key.points(np.array([top.floor.key]))
            counts = view.up_to(key.worst(points))
            up_to = np.where(is_cut, counts.low, up_to)
            is_known = ~is_cut | (counts.low == counts.high)
        ranks = top.ranks[found] + 1 if own else top.up_to[found] + 1
        newcomers = 1 - own
        places = exact_places(
            better + 1 if question.ranking == "competition" else ranks, up_to + newcomers, moment.players + newcomers
        )
        settled = Moment(moment.players + newcomers, moment.as_of_ms, moment.seq)
        question.rows.settle(rows, places, settled, question.is_leader(ranks))
        return rows[~is_known]

    async def _from_view(self, question: _Question, top: Leaders, served: Served, rows: Ints) -> Ints:
        """Place rows that are not in the top, from the samples.

        While the top is too short to have all leaders, everybody is counted: some below the floor are leaders, and a
        rank that was counted beside an estimate could stand worse than a worse score. The keeper will refill it.
        """
        view, key, top_n = served.view, question.board.key, question.board.config.top_n
        if not rows.size or view is None or view.players < 2 or top.rows < top_n:
            return rows
        keys = question.rows.keys[rows]
        points = key.points(keys)
        up_to = view.up_to(key.worst(points))
        unique = view.ahead(keys, question.names_of(rows)) if question.own else up_to.bounds
        position = view.before(key.best(points)).bounds if question.ranking == "competition" else unique
        ahead = 0 if question.ranking == "competition" else top.rows
        is_cut = points == key.points(np.array([top.floor.key]))
        not_worse = np.where(is_cut, top.rows, await self._up_to_floor(question, top, served))
        places = estimated_places(view, position, up_to, own=question.own, ahead=ahead, not_worse=not_worse)
        moment = Moment(view.players + 1 - question.own, view.as_of_ms, min(view.seq, top.seq))
        question.rows.settle(rows, places, moment, is_exact=False)
        is_open: Bools = is_cut & (up_to.low < up_to.high)
        return rows[is_open]

    async def _up_to_floor(self, question: _Question, top: Leaders, served: Served) -> int:
        """How many have the floor's score or a better one: nobody behind may stand better than they do.

        Counted where the samples do not say it, because the floor has moved since: whoever shares that score is counted
        then, and told exactly.
        """
        known = served.up_to(top.floor.key, question.board.key)
        if known is None:
            counted = await self._seek.count(
                question.board, question.rows.window, np.array([top.floor.key]), [top.floor.player]
            )
            known = int(counted.up_to[0])
        return max(known, top.rows)

    async def _count(self, question: _Question, rows: Ints) -> None:
        """Place rows by counting in all shards."""
        newcomers = 1 - question.own
        counted = await self._seek.count(
            question.board, question.rows.window, question.rows.keys[rows], question.names_of(rows)
        )
        players = counted.players + newcomers
        ranks = counted.better + 1 if question.ranking == "competition" else counted.ahead + 1
        places = exact_places(ranks, counted.up_to + newcomers, players)
        moment = Moment(players, self._now_ms(), counted.seq)
        question.rows.settle(rows, places, moment, question.is_leader(counted.ahead + 1))

    async def _make_dense(self, question: _Question, here: Ints) -> None:
        """Ranks 1, 1, 2: one more than the number of better scores, which only leaders can be told."""
        ranks = question.rows.places.rank_low
        top_n = question.board.config.top_n
        if not question.rows.is_exact[here].all() or (ranks[here] > top_n).any():
            raise RankingUnavailable("ranking", f"dense ranks are known of the first {top_n} only")
        if here.size:
            distances = question.board.key.split(question.rows.keys[here])[0]
            dense = np.searchsorted(await self._distances(question.board, question.rows.window), distances) + 1
            ranks[here] = question.rows.places.rank_high[here] = dense

    async def _distances(self, board: Board, window: str) -> Ints:
        """The scores of all leaders, each once, as distances from the best."""
        keys = [place.key async for place in self._seek.rows(board, window, most=board.config.top_n)]
        return np.unique(board.key.split(np.array(keys))[0])


def _is_above(keys: Keys, names: Sequence[bytes], floor: Place) -> Bools:
    """Which places are better than the floor."""
    is_above = keys < floor.key
    for row in np.flatnonzero(keys == floor.key).tolist():
        is_above[row] = names[row] < floor.player
    return is_above
