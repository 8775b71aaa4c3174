"""Ours beside the alternatives, measured: sketches beside other libraries, record and answers beside Redis commands,
the service beside other handlers, trends beside exact counts.

In reading order. What all parts share:

    parts.py         what a part is                           catalog.py     the parts by name
    timing.py        the only clock                           progress.py    how far a run is
    stamp.py         the machine, the versions, the commit    results.py     what a run finds, as a JSON file a part
    budgets.py       figures to reach                         tables.py      tables for the terminal and for the page
    report.py        docs/benchmarks.md from saved files      cli.py         `toptail bench`

The sketches (sketch_part.py is one whole run; sketch_results, sketch_budgets, sketch_tables, sketch_report):

    workloads.py     seeded numbers and strings
    digests.py       the quantile digests that compete        races.py       their speed
    ranks.py         exact ranks, and the error of answers    quantiles.py   their error, and our intervals
    proofs.py        random digests, every question checked
    counters.py      the heavy-hitter sketches that compete   hitters.py     their speed and accuracy
    losses.py        where a peer is better

The record (record_part.py is one whole run; record_results, record_budgets, record_tables, record_report):

    batches.py       seeded submissions                       servers.py     the Redis that is measured
    flights.py       many callers at once                     raw.py         bare commands, packed beforehand
    boards.py        what a board has in Redis                stands.py      where a round takes place
    writes.py        speed in batches, ours and raw
    durability.py    what an fsync costs                      memory.py      bytes by kind of key

The answers (answers_part.py is one whole run; answers_sizes, answers_results, answers_budgets, answers_tables,
answers_report):

    answers_shapes.py   seeded scores                         answers_crowds.py    boards and paced writers
    answers_stands.py   a server, an engine, keepers          answers_keeper.py    a keeper in a process of its own
    answers_audit.py    what is said against what is true     answers_refresh.py   what a sample costs
    answers_loads.py    many boards, few of them busy         answers_lookups.py   speed, beside a pipeline a caller
    answers_rows.py     pages under writes, and the export

The service (service_part.py is one whole run; service_sizes, service_results, service_budgets, service_tables,
service_report); it needs wrk:

    service_stages.py     a Redis, and what wrk is aimed at   service_wrk.py       what wrk sends, and what it found
    service_processes.py  everybody who takes part            service_peer.py      the bare and the naive handler
    service_writer.py     a paced writer                      service_sender.py    scores over HTTP, in bulk
    service_standings.py  standings, beside the peers         service_boards.py    the same on boards of all sizes
    service_writes.py     bulk and single submits, a load

Trends (trends_part.py is one whole run; trends_sizes, trends_results, trends_budgets, trends_tables, trends_report):

    trends_stages.py      an hour that passes quickly         trends_truth.py      what is said against what is true
    trends_processes.py   everybody who takes part            trends_sender.py     events over HTTP
    trends_keeper.py      a keeper in a process of its own
    trends_rates.py       HTTP, beside the sketches alone     trends_pace.py       what a default trend takes
    trends_accuracy.py    bounds, precision, latency          trends_kills.py      keepers and Redis killed
    trends_boards.py      fed by a board's log                trends_fairness.py   one actor among many
"""
