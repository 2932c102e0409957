"""The proof that a program neither hangs nor mixes values up."""
