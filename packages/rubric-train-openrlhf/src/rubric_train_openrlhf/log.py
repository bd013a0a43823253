"""The only place where structlog is configured: called by the command line."""

from __future__ import annotations

import logging
import sys
import warnings

import structlog


def configure_logging(*, verbose: bool) -> None:
    """Log to stderr: for a reader on a terminal, as JSON lines elsewhere."""
    level = logging.INFO if verbose else logging.WARNING
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer()
        if sys.stderr.isatty()
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def quieten_libraries() -> None:
    """Keep from a reader what libraries say, when they are imported, of what they did not find."""
    # By torch, where OpenRLHF brings pynvml.
    warnings.filterwarnings("ignore", "The pynvml package is deprecated", FutureWarning)
    # By DeepSpeed, where there is no GPU.
    logging.getLogger("DeepSpeed").addFilter(_names_no_accelerator)


def _names_no_accelerator(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Setting accelerator to CPU")
