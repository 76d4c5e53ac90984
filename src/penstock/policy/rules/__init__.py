"""What a rule is: conditions, actions, and the chain that runs them. Loaded only with a configuration."""
