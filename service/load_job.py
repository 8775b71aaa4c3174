"""One load on its way: rows handed out with their ids, answers taken, and how far all of it is acknowledged.

Rows leave in order and are answered in order, several requests at a time. After each chunk of rows stands a mark; when
everything before a mark is answered, the mark is what is saved.
"""

from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

from service.load_state import LoadState, save_state
from service.loading import Source
from service.remote import explain
from service.rows import BadRow
from toptail import BadScore, Client, InvalidField, ToptailError
from toptail.bulk import OnError, Outcome

SHOWN_EVERY = 500


class LoadStopped(Exception):
    """A load that came to no good end; what it did so far is in the message."""


@dataclass(slots=True)
class LoadJob:
    """A load of one source. `report` says what is wrong with a row, `show` how many rows are answered."""

    source: Source
    state: LoadState
    path: Path | None
    on_error: OnError
    report: Callable[[str], None]
    show: Callable[[int], None]
    bad: int = 0
    skipped: int = 0
    answered: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    _failure: str | None = None
    _stop_line: int | None = None
    _pending: deque[int] = field(default_factory=deque)
    _marks: deque[tuple[int, str]] = field(default_factory=deque)

    async def run(self, client: Client) -> None:
        """Load everything; the first bad row ends it, unless they are skipped."""
        outcomes = client.submit_many(self.state.board, self._scores(), on_error=self.on_error)
        try:
            async with aclosing(outcomes):
                async for outcome in outcomes:
                    self._take(outcome)
        except ToptailError as error:
            self._failure = self._explain(error)
        finally:
            self._save()
        if self._failure is not None:
            raise LoadStopped(f"{self._failure}\n{self._so_far()}")
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def summary(self) -> str:
        parts = [f"{count:,} {status}" for status, count in self.counts.most_common()]
        parts += [f"{self.skipped:,} loaded before"] * (self.skipped > 0)
        parts += [f"{self.bad:,} bad and left out"] * (self.bad > 0)
        return f"{self.answered + self.skipped:,} rows for {self.state.board!r}: {', '.join(parts) or 'none'}"

    def _explain(self, error: ToptailError) -> str:
        if isinstance(error, InvalidField) and error.index is not None:
            return f"{self.source.word} {self._pending[error.index - self.answered]}: {error.message}"
        return explain(error)

    def _so_far(self) -> str:
        return f"{self.summary()}. Run the same again to go on; a line that is corrected keeps its place."

    async def _scores(self) -> AsyncIterator[dict[str, Any]]:
        """The scores to send, each with its id."""
        done_line, digest = self.state.line, blake2b(digest_size=16)
        is_checked = done_line == 0
        async for chunk in self.source.chunks():
            for row in chunk:
                if not is_checked and row.line > done_line:
                    self._check_prefix(digest.hexdigest())
                    is_checked = True
                digest.update(repr(row).encode(errors="surrogateescape"))
                if row.line <= done_line:
                    self.skipped += not isinstance(row, BadRow)
                elif isinstance(row, BadRow):
                    self._leave_out(row.line, row.message)
                else:
                    self._pending.append(row.line)
                    yield {"id": f"load:{self.state.id}:{row.key}", **row.score}
                if self._failure is not None:
                    return
            if chunk:
                self._marks.append((chunk[-1].line, digest.hexdigest()))
        if not is_checked:
            self._check_prefix(digest.hexdigest())

    def _check_prefix(self, digest: str) -> None:
        """Rows that were acknowledged in an earlier run must still be what they were."""
        if digest != self.state.digest:
            raise LoadStopped(
                f"the input has changed before {self.source.word} {self.state.line}, and so far it was loaded already; "
                f"put it back, or remove {str(self.path)!r} to load it as a new one"
            )

    def _take(self, outcome: Outcome) -> None:
        """One answer: to the row that waits longest."""
        line = self._pending.popleft()
        self.answered += 1
        if isinstance(outcome, BadScore):
            self._leave_out(line, outcome.message)
        elif outcome.status == "refused":
            self._leave_out(line, f"refused: with {outcome.player!r} at {outcome.previous} it would leave the range")
        else:
            self.counts[outcome.status] += 1
        if self.answered % SHOWN_EVERY == 0:
            self.show(self.answered)
            self._save()

    def _leave_out(self, line: int, message: str) -> None:
        """A bad row: left out, or the end."""
        if self.on_error == "stop":
            self._failure = self._failure or f"{self.source.word} {line}: {message}"
            self._stop_line = line if self._stop_line is None else min(line, self._stop_line)
            return
        self.bad += 1
        self.report(f"{self.source.word} {line}: {message}")

    def _save(self) -> None:
        """Note the last mark before which everything is answered, if it is a new one."""
        reached: tuple[int, str] | None = None
        open_lines = [line for line in (self._stop_line, *islice(self._pending, 1)) if line is not None]
        while self._marks and all(self._marks[0][0] < line for line in open_lines):
            reached = self._marks.popleft()
        if reached is None or self.path is None:
            return
        self.state.line, self.state.digest = reached
        self.state.saved = datetime.now(UTC)
        try:
            save_state(self.path, self.state)
        except OSError as error:
            self.report(f"progress is not noted, {str(self.path)!r} cannot be written: {error.strerror}")
            self.path = None
