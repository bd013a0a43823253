"""The worth of a judge, a rubric or a label: attacks, reliability, calibration, lint, labels."""
