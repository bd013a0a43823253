"""The layer between a judge and the server that answers it: transports, limits, retries."""
