"""The processes of a server, and the messages and connections between them."""
