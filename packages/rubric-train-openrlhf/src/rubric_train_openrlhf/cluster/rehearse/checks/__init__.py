"""Questions that can be answered before anything is started, most of them in milliseconds."""
