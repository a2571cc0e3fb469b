"""Parts of the commands that send messages."""
