"""Ways to a node: payload, start, ssh, local, supervision."""
