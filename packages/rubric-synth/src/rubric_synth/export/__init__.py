"""Environments for other stacks, written from a dataset folder: a module for each target."""
