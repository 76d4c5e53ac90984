"""Published servers and clients with Penstock between them: `make real-world` writes docs/real-world.md."""
