"""The parts by name, imported only when asked for: the sketches' peers are an optional dependency."""

from importlib import import_module
from typing import cast

from experiments.bench.parts import Part

SKETCHES, RECORD, ANSWERS, SERVICE, TRENDS = "sketches", "record", "answers", "service", "trends"
_MODULES = {
    SKETCHES: "sketch_part",
    RECORD: "record_part",
    ANSWERS: "answers_part",
    SERVICE: "service_part",
    TRENDS: "trends_part",
}
PARTS = tuple(_MODULES)


def load_part(name: str) -> Part:
    return cast(Part, import_module(f"experiments.bench.{_MODULES[name]}"))
