"""Log events: names, numbers and reasons; never a text.

structlog is loaded at the first event, because it loads rich; it is configured by command lines
and applications, not here.
"""


def log_finished(event: str, **values: object) -> None:
    """Log the end of one step, with its results."""
    import structlog

    structlog.get_logger("rubric_synth").info(event, **values)


def log_warning(event: str, **values: object) -> None:
    """Log a problem that somebody should look at, though the work goes on."""
    import structlog

    structlog.get_logger("rubric_synth").warning(event, **values)
