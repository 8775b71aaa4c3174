"""One module an experiment; each ends in its STUDY. experiments/study/catalog.py lists them.

rival*.py: the sketches of others that some of them meet.
"""
