"""What every kind of model needs to be loaded and fed: devices, tokenizers, the cache folder, batches."""
