"""Who you are and what you may do."""
