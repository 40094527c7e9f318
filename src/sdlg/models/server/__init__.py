"""Models on servers: `served.connect` turns an address into a `ServedModel`. This file imports nothing."""
