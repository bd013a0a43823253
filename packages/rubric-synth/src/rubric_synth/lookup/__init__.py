"""What the policy may look up: documents cut into sections, found by the words of a question."""
