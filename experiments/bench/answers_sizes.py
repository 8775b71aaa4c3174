"""How much is measured about answers, in a full run and in a fast one."""

from dataclasses import dataclass

from hybrid.keeper import KeeperSettings

SHARDS = 8
WRITE_BATCH = 20  # scores of one submit of the paced writer,
WRITE_PAUSE_S = 0.01  # and from one submit to the next
PACE = WRITE_BATCH / WRITE_PAUSE_S


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    players: int = 1_000_000
    top_n: int = 10_000
    updates: int = 3
    removed_share: float = 0.01
    audited: int = 10_000
    audit_batch: int = 50
    audit_pause_s: float = 0.1
    keeper_pause_s: float = 0.5
    keeper_share: float = 0.05
    boards: tuple[int, ...] = (10_000, 100_000, 1_000_000, 3_000_000)
    refreshes: int = 25
    ask_pause_s: float = 0.5
    warm_s: float = 5.0
    load_s: float = 20.0
    busy_boards: int = 10
    busy_players: int = 20_000
    idle_boards: int = 990
    idle_players: int = 100
    callers: int = 1_000
    lookups: int = 100_000
    peer_lookups: int = 20_000
    batched: int = 200
    lookup_repeats: int = 5
    page_rows: int = 1_000
    latencies: int = 300

    @property
    def keeper(self) -> KeeperSettings:
        return KeeperSettings(pause_s=self.keeper_pause_s, share=self.keeper_share)


FULL = Sizes()
FAST = Sizes(
    players=2_000,
    top_n=100,
    audited=200,
    audit_batch=20,
    audit_pause_s=0.01,
    keeper_pause_s=0.05,
    keeper_share=0.5,
    boards=(200, 2_000),
    refreshes=2,
    ask_pause_s=0.1,
    warm_s=0.1,
    load_s=0.3,
    busy_boards=1,
    busy_players=500,
    idle_boards=5,
    idle_players=20,
    callers=50,
    lookups=500,
    peer_lookups=200,
    batched=2,
    lookup_repeats=1,
    page_rows=100,
    latencies=5,
)
