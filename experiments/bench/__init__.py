"""The sketches beside the alternatives: speed, size, error and proofs, measured in one run.

In reading order:

    workloads.py     seeded numbers and strings
    digests.py       the quantile digests that compete        races.py       their speed
    ranks.py         exact ranks, and the error of answers    quantiles.py   their error, and our intervals
    proofs.py        random digests, every question checked
    counters.py      the heavy-hitter sketches that compete   hitters.py     their speed and accuracy
    timing.py        the only clock                           progress.py    how far a run is
    stamp.py         the machine, the versions, the commit
    results.py       what a run finds, as one JSON file
    budgets.py       the figures to reach
    tables.py        results as tables                        report.py      docs/benchmarks.md from the saved file
    losses.py        where a peer is better
    run.py           one whole run                            cli.py         `toptail bench`
"""
