"""Surge: is something trending, or is it morning?

The score that a trend serves (hybrid/trends/surge.py), against what it would be without its parts:

    without traffic   what is expected is the mean of the hours before, however much is counted now
    without noise     counts are held to vary by chance alone (c = 0)
    without both

Hours of counts are drawn with known surges. A ROC says how many surges are found for how many false alarms; at the
alarm of z >= 5 false alarms are counted on days without any surge, and the minutes until a surge is told.
"""

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from experiments.bench.budgets import Budget
from experiments.bench.tables import Table
from experiments.studies.surge_traffic import (
    DAY,
    DIURNAL,
    SCENARIOS,
    TWO,
    add_surges,
    cut_events,
    draw_counts,
    make_rates,
)
from experiments.study import plots
from experiments.study.budgets import Budgets
from experiments.study.study import Job, Row, Study, Tables, distinct, make_table, rows_of
from hybrid.trends.ladder import HISTORY
from hybrid.trends.surge import LEAST_COUNT, find_surges, usual_variation
from sketches.values import Floats, Ints

ALARM = 5.0
SERVED, NO_TRAFFIC, NO_NOISE, NEITHER = "as served", "without traffic", "without noise", "without both"
NOISE = 0.15  # by which a count usually varies from hour to hour, beyond chance
LITTLE = 0.1
NOISES = (0.0, LITTLE, 0.2, 0.3, 0.4)
FACTORS = (1.5, 2.0, 3.0, 5.0, 10.0)
ROC_FACTOR = 2.0
DAYS, FAST_DAYS = 20, 3
RATES = (30.0, 300.0, 3_000.0)  # events an hour of the items whose delay is measured
REPEATS, FAST_REPEATS = 40, 8
HOUR_MIN = 60

_NOTHING = 0.01  # where no alarms are drawn on a logarithmic axis
_NEVER = -1e9  # the score of what is too rare to be one

Scoring = Callable[[Ints, Ints], Floats]


def measure(job: Job) -> Tables:
    days = FAST_DAYS if job.is_fast else DAYS
    parts = job.track(["roc", "alarms", "delays"], "surge: parts")
    return {part: make_table(_MEASURE[part](job, days)) for part in parts}


def score_served(now: Ints, history: Ints) -> Floats:
    return find_surges(now, int(now.sum()), history, history.sum(axis=1)).z


def _score_without_traffic(now: Ints, history: Ints) -> Floats:
    expected = history.mean(axis=0)
    return _standardise(now, expected, usual_variation(history, history.sum(axis=1)))


def _score_without_noise(now: Ints, history: Ints) -> Floats:
    return _standardise(now, history.sum(axis=0) / history.sum() * now.sum(), 0.0)


def _score_without_both(now: Ints, history: Ints) -> Floats:
    return _standardise(now, history.mean(axis=0), 0.0)


def _standardise(now: Ints, expected: Floats, variation: float) -> Floats:
    z = (now - expected) / np.sqrt(expected + (variation * expected) ** 2 + 10)
    return np.where(now >= LEAST_COUNT, z, np.nan)


SCORINGS: dict[str, Scoring] = {
    SERVED: score_served,
    NO_TRAFFIC: _score_without_traffic,
    NO_NOISE: _score_without_noise,
    NEITHER: _score_without_both,
}


def _score_hours(counts: Ints, scoring: Scoring) -> Floats:
    """The scores of all hours that have a history."""
    return np.array([scoring(counts[hour], counts[hour - HISTORY : hour]) for hour in range(HISTORY, len(counts))])


def _scenarios(job: Job) -> list[str]:
    return [job.items.name] if job.items else list(SCENARIOS)


def _draw(job: Job, scenario: str, noise: float, days: int, *path: int) -> Ints:
    """Hours of counts without surges; one's own events are noisy enough as they are."""
    if job.items:
        return cut_events(job.items, HISTORY + DAY)
    rng = job.rng(*path, SCENARIOS.index(scenario))
    return draw_counts(make_rates(scenario, HISTORY + days * DAY), noise, rng)


def _measure_roc(job: Job, days: int) -> list[Row]:
    """Shares of surges and of other counts above each threshold, thinned out."""
    rows = []
    for scenario in _scenarios(job):
        counts = _draw(job, scenario, NOISE, days, 1)
        hours = add_surges(counts, ROC_FACTOR, (len(counts) - HISTORY) * 3, job.rng(4))
        is_surge = hours.is_surge[HISTORY:]
        for name, scoring in SCORINGS.items():
            scores = np.nan_to_num(_score_hours(hours.counts, scoring), nan=_NEVER)
            for false_share in np.geomspace(1e-5, 1, 26).tolist():
                threshold = np.quantile(scores[~is_surge], 1 - false_share)
                found = float((scores[is_surge] > threshold).mean())
                rows.append({"scenario": scenario, "scoring": name, "false_share": false_share, "found": found})
    return rows


def _measure_alarms(job: Job, days: int) -> list[Row]:
    """Alarms a day where no surge was put in, by noise."""
    rows = []
    for scenario in _scenarios(job):
        for noise in [LITTLE] if job.items else NOISES:
            counts = _draw(job, scenario, noise, days, 2, round(100 * noise))
            days_seen = (len(counts) - HISTORY) / DAY
            for name, scoring in SCORINGS.items():
                alarms = int((_score_hours(counts, scoring) >= ALARM).sum())
                row = {"scenario": scenario, "noise": noise, "scoring": name, "days": days_seen, "alarms": alarms}
                rows.append(row | {"alarms_a_day": alarms / days_seen})
    return rows


def _measure_delays(job: Job, days: int) -> list[Row]:  # noqa: ARG001  all parts are called alike
    """Minutes until a surge is told in the window of an hour, which it fills as it goes on."""
    rows = []
    for factor in FACTORS:
        for rate in RATES:
            rng = job.rng(3, round(10 * factor), round(rate))
            told = [_wait(factor, rate, rng) for _ in range(FAST_REPEATS if job.is_fast else REPEATS)]
            minutes = [minute for minute in told if minute is not None]
            rows.append(
                {
                    "factor": factor,
                    "rate_an_hour": rate,
                    "surges": len(told),
                    "told": len(minutes),
                    "median_minutes": float(np.median(minutes)) if minutes else None,
                }
            )
    return rows


def _wait(factor: float, rate: float, rng: np.random.Generator) -> int | None:
    """The minute in which an item's surge is told, None if that takes more than an hour."""
    rates = make_rates(DIURNAL, HISTORY + 2)
    item = int(np.argmin(np.abs(rates.mean(axis=0) - rate)))
    wobble = rng.gamma(NOISE**-2, NOISE**2, rates.shape)
    history = rng.poisson((rates * wobble)[:HISTORY])
    before, since = (rng.poisson((rates * wobble)[hour] / HOUR_MIN, (HOUR_MIN, rates.shape[1])) for hour in (-2, -1))
    since[:, item] = rng.poisson(factor * (rates * wobble)[-1, item] / HOUR_MIN, HOUR_MIN)
    for minute in range(1, HOUR_MIN + 1):
        now = before[minute:].sum(axis=0) + since[:minute].sum(axis=0)
        if score_served(now, history)[item] >= ALARM:
            return minute
    return None


_MEASURE = {"roc": _measure_roc, "alarms": _measure_alarms, "delays": _measure_delays}


def draw(tables: Tables) -> Figure:
    """ROC, false alarms by noise, and minutes until a surge is told; by day, or of one's own events."""
    figure, (roc, alarms, delays) = plots.make_axes(3, height_in=4.8)
    for place, name in enumerate(SCORINGS):
        rows = rows_of(tables["roc"], scenario=_main(tables), scoring=name)
        look = plots.line_of(place) | {"markersize": 4}
        roc.plot([row["false_share"] for row in rows], [row["found"] for row in rows], **look, label=name)
        found = rows_of(tables["alarms"], scenario=_main(tables), scoring=name)
        alarms.plot([row["noise"] for row in found], [max(row["alarms_a_day"], _NOTHING) for row in found], **look)
    for place, rate in enumerate(distinct(tables["delays"], "rate_an_hour")):
        rows = [row for row in rows_of(tables["delays"], rate_an_hour=rate) if row["told"] * 2 > row["surges"]]
        look = {"color": plots.BLACK, "linestyle": ("-", "--", ":")[place], "marker": plots.MARKERS[place + 4]}
        minutes = [row["median_minutes"] for row in rows]
        delays.plot([row["factor"] for row in rows], minutes, **look, label=f"{rate:,.0f}/h")
    plots.use_log(roc, "x")
    roc.set_xticks([1e-5, 1e-3, 1e-1], ["0.001 %", "0.1 %", "10 %"])
    plots.use_log(alarms, "y", zero=_NOTHING)
    delays.set_ylim(0, HOUR_MIN)
    delays.legend(loc="upper right", title="usual count", title_fontsize=12)
    plots.label(roc, "false alarms, of counts (log)", "share of surges found", f"Surges of x{ROC_FACTOR:g}")
    plots.label(alarms, "noise c, share of a count", "a day (log)", f"False alarms, z >= {ALARM:g}")
    plots.label(delays, "times as many as usual", "minutes, median", "Until it is told")
    plots.add_legend(figure, roc)
    return figure


def _main(tables: Tables) -> str:
    """The traffic that is shown: the day's rhythm, or one's own."""
    scenarios = distinct(tables["roc"], "scenario")
    return DIURNAL if DIURNAL in scenarios else scenarios[0]


def judge(tables: Tables, budgets: Budgets) -> list[Budget]:
    if _main(tables) != DIURNAL:
        return []  # nobody knows which alarms of one's own events are false
    return [
        budgets.judge("surge.alarms", _alarms(tables, SERVED), at_any_size=False),
        budgets.judge("surge.plain_alarms", _alarms(tables, NEITHER)),
    ]


def _alarms(tables: Tables, scoring: str) -> float:
    (row,) = rows_of(tables["alarms"], scenario=_main(tables), scoring=scoring, noise=LITTLE)
    return float(row["alarms_a_day"])


def say(tables: Tables) -> list[str]:
    main = _main(tables)
    alarms = ", ".join(f"{name} {_alarms(tables, name):,.1f}" for name in SCORINGS)
    found = ", ".join(f"{name} {_found(tables, main, name):.0%}" for name in SCORINGS)
    return [
        f"Alarms a day without a surge, traffic {main}: {alarms}.",
        f"Surges of x{ROC_FACTOR:g} found at one false alarm in a thousand counts: {found}.",
    ]


def fails(tables: Tables) -> list[str]:
    if _main(tables) != DIURNAL:
        return []
    slow = [row for row in tables["delays"].to_pylist() if row["told"] * 2 < row["surges"]]
    factor = max((row["factor"] for row in slow), default=0.0)
    return [
        f"A surge of x{factor:g} or less is told within the hour in fewer than half of the cases.",
        "If half of the items have their day when the others have their night, that is taken for noise: of surges of "
        f"x{ROC_FACTOR:g} {_found(tables, TWO, SERVED):.0%} are then found, not {_found(tables, DIURNAL, SERVED):.0%}.",
    ]


def _found(tables: Tables, scenario: str, scoring: str, false_share: float = 1e-3) -> float:
    rows = rows_of(tables["roc"], scenario=scenario, scoring=scoring)
    return float(min(rows, key=lambda row: abs(np.log(row["false_share"] / false_share)))["found"])


def tabulate(tables: Tables) -> list[Table]:
    alarms = [
        [row["scenario"], f"{row['noise']:.0%}", row["scoring"], f"{row['alarms']:,}", f"{row['alarms_a_day']:,.2f}"]
        for row in tables["alarms"].to_pylist()
        if row["noise"] in (0.0, LITTLE, 0.3)
    ]
    delays = [
        [
            f"x{row['factor']:g}",
            f"{row['rate_an_hour']:,.0f}",
            f"{row['told']} of {row['surges']}",
            "" if row["median_minutes"] is None else f"{row['median_minutes']:.0f}",
        ]
        for row in tables["delays"].to_pylist()
    ]
    return [
        Table(
            f"Alarms (z >= {ALARM:g}) where there is no surge",
            ("traffic", "noise", "score", "alarms", "a day"),
            alarms,
            3,
        ),
        Table(
            "Until a surge is told", ("surge", "usual count an hour", "told within the hour", "median minutes"), delays
        ),
    ]


STUDY = Study(
    name="surge",
    title="Trending, or just morning",
    claim="A count is held against its share of what is counted now, and against how much counts usually vary: a "
    "morning's traffic raises no alarms, and real surges are told within minutes.",
    takes="items",
    measure=measure,
    draw=draw,
    judge=judge,
    say=say,
    tabulate=tabulate,
    fails=fails,
)
