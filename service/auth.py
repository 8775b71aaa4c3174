"""Who may do what: API keys with a role and a pattern of boards, which goes for trends too.

    toptail key new --role write --boards 'game1-*'

prints the key once, and a line for the keys file that holds only its hash:

    <id> <sha256 of the secret> <role> <pattern>

A key is `tt_<id>_<secret>`. The id finds the line, the secret is compared by its hash, in constant time; 180 random
bits need no slow hash. Roles include those before them: read, write, admin. The file is reread when it changes; a file
that has become bad keeps the keys that were good, and says so in the log.

Without a keys file everybody may do everything, and the service listens on loopback only (serve.py sees to that).
"""

import hmac
import logging
import os
import re
import secrets
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

from service.errors import ApiError
from service.routes import Role

log = logging.getLogger(__name__)

ROLES: tuple[Role, ...] = ("read", "write", "admin")

_LINE = re.compile(r"([A-Za-z0-9]{8,32}) ([0-9a-f]{64}) (read|write|admin) ([A-Za-z0-9_.*?\[\]-]{1,128})")
_KEY = re.compile(r"tt_([A-Za-z0-9]{8,32})_([A-Za-z0-9]{20,64})")


class BadKeys(Exception):
    """A keys file that cannot be read."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What the holder of a key may do."""

    id: str
    secret_hash: str
    role: Role
    boards: str

    def allows(self, role: Role, name: str | None) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role) and (name is None or fnmatchcase(name, self.boards))


EVERYTHING = Grant("", "", "admin", "*")


class Auth:
    """The keys of a file, which `reload` looks at again. One that cannot be read at first lets nobody in."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._grants: dict[str, Grant] = {}
        self._stamp: tuple[int, int] | None = (-1, -1)
        self.reload()

    @property
    def is_open(self) -> bool:
        """Whether everybody may do everything."""
        return self._path is None

    def check(self, authorization: str | None, role: Role, name: str | None) -> Grant:
        """What the caller may do; raises if this is not among it, with the board or trend of that name."""
        if self._path is None:
            return EVERYTHING
        grant = self._find(authorization)
        if grant is None:
            raise ApiError("unauthenticated", "an API key is needed: Authorization: Bearer tt_...")
        if not grant.allows(role, name):
            raise ApiError("forbidden", f"this key may not {role}" + (f" {name!r}" if name else ""))
        return grant

    def reload(self) -> None:
        """Read the file again if it has changed."""
        stamp = self._read_stamp()
        if self._path is None or stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._grants = load_grants(self._path)
            log.info("keys read", extra={"keys": len(self._grants)})
        except BadKeys as error:
            log.error("keys not read, those of before stay", extra={"keys": len(self._grants), "reason": str(error)})

    def _find(self, authorization: str | None) -> Grant | None:
        scheme, _, text = (authorization or "").partition(" ")
        key = _KEY.fullmatch(text.strip())
        if scheme.lower() != "bearer" or key is None:
            return None
        grant = self._grants.get(key[1])
        # A key that is not known takes as long as one that is.
        is_right = hmac.compare_digest(_hash(key[2]), grant.secret_hash if grant else _hash("nobody"))
        return grant if is_right else None

    def _read_stamp(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path) if self._path else None
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size) if found else None


def load_grants(path: Path) -> dict[str, Grant]:
    """The keys of a file; lines that begin with # are comments."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadKeys(f"the keys file {str(path)!r} cannot be read: {error}") from None
    grants = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise BadKeys(f"line {number} of the keys file {str(path)!r} is not `id hash role boards`")
        role: Role = next(role for role in ROLES if role == found[3])
        grants[found[1]] = Grant(found[1], found[2], role, found[4])
    return grants


def make_key(role: Role, boards: str) -> tuple[str, str]:
    """A new key, and the line for the keys file."""
    alphabet = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
    key_id, secret = ("".join(secrets.choice(alphabet) for _ in range(length)) for length in (12, 32))
    line = f"{key_id} {_hash(secret)} {role} {boards}"
    if _LINE.fullmatch(line) is None:
        raise BadKeys(f"boards is a pattern like 'game1-*', not {boards!r}")
    return f"tt_{key_id}_{secret}", line


def _hash(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
