"""A sync drawn for people: what each side holds, what moves and what stays."""
