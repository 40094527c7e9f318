"""Models on servers: `connecting.connect` turns an address into a `served.ServedModel`. This file imports nothing."""
