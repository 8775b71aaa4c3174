"""Experiments: how wrong is it, on these scores? For data scientists, with their own data or ours.

In reading order:

    study.py        what an experiment is: a claim, and how to measure, draw, judge and say it
    catalog.py      the experiments by name
    workloads.py    scores and events: drawn, or found on the machine
    own_data.py     a column of CSV, Parquet or NDJSON, as scores or events
    replica.py      a board in numpy: the keys, samples and view of the real one, without a Redis
    stands.py       a real board on a Redis of its own, filled with scores
    live.py         a board of a running service, asked over HTTP
    budgets.py      figures to reach, from budgets.toml
    plots.py        one style for all figures
    manifest.py     what a run was made with
    store.py        results as files: data, manifest, figures
    advisor.py      from what is wanted to a config, with its memory and error
    board_spec.py   the spec of a board that takes given scores
    report.py       docs/experiments.md from stored results
    page.py         docs/experiments.html from the same
    cli.py          `toptail experiments`: arguments and options
    commands.py     what its commands do
"""
