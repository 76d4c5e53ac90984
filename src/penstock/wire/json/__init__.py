"""JSON as bytes: read strictly, walked, spliced."""
