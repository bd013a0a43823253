"""`rehearse`: a production configuration, two steps of it on a CPU, and what would fail."""
