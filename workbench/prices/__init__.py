"""Dated price books, one per organisation or the default of all."""
