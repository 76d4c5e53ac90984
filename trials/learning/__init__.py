"""How well what is learned finds injected calls: `make eval-learning` writes docs/learning.md."""
