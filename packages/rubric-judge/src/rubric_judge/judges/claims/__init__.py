"""The embedded claim judge, which finds what an answer says of each claim, or its opposite."""
