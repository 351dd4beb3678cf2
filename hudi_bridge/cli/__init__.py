"""The command line ``hudi-bridge``: asks the library, prints what it says."""
