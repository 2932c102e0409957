"""Quantities and facts as sentences, tables and labels say them. Without kernels and torch."""
