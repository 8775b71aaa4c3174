"""Settings: one table, read from a file, the environment and flags, in that order; later ones win.

    toptail serve --config toptail.toml     a file:         port = 9000
    TOPTAIL_PORT=9000                       an environment: upper case, with TOPTAIL_ before it
    toptail serve --port 9000               a flag

A name that is not in the table is refused, and so is a value that does not fit, with the value in the message. This is
the only module that reads the environment. docs/settings.md is the same table; a test holds them equal.
"""

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from hybrid.link import hide_password

PREFIX = "TOPTAIL_"
NOT_SETTINGS = ("TOPTAIL_URL", "TOPTAIL_API_KEY")  # of the commands that ask a service


class BadSetting(Exception):
    """A setting that is not known, or a value that does not fit."""


def _setting(default: Any, sentence: str) -> Any:
    return field(default=default, metadata={"sentence": sentence})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set. The unit is in the name, the consequence in the sentence."""

    host: str = _setting("127.0.0.1", "Address to listen on; beyond loopback only with API keys.")
    port: int = _setting(8080, "Port to listen on; 0 takes any that is free.")
    workers: int = _setting(1, "Processes that answer requests; one keeper process comes on top.")
    redis: str = _setting(
        "", "Redis to use: redis://, rediss://, unix:// or redis+cluster://; empty for one of our own."
    )
    data: str = _setting("toptail-data", "Directory of our own Redis; one service at a time.")
    redis_server: str = _setting(
        "", "Program of our own Redis: a path or a name on PATH; empty for the first that is found."
    )
    fsync: str = _setting("always", "When our own Redis syncs: always (acks survive a crash), everysec, no.")
    prefix: str = _setting("tt", "What all keys in Redis begin with.")
    keys_file: str = _setting(
        "", "File with API keys, a line each as `toptail key new` prints it; reread when it changes."
    )
    cors_origins: tuple[str, ...] = _setting((), "Origins that browsers may ask from; * for all.")
    timeout_s: float = _setting(5.0, "How long a write waits for Redis before its outcome is unknown.")
    body_timeout_s: float = _setting(10.0, "How long a request's body may take to arrive.")
    max_body_bytes: int = _setting(8 * 1024 * 1024, "Largest body; larger ones are refused.")
    max_items: int = _setting(50_000, "Most scores, players or events in one request; an Arrow stream may have more.")
    max_page: int = _setting(1_000, "Most rows in one page.")
    max_in_flight: int = _setting(2_000, "Requests that a worker handles at a time; more are refused with 429.")
    max_waiting: int = _setting(200_000, "Scores that may wait in a worker to be written; more are refused with 429.")
    grace_s: float = _setting(3600.0, "How long after its end a window takes late scores.")
    sampling_share: float = _setting(0.05, "Share of Redis' time that the keeper may take for samples.")
    drain_s: float = _setting(10.0, "How long a stopping worker finishes what it has begun.")
    rate_per_key: float = _setting(0.0, "Requests a second for one API key; 0 for no limit.")
    rate_per_player: float = _setting(0.0, "Scores a second for one player of a board; 0 for no limit.")
    log_level: str = _setting("info", "Least level that is logged: debug, info, warning, error.")
    log_format: str = _setting("text", "How a line of the log looks: text or json.")

    def __repr__(self) -> str:
        shown = (f"{field.name}={hide_password(repr(getattr(self, field.name)))}" for field in dataclasses.fields(self))
        return f"Settings({', '.join(shown)})"


def load_settings(flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None = None) -> Settings:
    """The settings of a file, an environment and flags; flags that are None were not given."""
    found = {} if file is None else _read_file(file)
    for name, text in environment.items():
        if name.startswith(PREFIX) and name not in NOT_SETTINGS:
            found[name.removeprefix(PREFIX).lower()] = _parse_text(name.removeprefix(PREFIX).lower(), text)
    found.update({name: value for name, value in flags.items() if value is not None})
    return make_settings(found)


def make_settings(values: Mapping[str, Any]) -> Settings:
    """Settings of these values, the rest by default; everything is checked."""
    unknown = sorted(values.keys() - {field.name for field in dataclasses.fields(Settings)})
    if unknown:
        raise BadSetting(f"there is no setting {unknown[0]!r}")
    try:
        settings = msgspec.convert(dict(values), Settings)
    except msgspec.ValidationError as error:
        raise BadSetting(str(error)) from None
    _check(settings)
    return settings


def _check(settings: Settings) -> None:
    for name, low, high in (
        ("port", 0, 65_535),
        ("workers", 1, 256),
        ("timeout_s", 0.05, 60),
        ("body_timeout_s", 0.05, 600),
        ("max_body_bytes", 1_000, 2**30),
        ("max_items", 1, 1_000_000),
        ("max_page", 1, 100_000),
        ("max_in_flight", 1, 1_000_000),
        ("max_waiting", 1, 100_000_000),
        ("grace_s", 0, 30 * 86_400),
        ("sampling_share", 0.0001, 1),
        ("drain_s", 0, 600),
        ("rate_per_key", 0, 1e9),
        ("rate_per_player", 0, 1e9),
    ):
        value = getattr(settings, name)
        if not low <= value <= high:
            raise BadSetting(f"{name} goes from {low} to {high}, not {value!r}")
    for name, choices in (
        ("fsync", ("always", "everysec", "no")),
        ("log_level", ("debug", "info", "warning", "error")),
        ("log_format", ("text", "json")),
    ):
        if getattr(settings, name) not in choices:
            raise BadSetting(f"{name} is {', '.join(choices)}, not {getattr(settings, name)!r}")


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadSetting(f"the settings file {str(path)!r} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(f"the settings file {str(path)!r} is not TOML: {error}") from None


def _parse_text(name: str, text: str) -> Any:
    """The value that a variable of the environment means: a number, a list with commas between, or itself."""
    kinds = {field.name: field.type for field in dataclasses.fields(Settings)}
    try:
        if kinds.get(name) is int:
            return int(text)
        if kinds.get(name) is float:
            return float(text)
    except ValueError:
        raise BadSetting(f"{PREFIX}{name.upper()} is a number, not {text!r}") from None
    if name == "cors_origins":
        return [part.strip() for part in text.split(",") if part.strip()]
    return text
