"""A judge's reply on a response, read strictly."""
