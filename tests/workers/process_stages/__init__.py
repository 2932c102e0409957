"""Stages that say in which process they were imported."""
