"""The Lua scripts, each with its contract at the top of its file, and the parts that they share."""

from importlib.resources import files

from hybrid.link import Script


def load_script(*names: str) -> Script:
    """The script of these files, one after the other."""
    folder = files("hybrid").joinpath("lua")
    return Script("".join(folder.joinpath(f"{name}.lua").read_text() for name in names))


WRITE = load_script("write")
REMOVE = load_script("remove")
SEEK = load_script("places", "seek")
APPLY = load_script("places", "apply")
REFILL = load_script("places", "refill")
RESET = load_script("reset")
SNAPSHOT = load_script("snapshot")
LEADERS = load_script("places", "leaders")
COUNT = load_script("places", "count")
SAMPLE = load_script("sample")
TREND_ADD = load_script("trend_add")
TREND_KEEP = load_script("trend_keep")
