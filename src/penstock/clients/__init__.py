"""What is known of AI clients: where they keep their MCP servers, in which shape, and how to change that."""
