"""One module an experiment; each ends in its STUDY. experiments/study/catalog.py lists them; rival*.py is who they meet."""
