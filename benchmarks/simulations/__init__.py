"""How often the rules of measuring err, simulated: each module is a program that prints its tables."""
