"""API keys: who may do what, which keys are none, and what becomes of a file that changes."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from service.auth import Auth, BadKeys, load_grants, make_key
from service.errors import ApiError
from service.keys_command import key as key_command
from service.routes import Role

ROLES: tuple[Role, ...] = ("read", "write", "admin")


def write_keys(path: Path, *lines: str) -> None:
    """Keys in a file whose time stamp is another one than before."""
    before_ns = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, ns=(before_ns + 1_000_000, before_ns + 1_000_000))


def refusal(auth: Auth, header: str | None, role: Role = "read", board: str | None = "game") -> str:
    """The code that a caller is refused with, "" if he is not."""
    try:
        auth.check(header, role, board)
    except ApiError as error:
        return error.code
    return ""


@pytest.mark.parametrize("held", ROLES)
@pytest.mark.parametrize("wanted", ROLES)
def test_a_role_includes_those_before_it(held: Role, wanted: Role, tmp_path: Path) -> None:
    key, line = make_key(held, "*")
    write_keys(tmp_path / "keys", line)
    may = ROLES.index(held) >= ROLES.index(wanted)
    assert refusal(Auth(tmp_path / "keys"), f"Bearer {key}", wanted) == ("" if may else "forbidden")


def test_a_key_is_for_the_boards_of_its_pattern(tmp_path: Path) -> None:
    key, line = make_key("admin", "game1-*")
    write_keys(tmp_path / "keys", line)
    auth = Auth(tmp_path / "keys")
    assert refusal(auth, f"Bearer {key}", board="game1-daily") == ""
    assert refusal(auth, f"Bearer {key}", board="game2-daily") == "forbidden"
    assert refusal(auth, f"Bearer {key}", board=None) == ""


def test_every_wrong_credential_is_refused(tmp_path: Path) -> None:
    key, line = make_key("admin", "*")
    other, _ = make_key("admin", "*")
    write_keys(tmp_path / "keys", line)
    auth = Auth(tmp_path / "keys")
    mixed = f"tt_{key.split('_')[1]}_{other.split('_')[2]}"
    wrong = [None, "", key, "Bearer", "Bearer ", f"Basic {key}", f"Bearer {other}", f"Bearer {mixed}"]
    wrong += [f"Bearer {text}" for text in (f"{key}x", key[:-1], key.upper(), "tt__", "\xff", line)]
    assert {refusal(auth, header) for header in wrong} == {"unauthenticated"}
    assert refusal(auth, f"bearer {key}") == ""


def test_without_a_file_everybody_may_do_everything() -> None:
    auth = Auth(None)
    assert auth.is_open
    assert refusal(auth, None, "admin") == ""


def test_a_file_that_changes_is_reread(tmp_path: Path) -> None:
    (old, old_line), (new, new_line) = make_key("read", "*"), make_key("read", "*")
    write_keys(tmp_path / "keys", old_line)
    auth = Auth(tmp_path / "keys")
    write_keys(tmp_path / "keys", "# only this one", "", new_line)
    auth.reload()
    assert (refusal(auth, f"Bearer {old}"), refusal(auth, f"Bearer {new}")) == ("unauthenticated", "")


def test_a_file_that_became_bad_keeps_the_keys_of_before(tmp_path: Path) -> None:
    key, line = make_key("read", "*")
    write_keys(tmp_path / "keys", line)
    auth = Auth(tmp_path / "keys")
    write_keys(tmp_path / "keys", "nonsense")
    auth.reload()
    assert refusal(auth, f"Bearer {key}") == ""
    (tmp_path / "keys").unlink()
    auth.reload()
    assert refusal(auth, f"Bearer {key}") == ""


def test_a_file_that_is_bad_from_the_start_lets_nobody_in_until_it_is_good(tmp_path: Path) -> None:
    key, line = make_key("read", "*")
    write_keys(tmp_path / "keys", "nonsense")
    auth = Auth(tmp_path / "keys")
    assert refusal(auth, f"Bearer {key}") == "unauthenticated"
    write_keys(tmp_path / "keys", line)
    auth.reload()
    assert refusal(auth, f"Bearer {key}") == ""


def test_a_bad_line_is_named_by_its_number(tmp_path: Path) -> None:
    _, line = make_key("read", "*")
    write_keys(tmp_path / "keys", line, line.replace("read", "owner"))
    with pytest.raises(BadKeys, match="line 2 of the keys file"):
        load_grants(tmp_path / "keys")


def test_a_file_holds_no_secret() -> None:
    key, line = make_key("read", "*")
    assert key.split("_")[2] not in line


def test_the_command_prints_a_key_and_a_line_that_fit_together(tmp_path: Path) -> None:
    done = CliRunner().invoke(key_command, ["new", "--role", "write", "--boards", "game1-*"])
    assert done.exit_code == 0
    key, line = (row.strip() for row in done.output.splitlines() if row.startswith("    "))
    write_keys(tmp_path / "keys", line)
    assert refusal(Auth(tmp_path / "keys"), f"Bearer {key}", "write", "game1-x") == ""


@pytest.mark.parametrize("arguments", ["", "--role owner", "--role read --boards a/b", "--role read --boards="])
def test_the_command_refuses_what_would_be_no_key(arguments: str) -> None:
    done = CliRunner().invoke(key_command, ["new", *arguments.split()])
    assert done.exit_code != 0
    assert "tt_" not in done.output
