"""Forms of SynIB side by side."""
