"""Rows of the log: what goes into an entry comes back."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hybrid.log import parse_keys, parse_players, quote_keys, render_keys, render_players

names = st.text(st.characters(blacklist_categories=["Cc", "Cs"]), min_size=1).map(str.encode)
keys = st.floats(min_value=2.0**-1022, max_value=2.0, allow_subnormal=False)


@given(st.lists(names))
def test_players_come_back_whatever_they_are_called(players: list[bytes]) -> None:
    assert parse_players(render_players(players)) == players


@given(st.lists(keys | st.just(float("nan"))))
def test_keys_come_back_as_the_same_doubles_and_none_as_none(given_keys: list[float]) -> None:
    np.testing.assert_array_equal(parse_keys(render_keys(np.array(given_keys))), given_keys)


@given(st.lists(keys))
def test_quoted_keys_are_texts_and_come_back_as_the_same_doubles(given_keys: list[float]) -> None:
    quoted = quote_keys(np.array(given_keys))
    assert all(isinstance(text, str) for text in json.loads(quoted))
    np.testing.assert_array_equal(parse_keys(quoted), given_keys)
