"""Events: what players send, in columns, checked in full before anything is written.

A batch is columns, because a thousand scores are checked, encoded and dealt to shards several times as fast as columns
than one by one. The checks here are of whole columns; when one fails, the items are looked at one by one for the
first that is wrong, so that the error can name and quote it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from hybrid.config import Board, Number, parse_points, show_number
from hybrid.errors import AtOutOfRange, InvalidField
from hybrid.orderkey import Axis, Ints

MAX_PLAYER_CHARS = 128
MAX_ID_CHARS = 128
AHEAD_MS = 300_000  # how far an event may lie in the future: clocks differ

_DOTS = frozenset((".", ".."))
_CONTROL_BUT_LF = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_ASCII_CONTROLS_BUT_LF = bytes([*range(0x0A), *range(0x0B, 0x20), 0x7F])


@dataclass(frozen=True, slots=True)
class Batch:
    """Scores as they come in, one column a field; a column that is None is left out by all, an entry None by one.

    `at_ms` defaults to the time of acceptance. `ids` are one token a player and event, `request` is one for the whole
    batch: what was written with a token before is not written again.
    """

    players: Sequence[str]
    scores: Sequence[Number]
    subscores: Sequence[Number] | None = None
    at_ms: Sequence[int | None] | None = None
    ids: Sequence[str | None] | None = None
    tags: Sequence[str | None] | None = None
    request: str | None = None


@dataclass(frozen=True, slots=True)
class Events:
    """A batch that was checked: bytes, points and times, in parallel columns."""

    players: list[bytes]
    points: Ints
    subpoints: Ints
    at_ms: Ints
    ids: Sequence[str | None] | None
    tags: Sequence[str | None] | None
    request: str | None

    def __len__(self) -> int:
        return len(self.players)

    def take(self, rows: Ints) -> "Events":
        """These events, in this order."""
        chosen = rows.tolist()
        return Events(
            [self.players[row] for row in chosen],
            self.points[rows],
            self.subpoints[rows],
            self.at_ms[rows],
            None if self.ids is None else [self.ids[row] for row in chosen],
            None if self.tags is None else [self.tags[row] for row in chosen],
            self.request,
        )

    def span(self, rows: slice) -> "Events":
        """The events from start to end."""
        return Events(
            self.players[rows],
            self.points[rows],
            self.subpoints[rows],
            self.at_ms[rows],
            None if self.ids is None else self.ids[rows],
            None if self.tags is None else self.tags[rows],
            self.request,
        )


def check_batch(board: Board, batch: Batch, now_ms: int) -> Events:
    """The batch in points and ticks; the first item that cannot be raises InvalidField and names its index."""
    n = len(batch.players)
    for name in ("scores", "subscores", "at_ms", "ids", "tags"):
        column = getattr(batch, name)
        if column is not None and len(column) != n:
            raise InvalidField(name, f"{n} players need as many {name}, not {len(column)}")
    if board.config.subscore and batch.subscores is None and n:
        raise InvalidField("subscore", f"board {board.name!r} ranks by subscore too; it is missing", 0)
    if batch.subscores is not None and not board.config.subscore:
        raise InvalidField("subscore", f"board {board.name!r} has no subscore", 0)
    if board.config.strategy == "sum" and batch.request is None:
        _require_ids(board, batch)
    return Events(
        _check_texts(batch.players, "player", MAX_PLAYER_CHARS),
        check_scores(board, batch.scores),
        _check_subscores(board, batch.subscores, n),
        _check_times(board, batch.at_ms, n, now_ms),
        _check_labels(batch.ids, "id"),
        _check_labels(batch.tags, "tag"),
        None if batch.request is None else check_request(batch.request),
    )


def check_player(player: str) -> bytes:
    """The bytes of a player's id."""
    # One id at a time, on the way of every question: most ids are plain, and looked at in a tenth of the time.
    if isinstance(player, str) and 0 < len(player) <= MAX_PLAYER_CHARS and player.isprintable() and player not in _DOTS:
        return player.encode()
    return _check_texts([player], "player", MAX_PLAYER_CHARS)[0]


def check_players(players: Sequence[str]) -> list[bytes]:
    """The bytes of players' ids."""
    return _check_texts(players, "player", MAX_PLAYER_CHARS)


def check_request(request: str) -> str:
    """The name of a request."""
    return _check_texts([request], "request", MAX_ID_CHARS)[0].decode()


def check_scores(board: Board, scores: Sequence[Number]) -> Ints:
    """Scores of a board in points."""
    return _check_scores(scores, board.key.score, board.config.decimals, "score")


def _check_texts(texts: Sequence[str], field: str, most: int) -> list[bytes]:
    """The texts in UTF-8."""
    if not texts:
        return []
    if _are_clean(texts, most) and not _DOTS.intersection(texts):
        return "\n".join(texts).encode().split(b"\n")
    for index, text in enumerate(texts):
        if not _are_clean([text], most) or text in _DOTS:
            raise InvalidField(
                field, f"{field} is 1 to {most} characters without controls, and not . or .., not {_show(text)}", index
            )
    return [text.encode() for text in texts]


def _check_labels(labels: Sequence[str | None] | None, field: str) -> Sequence[str | None] | None:
    """Ids and tags: text, or None."""
    if labels is None or _are_clean([label for label in labels if label is not None], MAX_ID_CHARS):
        return labels
    for index, label in enumerate(labels):
        if label is not None and not _are_clean([label], MAX_ID_CHARS):
            message = f"{field} is 1 to {MAX_ID_CHARS} characters without controls, not {_show(label)}"
            raise InvalidField(field, message, index)
    return labels


def _are_clean(texts: Sequence[str], most: int) -> bool:
    """Whether all are text of 1 to `most` characters without controls: one search over all of them joined."""
    if not texts:
        return True
    if set(map(type, texts)) != {str}:
        return False
    joined = "\n".join(texts)
    is_clean = joined.count("\n") == len(texts) - 1 and not _has_controls(joined)
    return is_clean and "" not in texts and len(max(texts, key=len)) <= most


def _has_controls(text: str) -> bool:
    """Whether it has controls other than line feeds; of ASCII that is found seven times as fast."""
    if not text.isascii():
        return _CONTROL_BUT_LF.search(text) is not None
    data = text.encode()
    return len(data.translate(None, _ASCII_CONTROLS_BUT_LF)) < len(data)


def _show(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 200 else shown[:200] + "..."


def _check_scores(scores: Sequence[Number], axis: Axis, decimals: int, field: str) -> Ints:
    """The scores in points, exactly."""
    points = _points_of_column(scores, decimals)
    if points is not None and (not points.size or (points.min() >= axis.low and points.max() <= axis.high)):
        return points
    unit = Decimal(1).scaleb(-decimals)
    for index, score in enumerate(scores):
        exact = parse_points(score, decimals)
        if exact is None:
            raise InvalidField(
                field, f"{field} is a number with at most {decimals} decimals, not {show_number(score)}", index
            )
        if not axis.low <= exact <= axis.high:
            low, high = axis.low * unit, axis.high * unit
            raise InvalidField(field, f"{field} goes from {low} to {high}, not {show_number(score)}", index)
    return np.array([parse_points(score, decimals) for score in scores], np.int64)


def _points_of_column(scores: Sequence[Number], decimals: int) -> Ints | None:
    """A column of ints, or of floats, at once; None where it takes a closer look."""
    kinds = set(map(type, scores))
    try:
        if kinds <= {int}:
            whole = np.array(scores, np.int64)
            small = not whole.size or abs(whole).max() < 2**63 // 10**decimals
            return whole * 10**decimals if small else None
    except OverflowError:
        return None
    if kinds <= {float, int}:
        given = np.array(scores, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            points = np.rint(given * 10**decimals)
            # A double is the nearest one to its decimal text. So it is p points exactly if p / 10^decimals, which is
            # rounded correctly, is that very double. (The product alone would not do: 1.005 * 1000 = 1004.9999.)
            is_exact = (points / 10**decimals == given) & (np.abs(points) <= 2**53)
        return points.astype(np.int64) if is_exact.all() else None
    return None


def _check_subscores(board: Board, subscores: Sequence[Number] | None, n: int) -> Ints:
    if subscores is None or board.config.subscore is None:
        return np.zeros(n, np.int64)
    return _check_scores(subscores, board.key.subscore, board.config.subscore.decimals, "subscore")


def _check_times(board: Board, at_ms: Sequence[int | None] | None, n: int, now_ms: int) -> Ints:
    """The times of the events, now where none is given; all within the board's time and not in the future."""
    given = [None] * n if at_ms is None else at_ms
    low, high = board.config.time_from_ms, min(board.config.time_to_ms, now_ms + AHEAD_MS)
    if at_ms is None and low <= now_ms <= high:
        return np.full(n, now_ms, np.int64)
    for index, at in enumerate(given):
        if at is not None and (isinstance(at, bool) or not isinstance(at, int)):
            raise InvalidField("at", f"at is a whole number of milliseconds since 1970, not {at!r}", index)
        when = now_ms if at is None else at
        if not low <= when <= high:
            raise AtOutOfRange("at", f"at goes from {low} to {high} (ms since 1970), not {when}", index)
    return np.array([now_ms if at is None else at for at in given], np.int64)


def _require_ids(board: Board, batch: Batch) -> None:
    for index in range(len(batch.players)):
        if batch.ids is None or batch.ids[index] is None:
            raise InvalidField(
                "id", f"board {board.name!r} sums: an id, or a token for the request, is required", index
            )
