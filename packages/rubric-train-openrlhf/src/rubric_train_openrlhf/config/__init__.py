"""Configuration of a training run: one frozen tree, checked once."""
