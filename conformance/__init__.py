"""The conformance suite: one module per stage; a test is a requirement, marked with its id."""
