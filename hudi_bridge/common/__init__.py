"""What every folder may use, and which knows nothing of Hudi: caches, threads, texts, late imports, logs and spans."""
