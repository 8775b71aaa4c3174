"""Pages of a board and neighbours of a player, with exact ranks at any depth; all rows as a stream.

A cursor is the place of the last row that was shown, with board and window: rows that do not move are neither skipped
nor repeated, whatever moves around them. It is text that a client hands back, so it is checked like everything else.
A window whose records are gone shows its leaders.
"""

import base64
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from hybrid.config import Board
from hybrid.errors import InvalidField
from hybrid.events import check_player
from hybrid.past import PastWindows
from hybrid.record import Record
from hybrid.seek import START, Entry, Place, Seeker
from hybrid.windows import Window

MOST_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Page:
    """Rows in order of rank; `cursor` is what the next page goes on from, None at the end."""

    window: str
    entries: list[Entry]
    cursor: str | None
    players: int
    seq: int
    as_of_ms: int


@dataclass(frozen=True, slots=True)
class Neighbors:
    """A player's row, and the rows above (best first) and below him."""

    window: str
    entry: Entry
    above: list[Entry]
    below: list[Entry]
    players: int
    seq: int
    as_of_ms: int


class Pages:
    """Rows of all boards behind one link."""

    def __init__(self, record: Record, seek: Seeker, past: PastWindows, *, now_ms: Callable[[], int]) -> None:
        self._record = record
        self._seek = seek
        self._past = past
        self._now_ms = now_ms

    async def page(
        self,
        board: Board,
        *,
        limit: int = 100,
        cursor: str | None = None,
        from_rank: int | None = None,
        window: str | None = None,
    ) -> Page:
        """Rows after a cursor, or from a rank on, or from the first."""
        _check_range("limit", limit, 1, MOST_ROWS)
        if cursor is not None and from_rank is not None:
            raise InvalidField("cursor", "a page goes on from a cursor or from a rank, not from both")
        found = board.window(window, self._now_ms())
        after = START if cursor is None else _parse_cursor(board, found, cursor)
        first = 1 if from_rank is None else _check_range("from_rank", from_rank, 1, 2**53)
        past = await self._past.find(board, found)
        if past is not None:
            first = first if cursor is None else past.count_up_to(after) + 1
            entries, is_last = past.entries(first, limit), first + limit > len(past.names)
            next_cursor = None if is_last or not entries else _render_cursor(board, found, entries[-1].place)
            return Page(found.name, entries, next_cursor, past.players, past.seq, past.as_of_ms)
        return await self._live_page(board, found, after, first, limit)

    async def neighbors(
        self, board: Board, player: str, *, reach: int = 5, window: str | None = None
    ) -> Neighbors | None:
        """The rows around a player, None if he has no record."""
        _check_range("range", reach, 0, MOST_ROWS)
        name = check_player(player)
        found = board.window(window, self._now_ms())
        past = await self._past.find(board, found)
        if past is not None:
            rank = past.ranks.get(name)
            if rank is None:
                return None
            first = max(rank - reach, 1)
            rows = past.entries(first, rank - first + 1 + reach)
            above, entry, below = rows[: rank - first], rows[rank - first], rows[rank - first + 1 :]
            return Neighbors(found.name, entry, above, below, past.players, past.seq, past.as_of_ms)
        return await self._live_neighbors(board, found, name, reach)

    async def rows(self, board: Board, *, window: str | None = None) -> AsyncIterator[Entry]:
        """Every row in order of rank, in bounded memory; ranks count the rows that came."""
        found = board.window(window, self._now_ms())
        past = await self._past.find(board, found)
        if past is not None:
            for entry in past.entries(1, len(past.names)):
                yield entry
            return
        rank = 0
        async for place in self._seek.rows(board, found.name):
            rank += 1
            yield Entry(rank, place)

    async def _live_page(self, board: Board, window: Window, after: Place, first: int, limit: int) -> Page:
        as_of_ms = self._now_ms()
        if first > 1:
            before = await self._seek.at_rank(board, window.name, first - 1)
            if before is None:
                around = await self._seek.around(board, window.name, START)
                return Page(window.name, [], None, around.players, around.seq, as_of_ms)
            after = before
        entries, around = await self._seek.page(board, window.name, after, limit)
        is_last = not entries or entries[-1].rank >= around.players
        cursor = None if is_last else _render_cursor(board, window, entries[-1].place)
        return Page(window.name, entries, cursor, around.players, around.seq, as_of_ms)

    async def _live_neighbors(self, board: Board, window: Window, name: bytes, reach: int) -> Neighbors | None:
        while True:
            (key,) = (await self._record.find_keys(board, window.name, [name])).tolist()
            if key != key:  # NaN: no record
                return None
            place, as_of_ms = Place(key, name), self._now_ms()
            around = await self._seek.around(board, window.name, place, before=reach, after=reach + 1)
            if around.below[:1] == [place]:  # else he moved meanwhile: look again
                break
        above = [Entry(around.rank - len(around.above) + number, row) for number, row in enumerate(around.above)]
        below = [Entry(around.rank + 1 + number, row) for number, row in enumerate(around.below[1:])]
        entry = Entry(around.rank, place)
        return Neighbors(window.name, entry, above, below, around.players, around.seq, as_of_ms)


def _check_range(field: str, value: int, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidField(field, f"{field} goes from {low} to {high}, not {value!r}")
    return value


def _render_cursor(board: Board, window: Window, place: Place) -> str:
    text = struct.pack("<d", place.key) + f"{board.id} {window.name} ".encode() + place.player
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _parse_cursor(board: Board, window: Window, cursor: str) -> Place:
    """The place in a cursor that was made for this board and window."""
    try:
        text = base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4))
        (key,) = struct.unpack("<d", text[:8])
        board_id, name, player = text[8:].split(b" ", 2)
    except (ValueError, struct.error):
        raise InvalidField("cursor", f"no cursor of ours: {cursor[:100]!r}") from None
    if (board_id.decode(errors="replace"), name.decode(errors="replace")) != (board.id, window.name) or not key > 0:
        raise InvalidField("cursor", f"a cursor of another board or window: {cursor[:100]!r}")
    return Place(key, player)
