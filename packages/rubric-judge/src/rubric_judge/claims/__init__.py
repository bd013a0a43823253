"""The embedded judge of claims: what an answer says of each, and whether it says the opposite."""
