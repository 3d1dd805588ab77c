"""The reference implementation: one module per stage."""
