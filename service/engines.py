"""The engine of a child process, as the settings want it."""

from hybrid.engine import Engine, make_link
from hybrid.record import RecordSettings
from service.orders import Orders


def make_engine(orders: Orders, *, is_silent: bool = False) -> Engine:
    """An engine that has not looked for Redis yet: that may be gone, and come later."""
    settings = orders.settings
    patience = RecordSettings(
        timeout_s=settings.timeout_s,
        grace_ms=round(settings.grace_s * 1000),
        most_waiting=settings.max_waiting,
    )
    return Engine(make_link(orders.redis), prefix=settings.prefix, settings=patience, is_silent=is_silent)
