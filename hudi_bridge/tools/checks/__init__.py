"""The checks of ``doctor``: what is damaged or contradictory, under way for too long, and what a table costs."""
