"""From our configuration to OpenRLHF's own command, and what it cannot express."""
