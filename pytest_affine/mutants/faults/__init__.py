"""Implementations with one fault each.

Those that derive from `Implementation` call `super()` and can stand before any implementation.
"""
