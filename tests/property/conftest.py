"""How hard hypothesis looks: quickly by default, thoroughly with `--hypothesis-profile=thorough`."""

from hypothesis import settings

# No deadline: on a busy machine a slow example is not a wrong one.
settings.register_profile("quick", deadline=None)
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile("quick")
