"""The furniture of commands and pages, shared by all packages."""
