"""Output of all packages' commands while they work; `command` has the parts of a command."""
