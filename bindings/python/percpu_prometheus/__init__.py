"""Metrics of all worker processes in one file, for prometheus_client."""
