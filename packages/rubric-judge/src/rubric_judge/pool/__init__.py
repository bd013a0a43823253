"""Many judgements at once, in one process or on Ray."""
