"""The page that labels are typed into, and its small server."""
