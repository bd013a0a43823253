"""A cheap judge first, and a better one for what it is unsure of, with a bound on the risk."""
