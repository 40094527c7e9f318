"""What loading a model needs, whichever kind it is: devices, tokenizers, wheels, and our folder of converted files."""
