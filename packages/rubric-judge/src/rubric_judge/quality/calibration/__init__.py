"""Calibration of a judge against people's labels: whether to trust it, criterion by criterion."""
