"""The codec sorts like (score, subscore, time, player), also through a real ZSET; the planner's arithmetic; keys."""

import asyncio
import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.crc import key_slot

from hybrid.config import Board, BoardConfig, Subscore, complete, make_order_key
from hybrid.embedded import EmbeddedRedis
from hybrid.engine import make_link
from hybrid.errors import InvalidBoard
from hybrid.keys import SLOTS, Keys, make_tags
from hybrid.orderkey import KEY_BITS, RESOLUTIONS_MS, Axis, OrderKey, plan_resolution
from hybrid.sharding import ShardHash

AXES = st.tuples(st.integers(-(2**40), 2**40), st.integers(0, 2**20), st.booleans()).map(
    lambda parts: Axis(parts[0], parts[0] + parts[1], parts[2])
)
CODECS = st.builds(OrderKey, AXES, AXES, st.integers(0, 2**18).map(lambda last: Axis(0, last, False)))


GOLDEN_SHARDS = [634, 362, 2, 788]
Drawn = tuple[OrderKey, list[tuple[int, int, int]]]


@st.composite
def codec_and_rows(draw: st.DrawFn) -> Drawn:
    codec = draw(CODECS)
    row = st.tuples(*(st.integers(axis.low, axis.high) for axis in (codec.score, codec.subscore, codec.time)))
    return codec, draw(st.lists(row, min_size=1, max_size=30))


def order(codec: OrderKey, row: tuple[int, int, int]) -> tuple[int, ...]:
    axes = (codec.score, codec.subscore, codec.time)
    return tuple(-v if axis.is_high_best else v for axis, v in zip(axes, row, strict=True))


@given(codec_and_rows())
def test_keys_sort_like_the_tuple_and_decode_to_it(drawn: Drawn) -> None:
    codec, rows = drawn
    keys = [codec.encode(points, ticks, subpoints) for points, subpoints, ticks in rows]
    assert sorted(rows, key=lambda row: order(codec, row)) == [
        row for _, row in sorted(zip(keys, rows, strict=True), key=lambda pair: (pair[0], order(codec, pair[1])))
    ]
    assert [tuple(codec.decode(key)) for key in keys] == [tuple(row) for row in rows]
    assert all(np.isfinite(keys))
    assert min(keys) > 0
    assert len({*keys}) == len({*rows})


@given(codec_and_rows())
def test_arrays_encode_and_decode_like_single_numbers(drawn: Drawn) -> None:
    codec, rows = drawn
    points, subpoints, ticks = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    keys = codec.encode(points, ticks, subpoints)
    assert keys.tolist() == [codec.encode(p, t, s) for p, s, t in rows]
    assert codec.decode(keys).points.tolist() == points.tolist()
    assert codec.best(points).tolist() == [codec.best(p) for p, _, _ in rows]
    assert codec.worst(points).tolist() == [codec.worst(p) for p, _, _ in rows]


@given(codec_and_rows())
def test_best_and_worst_key_of_a_score_enclose_exactly_its_keys(
    drawn: Drawn,
) -> None:
    codec, rows = drawn
    for points, subpoints, ticks in rows:
        key = codec.encode(points, ticks, subpoints)
        assert codec.best(points) <= key <= codec.worst(points)
        for other, other_sub, other_ticks in rows:
            is_inside = codec.best(points) <= codec.encode(other, other_ticks, other_sub) <= codec.worst(points)
            assert is_inside == (other == points)


def zset_order(redis: EmbeddedRedis, keys: list[float], players: list[str]) -> list[str]:
    """How Redis itself sorts them."""

    async def ask() -> list[str]:
        link = make_link(redis.url)
        await link.run("z", [("DEL", "z")])
        for at in range(0, len(keys), 5000):
            rows = [x for pair in zip(keys[at : at + 5000], players[at : at + 5000], strict=True) for x in pair]
            await link.run("z", [("ZADD", "z", *rows)])
        (found,) = await link.run("z", [("ZRANGE", "z", 0, -1)])
        await link.close()
        return [player.decode() for player in found]

    return asyncio.run(ask())


def test_the_largest_int_score_with_ties_a_second_apart_sorts_exactly_in_redis(redis_server: EmbeddedRedis) -> None:
    codec = make_order_key(complete(BoardConfig()))
    rows = [(score, tick) for score in (2**31 - 1, 2**31 - 2, 2**21, 0) for tick in range(10**9, 10**9 + 40, 2)]
    players = [f"{score} {tick}" for score, tick in rows]
    shuffled = random.Random(1).sample(range(len(rows)), len(rows))
    keys = [codec.encode(*rows[at]) for at in shuffled]
    assert zset_order(redis_server, keys, [players[at] for at in shuffled]) == players


def test_200_000_members_with_mass_ties_sort_in_redis_as_the_oracle_sorts(redis_server: EmbeddedRedis) -> None:
    dice = np.random.default_rng(9)
    config = complete(BoardConfig(score_max=5000, subscore=Subscore(max=9, direction="low"), tie_break="latest"))
    codec = make_order_key(config)
    points = np.where(dice.random(200_000) < 0.4, 0, dice.integers(0, 5001, 200_000))
    subpoints, ticks = dice.integers(0, 10, 200_000), dice.integers(0, 50, 200_000)
    players = [f"player {i:06d} é" for i in dice.permutation(200_000)]
    found = zset_order(redis_server, codec.encode(points, ticks, subpoints).tolist(), players)
    rows = zip((-points).tolist(), subpoints.tolist(), (-ticks).tolist(), players, strict=True)
    assert found == [player for *_, player in sorted(rows, key=lambda row: (*row[:3], row[3].encode()))]


@given(AXES, st.integers(0, 2**50), st.one_of(st.none(), st.sampled_from(RESOLUTIONS_MS)))
def test_the_planned_resolution_fits_and_a_finer_one_would_not(score: Axis, span_ms: int, wanted: int | None) -> None:
    wide = Axis(score.low, score.low + ((score.high - score.low) << 20), score.is_high_best)
    left = KEY_BITS - wide.bits
    coarsest = wanted or RESOLUTIONS_MS[-1]
    if (span_ms // coarsest).bit_length() > left:
        needed = wide.bits + (span_ms // coarsest).bit_length()
        with pytest.raises(InvalidBoard, match=f"= {needed}, and a key has 62"):
            plan_resolution(wide, Axis(0, 0), span_ms, wanted)
        return
    found = plan_resolution(wide, Axis(0, 0), span_ms, wanted)
    assert (span_ms // found).bit_length() <= left
    assert wanted in (None, found)
    finer = [r for r in RESOLUTIONS_MS if r < found and wanted is None]
    assert not finer or (span_ms // finer[-1]).bit_length() > left


@pytest.mark.parametrize(
    ("config", "resolution_ms"),
    [
        (BoardConfig(), 500),
        (BoardConfig(score_max=255), 1),
        (BoardConfig(score_max=2**32 - 1), 1000),
        (BoardConfig(score_max=2**62 - 1, tie_break="none"), 1),
        (BoardConfig(score_max=10**9, resolution_ms=60_000), 60_000),
    ],
)
def test_the_finest_resolution_that_fits_is_taken(config: BoardConfig, resolution_ms: int) -> None:
    assert complete(config).resolution_ms == resolution_ms


def test_a_board_that_does_not_fit_is_refused_with_the_arithmetic() -> None:
    arithmetic = "41 bits for scores (0..1099511627776 points) + 30 for time (946771200 ticks of 1000 ms) = 71"
    with pytest.raises(InvalidBoard, match=re.escape(arithmetic)):
        complete(BoardConfig(score_max=2**40, resolution_ms=1000))


@settings(max_examples=300)
@given(
    st.sets(
        st.tuples(
            st.sampled_from(["ab", "a", "abc", "b/c", "ab/1"]),
            st.integers(0, 12),
            st.sampled_from(["alltime", "daily:2026-11-17", "log", "meta"]),
        ),
        min_size=2,
    )
)
def test_distinct_board_shard_and_window_never_share_a_key(places: set[tuple[str, int, str]]) -> None:
    """Board ids are ours (lower case and digits), so a slash in one cannot come up; it is tried all the same."""
    keys = Keys("tt")
    made = set()
    for board_id, shard, window in places:
        shard_keys = keys.shard(f"{board_id}/{shard}.0")
        made |= {shard_keys.record(window), shard_keys.meta, shard_keys.log, shard_keys.day(1), shard_keys.minute(1)}
    assert len(made) == sum(4 for _ in {(b, s) for b, s, _ in places}) + len(places)


@given(st.text("abcdefgh23456789", min_size=10, max_size=10), st.integers(1, 64))
def test_shards_spread_evenly_over_the_slots_of_a_cluster(board_id: str, shards: int) -> None:
    slots = [key_slot(Keys().shard(tag).meta.encode()) for tag in make_tags(board_id, shards)]
    assert [slot * shards // SLOTS for slot in slots] == list(range(shards))
    tags = make_tags(board_id, shards)
    for tag in tags:
        keys = Keys().shard(tag)
        names = (keys.meta, keys.log, keys.record("daily:2026-11-17"), keys.day(3), keys.minute(4))
        assert len({key_slot(name.encode()) for name in names}) == 1


@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, unique=True), st.integers(1, 16))
def test_a_player_lives_in_one_shard_for_ever(players: list[str], shards: int) -> None:
    config = complete(BoardConfig(shards=shards))
    board = Board(name="b", id="x", tags=make_tags("x", shards), secret=bytes(16), created_ms=0, config=config)
    names = [player.encode("utf-8", "surrogatepass") for player in players]
    assert [board.shard_hash.of(name) for name in names] == board.shard_hash.of_many(names * 20)[: len(names)].tolist()
    assert all(0 <= board.shard_hash.of(name) < shards for name in names)


def test_the_shard_of_a_player_never_changes_between_releases() -> None:
    shards = ShardHash(bytes(range(16)), 1000)
    assert [shards.of(name.encode()) for name in ("ann", "bob", "日本", "x" * 128)] == GOLDEN_SHARDS


def test_one_long_name_among_many_short_ones_changes_no_shard() -> None:
    shards, names = ShardHash(bytes(range(16)), 1000), [b"%d" % number for number in range(3000)]
    assert shards.of_many([*names, b"x" * 512]).tolist() == [*map(shards.of, names), shards.of(b"x" * 512)]


def test_players_spread_evenly_over_the_shards() -> None:
    """10,000 players on 8 shards: 1,250 each, and five sigma are 166."""
    counts = np.bincount(ShardHash(b"k" * 16, 8).of_many([b"player-%d" % i for i in range(10_000)]))
    assert counts.min() > 1250 - 166
    assert counts.max() < 1250 + 166


def test_names_that_count_up_are_dealt_as_by_dice() -> None:
    names = [b"player%d" % number for number in range(1000)]
    fullest = max(np.bincount(ShardHash(bytes([secret]) * 16, 8).of_many(names)).max() for secret in range(100))
    assert fullest < 125 * 1.35  # dice: 800 counts of 125 with a deviation of 10.5; once in 50,000 tries beyond
