"""What can go wrong in a sketch. Nothing is changed when one of these is raised.

SketchError                 catch this one for all of them
├── InvalidInput            a value, item, weight or parameter that cannot be taken; the message quotes it
├── EmptySketch             a question that has no answer before the first value
├── Incompatible            two sketches that do not merge
├── TooLarge                a total beyond what the sketch can count exactly
└── CorruptBlob             bytes that are not a sketch of ours, whole and sound
"""


class SketchError(ValueError):
    """Any refusal by a sketch."""


class InvalidInput(SketchError):
    """A value, item, weight or parameter that cannot be taken."""


class EmptySketch(SketchError):
    """A question that has no answer before the first value."""


class Incompatible(SketchError):
    """Two sketches that do not merge."""


class TooLarge(SketchError):
    """A total beyond what the sketch can count exactly."""


class CorruptBlob(SketchError):
    """Bytes that are not a sketch of ours, whole and sound."""
