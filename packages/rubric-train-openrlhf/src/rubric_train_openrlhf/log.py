"""What libraries say when they are imported, and a reader need not see."""

from __future__ import annotations

import logging
import warnings


def quieten_libraries() -> None:
    """Keep from a reader what libraries say, when they are imported, of what they did not find."""
    # By torch, where OpenRLHF brings pynvml.
    warnings.filterwarnings("ignore", "The pynvml package is deprecated", FutureWarning)
    # By DeepSpeed, where there is no GPU.
    logging.getLogger("DeepSpeed").addFilter(_names_no_accelerator)


def _names_no_accelerator(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Setting accelerator to CPU")
