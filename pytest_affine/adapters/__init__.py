"""Adapters: resharders of other packages, as implementations of the contract."""
