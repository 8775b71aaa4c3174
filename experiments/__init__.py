"""Sketch error and speed, measured."""
