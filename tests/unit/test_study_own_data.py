"""One's own data: columns of three kinds of file, and what is wrong with them said with its place."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments.study.board_spec import make_config, render_spec
from experiments.study.own_data import BadData, Column, load_column, parse_items, parse_scores
from experiments.study.workloads import Scores

VALUES = [3.5, -2.25, 0.0, 0.0, 1e3]


def write(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.fixture(params=["csv", "tsv", "ndjson", "parquet"])
def scores_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"scores.{request.param}"
    if request.param == "parquet":
        pq.write_table(pa.table({"player": list("abcde"), "score": VALUES}), path)
    elif request.param == "ndjson":
        path.write_text("".join(f'{{"player": "a", "score": {value}}}\n' for value in VALUES))
    else:
        split = "\t" if request.param == "tsv" else ","
        path.write_text(f"player{split}score\n" + "".join(f"a{split}{value}\n" for value in VALUES))
    return path


def test_scores_come_as_points_with_as_few_decimals_as_keep_them(scores_file: Path) -> None:
    scores = parse_scores(load_column(scores_file))
    assert scores.decimals == 2
    assert scores.points.tolist() == [350, -225, 0, 0, 100_000]
    assert scores.note == ""


def test_text_is_items_and_numbers_are_scores(tmp_path: Path) -> None:
    column = load_column(write(tmp_path, "events.csv", "item\nchess\ngo\nchess\n"))
    assert not column.is_numeric
    assert parse_items(column).events.to_pylist() == ["chess", "go", "chess"]
    assert load_column(write(tmp_path, "scores.csv", "score\n -1.5\n2\n")).is_numeric


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "player,score\na,1\n\nb,x3\n", "a.csv, line 4: score 'x3' is not a number"),
        ("a.csv", 'player,score\na,1\n"b\nc",2\nd,3,4\n', "a.csv, line 5: 2 columns, not 3: 'd,3,4'"),
        ("a.csv", "player,score\na,1\nb,\n", "a.csv, line 3: score '' is not a number"),
        ("a.csv", "score\n1\nnan\n", "a.csv, line 3: score 'nan' is not a number"),
        ("a.csv", "score\n1\n1e300\n", "a.csv, line 3: score '1e300' is not a finite number below 2^53"),
        ("a.csv", "score\n", "a.csv has no rows"),
        ("a.csv", "a,b\n1,2\n", "a.csv: say which column with --column; it has 'a', 'b'"),
        ("a.ndjson", '{"score": 1}\n\n{"score": "a"}\n', "a.ndjson, line 3: score 'a' is not a number"),
        ("a.ndjson", '{"score": 1}\n{"score": null}\n', "a.ndjson, line 2: score is empty"),
        ("a.ndjson", '{"score": 1}\n{"sc": 1}\n', "a.ndjson, line 2: there is no 'score'"),
        ("a.ndjson", '{"score": 1}\n[1]\n', "a.ndjson, line 2: not a JSON object"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadData) as raised:
        parse_scores(load_column(write(tmp_path, name, text)))
    assert str(raised.value).startswith(message)


def test_a_row_of_parquet_is_said_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"score": [1.0, 2.0, None]}), path)
    with pytest.raises(BadData, match=r"a\.parquet, row 3: score is empty"):
        parse_scores(load_column(path))


def test_a_column_that_is_not_there_is_said_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"there is no column 'pts'; it has 'score'"):
        load_column(write(tmp_path, "a.csv", "score\n1\n"), "pts")


def test_scores_with_too_many_digits_are_rounded_and_that_is_said() -> None:
    values = pa.array(["123456.12345678949", "0.1"])
    path = Path("a.csv")
    scores = parse_scores(Column(path, "score", values))
    assert scores.decimals == 10
    assert "rounded to 10 decimals" in scores.note


@pytest.mark.parametrize(
    ("points", "decimals", "spec"),
    [
        ([-500, 12_345], 2, '{"score_min": -50.0, "score_max": 1300.0, "decimals": 2}'),
        ([0, 200], 0, '{"score_max": 2000}'),
        ([-5, -1], 0, '{"score_min": -50, "score_max": 0}'),
        ([-(2**52), 2**52], 3, '{"tie_break": "none"'),
    ],
)
def test_a_board_is_made_for_scores_with_room_for_more(points: list[int], decimals: int, spec: str) -> None:
    config = make_config(Scores("mine", np.array(points), decimals))
    assert render_spec(config).startswith(spec)
