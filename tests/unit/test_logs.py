"""Logs: a line each, with fields, and nothing in them that must not be shown."""

import io
import json
import logging
import sys

import pytest

from service.auth import make_key
from service.logs import LineFormatter, mask


def render(style: str, event: str, *args: object, **options: object) -> str:
    """What becomes of one record."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter("json" if style == "json" else "text", "worker-0"))
    logger = logging.Logger("tests")
    logger.addHandler(handler)
    logger.warning(event, *args, **options)  # type: ignore[arg-type]
    return stream.getvalue()


def test_a_line_of_text_is_an_event_and_its_fields() -> None:
    line = render("text", "redis is gone", extra={"reason": "no answer", "pid": 7})
    at, rest = line.split(" ", 1)
    assert rest == "warning worker-0 redis is gone reason='no answer' pid=7\n"
    assert at.endswith("Z")


def test_a_line_of_json_has_the_same() -> None:
    line = json.loads(render("json", "took %d", 3, extra={"reason": 'a "quote"', "odd": object}))
    assert (line["level"], line["process"], line["event"]) == ("warning", "worker-0", "took 3")
    assert (line["reason"], line["odd"]) == ('a "quote"', "<class 'object'>")


@pytest.mark.parametrize("style", ["text", "json"])
def test_no_value_breaks_a_line_in_two(style: str) -> None:
    assert render(style, "said %s", "one\ntwo", extra={"reason": "three\nfour"}).count("\n") == 1


def test_a_trace_is_kept_whole() -> None:
    try:
        raise ValueError("on purpose")
    except ValueError:
        text, line = render("text", "failed", exc_info=True), render("json", "failed", exc_info=sys.exc_info())
    assert "ValueError: on purpose" in text
    assert "ValueError: on purpose" in json.loads(line)["trace"]
    assert line.count("\n") == 1


@pytest.mark.parametrize("style", ["text", "json"])
def test_passwords_and_keys_are_masked_wherever_they_stand(style: str) -> None:
    key, _ = make_key("read", "*")
    line = render(style, "asked redis://me:hunter2@host/0 with %s", key, extra={"url": "rediss://:hunter2@other:1"})
    assert "hunter2" not in line
    assert key not in line
    assert key.split("_")[1] in line


def test_what_is_no_secret_stays() -> None:
    assert mask("http://127.0.0.1:8080/ a@b tt_short") == "http://127.0.0.1:8080/ a@b tt_short"
