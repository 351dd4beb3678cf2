"""The formats of base files: one module each, behind ``OpenBaseFile``; ``opening`` chooses the one of a file."""
