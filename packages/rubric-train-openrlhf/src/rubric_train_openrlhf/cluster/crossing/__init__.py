"""All that crosses from the judge's side to the policy's, and the way it is asked for."""
