"""Readers of object descriptions in manuals: settings, options and variables with their texts."""
