"""How far a load has come: a small file beside the input, so that a load that was interrupted goes on where it was.

    {"id": "5f1c...", "board": "game-1", "created": "...", "url": "...", "line": 40000, "digest": "...", "saved": "..."}

Everything up to `line` was acknowledged. `digest` is of those rows: if the file was changed before that line, going on
would be wrong, and is refused; a line further down may have been corrected. `id` is what the ids of all rows begin
with, so rows beyond `line` that were written all the same count once. The service remembers ids for 24 hours.
"""

import os
from datetime import datetime
from hashlib import blake2b
from pathlib import Path

import msgspec


class LoadState(msgspec.Struct, kw_only=True):
    """A load of one input into one board of one service; `created` tells the board from one made again."""

    id: str
    board: str
    created: datetime
    url: str
    line: int = 0
    digest: str = ""
    saved: datetime | None = None

    def is_same_load(self, other: "LoadState") -> bool:
        return (self.board, self.created, self.url) == (other.board, other.created, other.url)


def state_path(source: Path, board: str, folder: Path | None) -> Path:
    """Where the state of a load is: beside the input, or in a folder."""
    where = blake2b(str(source.absolute()).encode(), digest_size=4).hexdigest()
    name = f".{source.name}.{board}.load" if folder is None else f"{source.name}.{where}.{board}.load"
    return (folder or source.parent) / name


def load_state(path: Path) -> LoadState | None:
    """The state that was saved, None if there is none; one that cannot be read raises."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=LoadState)
    except FileNotFoundError:
        return None


def save_state(path: Path, state: LoadState) -> None:
    """All of it or nothing, whenever we are killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_bytes(msgspec.json.encode(state))
    beside.replace(path)
