"""What every kind of model needs to be loaded and fed: devices, tokenizers, wheels, the cache folder, batches."""
