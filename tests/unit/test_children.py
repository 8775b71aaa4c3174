"""Pauses before what died is started again."""

from service.children import Backoff


def test_pauses_double_up_to_five_seconds() -> None:
    backoff = Backoff()
    assert [backoff.next_s(0.01) for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_what_stayed_up_starts_over() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.next_s(4.9)
    assert backoff.next_s(5.1) == 0.1
    assert backoff.next_s(0.0) == 0.2
