"""A comparison of the forms of SynIB."""
