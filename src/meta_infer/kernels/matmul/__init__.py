"""Matrix products: packed, batched, narrow weights."""
