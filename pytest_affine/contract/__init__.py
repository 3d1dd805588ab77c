"""What an implementation may offer, how it is found, and how it is judged."""
