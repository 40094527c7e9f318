"""What every kind of model needs to be loaded and fed: devices, tokenizers, wheels, our folder of files, batches."""
