"""The plan of a run: what it will do and need, worked out from sizes alone; nothing is started."""
