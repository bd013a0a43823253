"""What a run will do and need, worked out from sizes alone; nothing is started."""
