"""What this process calls and answers over the network: addresses, URLs, the transport."""
