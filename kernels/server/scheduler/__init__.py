"""What the next step computes, and the pages of keys and values. Imports without torch."""
