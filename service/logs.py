"""Logs: an event, then its fields; a line each, as text or as JSON. Configured by the command line and nowhere else.

    2026-11-17T12:00:00.123Z warning worker-0 redis is gone reason='Redis cannot be reached: ...'
    {"at":"2026-11-17T12:00:00.123Z","level":"warning","process":"worker-0","event":"redis is gone","reason":"..."}

Fields are what a call hands over as `extra`. Passwords in addresses and secrets of API keys are masked in the finished
line, wherever they came from.
"""

import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import msgspec

from hybrid.link import hide_password

_KEY = re.compile(r"(tt_[A-Za-z0-9]{8,32}_)[A-Za-z0-9]{20,64}")
_ADDRESS = re.compile(r"\S+://\S+")
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LineFormatter(logging.Formatter):
    """One line a record; only a trace makes it more, and in JSON not even that."""

    def __init__(self, style: Literal["text", "json"], process: str) -> None:
        super().__init__()
        self._process = process
        self._render = _render_json if style == "json" else _render_text

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        fields = {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info and record.exc_info[1] is not None:
            fields["trace"] = self.formatException(record.exc_info)
        head = {"at": at, "level": record.levelname.lower(), "process": self._process, "event": record.getMessage()}
        return mask(self._render(head, fields))


def configure_logs(level: str, style: str, process: str, stream: TextIO | None = None) -> None:
    """Send what this process logs to standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter("json" if style == "json" else "text", process))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)


def mask(text: str) -> str:
    """The text without what must not be shown."""
    return _ADDRESS.sub(lambda found: hide_password(found[0]), _KEY.sub(r"\1***", text))


def _render_text(head: dict[str, str], fields: dict[str, Any]) -> str:
    trace = fields.pop("trace", None)
    words = [*head.values(), *(f"{name}={_show(value)}" for name, value in fields.items())]
    return " ".join(words).replace("\n", "\\n") + (f"\n{trace}" if trace else "")


def _render_json(head: dict[str, str], fields: dict[str, Any]) -> str:
    return msgspec.json.encode({**fields, **head}, enc_hook=str).decode()


def _show(value: Any) -> str:
    text = str(value)
    return text if text and not re.search(r"[\s='\"]", text) else repr(text)
