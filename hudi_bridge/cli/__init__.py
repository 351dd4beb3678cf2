"""The command line ``hudi-bridge``: calls the library and prints the results."""
