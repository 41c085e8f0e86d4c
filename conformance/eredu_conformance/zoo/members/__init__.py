"""The members of the zoo, a file a family: `MEMBERS`, its makers by name, and its `PLACE` among the families."""
