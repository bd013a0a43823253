"""Findings on a task file, before anything is spent on it."""
