"""Certificates: what a session writes, and what is made of the file afterwards.

Nothing here imports torch: a certificate is verified wherever pytest-affine is installed.
"""
