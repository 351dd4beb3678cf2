"""How records have changed in a range of commits."""
