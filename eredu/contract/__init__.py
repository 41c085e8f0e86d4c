"""The protocols that a backend or a drafter implements, and the portable values that cross them."""
