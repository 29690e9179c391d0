"""The query service: who asks, what they may see, in which child it runs, how it is answered."""
