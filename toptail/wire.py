"""The words on the wire: every request and answer of the HTTP API, as types.

The server encodes these, the client decodes them, and the OpenAPI schema is made of them: there is no other
description of the API. Requests refuse fields that they do not know; answers may gain fields, never lose them.

Times are RFC 3339 in UTC; a request may also give epoch milliseconds. A field that is not there is absent, never null,
unless the type says so.
"""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Strategy = Literal["best", "latest", "sum"]
Direction = Literal["high", "low"]
TieBreak = Literal["earliest", "latest", "none"]
WindowKind = Literal["alltime", "daily", "weekly", "monthly"]
Ranking = Literal["unique", "competition", "dense"]
Status = Literal["added", "improved", "lowered", "kept", "duplicate", "refused", "unknown"]
Ack = Literal["fsync", "memory", "replicated", "unknown"]

Number = int | float
Time = Annotated[datetime, Meta(tz=True)] | int
Name = Annotated[str, Meta(min_length=1, max_length=64, pattern="^[A-Za-z0-9_.-]+$")]
Player = Annotated[str, Meta(min_length=1, max_length=128)]
Label = Annotated[str, Meta(min_length=1, max_length=128)]
Window = Annotated[
    str,
    Meta(
        pattern="^(alltime|daily(:[0-9-]{10})?|weekly(:[0-9]{4}-W[0-9]{2})?|monthly(:[0-9-]{7})?)$",
        description="alltime, daily, weekly, monthly; or by name: daily:2026-11-17, weekly:2026-W47, monthly:2026-11",
    ),
]


class Request(Struct, forbid_unknown_fields=True, kw_only=True):
    """What a client sends; a field that is not known is refused."""


class Answer(Struct, kw_only=True, omit_defaults=True):
    """What the server sends."""


class Subscore(Request):
    """A second criterion between score and time, such as "fewest moves"."""

    min: Number = 0
    max: Number = 65_535
    decimals: int = 0
    direction: Direction = "high"


class BoardSpec(Request):
    """What a board is made with."""

    top_n: Annotated[int, Meta(ge=1, le=1_000_000, description="How many leaders get an exact rank")] = 10_000
    shards: Annotated[int, Meta(ge=1, le=256)] = 8
    strategy: Strategy = "best"
    direction: Direction = "high"
    tie_break: TieBreak = "earliest"
    score_min: Number = 0
    score_max: Number = 2**31 - 1
    decimals: Annotated[int, Meta(ge=0, le=15)] = 0
    subscore: Subscore | None = None
    windows: Annotated[tuple[WindowKind, ...], Meta(min_length=1)] = ("alltime",)
    time_from: Time = 1_577_836_800_000
    time_to: Time = 2_524_608_000_000
    resolution: Annotated[int, Meta(ge=1, description="Length of a tick in ms; the finest that fits")] | None = None
    title: Annotated[str, Meta(max_length=200)] = ""
    retention_days: Annotated[int, Meta(ge=1, le=400)] = 7


class BoardChange(Request):
    """What can be changed of a board."""

    top_n: Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType = UNSET
    title: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    retention_days: Annotated[int, Meta(ge=1, le=400)] | UnsetType = UNSET


class Bits(Answer):
    """How the 62 bits of an order key are spent."""

    score: int
    subscore: int
    time: int
    spare: int


class BoardConfig(Answer):
    """A board as it was made, complete."""

    top_n: int
    shards: int
    strategy: Strategy
    direction: Direction
    tie_break: TieBreak
    score_min: Number
    score_max: Number
    decimals: int
    windows: list[str]
    time_from: datetime
    time_to: datetime
    resolution: int
    title: str
    retention_days: int
    subscore: Subscore | UnsetType = UNSET


class BoardHead(Answer):
    """A board in a list."""

    board: str
    created: datetime
    config: BoardConfig


class BoardInfo(Answer):
    """Everything about a board. `bytes` is what its records, logs and tops take in Redis."""

    board: str
    created: datetime
    config: BoardConfig
    bits: Bits
    players: int
    windows: list[str]
    seq: int
    as_of: datetime
    bytes: int


class BoardList(Answer):
    """Boards by name; `next_cursor` is absent on the last page."""

    boards: list[BoardHead]
    next_cursor: str | UnsetType = UNSET


class Score(Request):
    """One event. `id` makes it count once, however often it is sent."""

    player: Player
    score: Number
    subscore: Number | UnsetType = UNSET
    at: Time | UnsetType = UNSET
    id: Label | UnsetType = UNSET
    tag: Label | UnsetType = UNSET


class Scores(Request):
    """Many events, taken as a whole or not at all."""

    scores: list[Score]


class RankStanding(Answer, tag_field="kind", tag="rank"):
    """Where a player stands, exactly."""

    score: Number
    window: str
    rank: int
    percentile: float
    top_percent: float
    players: int
    as_of: datetime
    seq: int
    player: str | UnsetType = UNSET
    subscore: Number | UnsetType = UNSET
    at: datetime | UnsetType = UNSET


class PercentileStanding(Answer, tag_field="kind", tag="percentile"):
    """Where a player stands, within a proved interval."""

    score: Number
    window: str
    percentile: float
    percentile_low: float
    percentile_high: float
    rank_low: int
    rank_high: int
    top_percent: float
    players: int
    as_of: datetime
    seq: int
    player: str | UnsetType = UNSET
    subscore: Number | UnsetType = UNSET
    at: datetime | UnsetType = UNSET


Standing = RankStanding | PercentileStanding


class ScoreResult(Answer):
    """What became of one event: the player's score now and before, null where there is none or nobody knows."""

    player: str
    status: Status
    score: Number | None
    previous: Number | None
    closed: list[str] = []
    standing: Standing | UnsetType = UNSET


class BadScore(Answer):
    """An event that was left out (on_error=skip), and why."""

    index: int
    code: str
    message: str
    field: str | UnsetType = UNSET


class ScoresTaken(Answer):
    """What became of all events, in their order. `ack` names what they survive."""

    accepted: int
    results: list[ScoreResult]
    ack: Ack
    errors: list[BadScore] = []


class Players(Request):
    """Players whose standings are asked for."""

    players: list[Player]


class Standings(Answer):
    """Standings in the order of the players, null for those without a record."""

    standings: list[Standing | None]


class Entry(Answer):
    """A row of a board."""

    rank: int
    player: str
    score: Number
    subscore: Number | UnsetType = UNSET
    at: datetime | UnsetType = UNSET


class Top(Answer):
    """A page of a board; `next_cursor` is absent on the last one."""

    entries: list[Entry]
    window: str
    players: int
    seq: int
    as_of: datetime
    next_cursor: str | UnsetType = UNSET


class Neighbors(Answer):
    """A player, and the rows above (best first) and below."""

    player: RankStanding
    above: list[Entry]
    below: list[Entry]


class Quantile(Answer):
    """The least score that is proved to reach percentile 100 q; null when no score does."""

    q: float
    score: Number | None
    low: Number | None
    high: Number | None


class Quantiles(Answer):
    quantiles: list[Quantile]
    window: str


class Bin(Answer, rename={"start": "from", "end": "to"}):
    """Players with a score from here (included) to there (not, but for the last bin)."""

    start: Number
    end: Number
    count: int
    low: int
    high: int


class Distribution(Answer):
    bins: list[Bin]
    window: str


class Health(Answer):
    """Whether the process is alive, and whether it can do its work."""

    status: Literal["ok", "starting", "unavailable", "stopping"]
    reason: str | UnsetType = UNSET


class ErrorInfo(Answer):
    """What went wrong; `field` and `index` say where the bad value stood, `results` what is known of a write."""

    code: str
    message: str
    request_id: str
    field: str | UnsetType = UNSET
    index: int | UnsetType = UNSET
    fields: list[str] | UnsetType = UNSET
    results: list[ScoreResult] | UnsetType = UNSET


class ErrorBody(Answer):
    error: ErrorInfo
