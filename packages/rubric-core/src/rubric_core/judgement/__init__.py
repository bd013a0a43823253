"""What a judge says of a response, read strictly."""
