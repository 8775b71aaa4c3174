"""The parts by name, imported only when asked for: the sketches' peers are an optional dependency."""

from experiments.bench.parts import Part

SKETCHES, RECORD, ANSWERS = "sketches", "record", "answers"
PARTS = (SKETCHES, RECORD, ANSWERS)


def load_part(name: str) -> Part:
    if name == ANSWERS:
        from experiments.bench import answers_part

        return answers_part
    if name == RECORD:
        from experiments.bench import record_part

        return record_part
    from experiments.bench import sketch_part

    return sketch_part
