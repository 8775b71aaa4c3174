"""Trending boards: what is counted most right now, over more items than one can count exactly.

In reading order:

    ladder.py      time cut into panes: lengths, windows, which panes a window and its history are made of
    config.py      what a trend is made with, and one that exists
    events.py      what happened: checked, summed up, and packed into an entry of a stream
    intake.py      from a request into the streams, once
    pane.py        the sketches of one pane
    partition.py   the panes of one partition in memory: an entry folded, everything kept and its position in one write
    sources.py     entries from where they come: a stream of its own, or the log of a board's shard
    window.py      panes merged: every item with the least and the most that it can have occurred
    surge.py       what is more than usual
    publishing.py  a merged window as the keeper leaves it for the workers, and as they read it
    trends.py      all of it behind one door: the registry, submit, top, item, hide
    keeper.py      folds and publishes, again and again

An event goes to one partition, by its item, and there to the pane of each length that its own time falls into. Nothing
is counted item by item: the keeper sums up whatever came within a second and absorbs it whole.
"""
