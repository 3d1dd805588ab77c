"""Implementations with one fault each: the reference, and what goes wrong around it."""
