"""What can go wrong between boards and their Redis.

HybridError                 catch this one for all of them
├── Refused                 a request that cannot be taken; nothing was written
│   ├── InvalidField        a value that cannot be; the message quotes it, `field` and `index` say where it stood
│   │   ├── InvalidBoard    a board that cannot be made like that
│   │   ├── AtOutOfRange    an event from before the board's time, or from the future
│   │   └── RankingUnavailable   a kind of rank that is known of leaders only
│   ├── BoardNotFound       no board of that name
│   ├── TrendNotFound       no trend of that name
│   ├── Conflict            a board of that name exists and differs; `fields` says in what
│   └── Overloaded          too much is waiting already
├── RedisUnavailable        Redis could not be asked; nothing was written
│   └── ReadOnly            Redis answers but takes no writes; nothing was written
├── OutcomeUnknown          Redis was asked and did not answer in time; it may have been written
│   └── EntryLost           it was written, and a failover has lost it again
├── SchemaTooNew            a newer release has written here; this one would misread it
└── EmbeddedError           the redis-server of our own
    ├── NoServer            no redis-server that can be used, or one that is too old
    ├── DirInUse            another redis-server still has the data directory
    ├── DirRefused          a data directory that is not ours to use, or not for this server
    └── StartFailed         the server did not come up; the message quotes the end of its log
"""


class HybridError(Exception):
    """Any failure of boards and trends over Redis."""


class Refused(HybridError):
    """A request that cannot be taken; nothing was written."""


class InvalidField(Refused):
    """A value that cannot be; the message quotes it."""

    def __init__(self, field: str, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.index = index


class InvalidBoard(InvalidField):
    """A board that cannot be made like that."""


class AtOutOfRange(InvalidField):
    """An event from before the board's time, or from the future."""


class RankingUnavailable(InvalidField):
    """A kind of rank that is known of leaders only."""


class BoardNotFound(Refused):
    """No board of that name."""


class TrendNotFound(Refused):
    """No trend of that name."""


class Conflict(Refused):
    """A board of that name exists and differs."""

    def __init__(self, message: str, fields: list[str]) -> None:
        super().__init__(message)
        self.fields = fields


class Overloaded(Refused):
    """Too much is waiting already."""


class RedisUnavailable(HybridError):
    """Redis could not be asked; nothing was written."""


class ReadOnly(RedisUnavailable):
    """Redis answers but takes no writes; nothing was written."""


class OutcomeUnknown(HybridError):
    """Redis was asked and did not answer in time; it may have been written."""


class EntryLost(OutcomeUnknown):
    """It was written, and a failover has lost it again."""


class SchemaTooNew(HybridError):
    """A newer release has written here; this one would misread it."""


class EmbeddedError(HybridError):
    """Any failure of the redis-server of our own."""


class NoServer(EmbeddedError):
    """No redis-server that can be used, or one that is too old."""


class DirInUse(EmbeddedError):
    """Another redis-server still has the data directory."""


class DirRefused(EmbeddedError):
    """A data directory that is not ours to use, or not for this server."""


class StartFailed(EmbeddedError):
    """The server did not come up; the message quotes the end of its log."""
