"""Boards and trends over Redis. Not built yet."""
