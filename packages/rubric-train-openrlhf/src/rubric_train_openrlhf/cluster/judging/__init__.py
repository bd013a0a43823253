"""The judge's side of a run: the only processes that hold a passage or a criterion."""
