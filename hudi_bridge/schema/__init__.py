"""Schemas of commits, log blocks and base files, as Arrow sees them."""
