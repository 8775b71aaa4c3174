"""Settings: where they come from, which wins, what is refused; and that their page is the same table."""

import dataclasses
from pathlib import Path

import pytest

from service.settings import BadSetting, Settings, load_settings, make_settings

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def render_rows() -> list[str]:
    """The rows that docs/settings.md must have."""
    shown = {"": "empty", "()": "none"}
    return [
        f"| `{field.name}` | {shown.get(str(field.default), f'`{field.default}`')} | {field.metadata['sentence']} |"
        for field in dataclasses.fields(Settings)
    ]


def test_the_page_has_every_setting_with_its_default_and_sentence() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert rows == render_rows()


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "toptail.toml"
    file.write_text('host = "::1"\nport = 1\nworkers = 2\n')
    settings = load_settings({"port": 3, "workers": None}, {"TOPTAIL_PORT": "2", "TOPTAIL_DATA": "d"}, file)
    assert (settings.host, settings.port, settings.workers, settings.data) == ("::1", 3, 2, "d")


def test_the_environment_gives_numbers_and_lists() -> None:
    environment = {"TOPTAIL_TIMEOUT_S": "2.5", "TOPTAIL_CORS_ORIGINS": "https://a.example, https://b.example,"}
    settings = load_settings({}, {**environment, "HOME": "/"})
    assert settings.timeout_s == 2.5
    assert settings.cors_origins == ("https://a.example", "https://b.example")


def test_the_program_of_our_own_redis_is_a_setting_like_others() -> None:
    assert load_settings({}, {"TOPTAIL_REDIS_SERVER": "/opt/redis-server"}).redis_server == "/opt/redis-server"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"colour": "red"}, "no setting 'colour'"),
        ({"port": "80"}, "port"),
        ({"port": 65_536}, "port goes from 0 to 65535, not 65536"),
        ({"port": True}, "port"),
        ({"workers": 0}, "workers goes from 1 to 256, not 0"),
        ({"timeout_s": float("nan")}, "timeout_s goes from 0.05 to 60, not nan"),
        ({"sampling_share": 1.5}, "not 1.5"),
        ({"fsync": "sometimes"}, "fsync is always, everysec, no, not 'sometimes'"),
        ({"log_format": "xml"}, "log_format is text, json, not 'xml'"),
        ({"cors_origins": "*"}, "cors_origins"),
    ],
)
def test_what_does_not_fit_is_refused_and_quoted(values: dict[str, object], said: str) -> None:
    with pytest.raises(BadSetting, match=said):
        make_settings(values)


def test_a_number_that_is_none_names_its_variable() -> None:
    with pytest.raises(BadSetting, match="TOPTAIL_WORKERS is a number, not 'two'"):
        load_settings({}, {"TOPTAIL_WORKERS": "two"})


@pytest.mark.parametrize(
    ("text", "said"), [(b"port = ", "is not TOML"), (b"\xff", "is not TOML"), (None, "cannot be read")]
)
def test_a_bad_file_is_refused_by_name(text: bytes | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "toptail.toml"
    if text is not None:
        file.write_bytes(text)
    with pytest.raises(BadSetting, match=f"toptail.toml' {said}"):
        load_settings({}, {}, file)


def test_a_password_is_not_shown() -> None:
    shown = repr(make_settings({"redis": "redis://me:secret@host:6379"}))
    assert "secret" not in shown
    assert "redis://me:***@host:6379" in shown
