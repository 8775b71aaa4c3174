"""Connections shared between workers: who has clearly more waits."""

from pathlib import Path

from service.door import SLACK, Counts


def test_a_worker_alone_never_waits(tmp_path: Path) -> None:
    assert Counts(tmp_path / "counts", 1, 0).is_my_turn(1000)


def test_a_worker_with_clearly_more_connections_waits(tmp_path: Path) -> None:
    first, second = (Counts(tmp_path / "counts", 2, mine) for mine in range(2))
    assert second.is_my_turn(0)
    assert first.is_my_turn(SLACK)
    assert not first.is_my_turn(SLACK + 1)
    assert second.is_my_turn(SLACK + 1)
    assert first.is_my_turn(SLACK + 2)
