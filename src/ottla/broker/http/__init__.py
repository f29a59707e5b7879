"""The one HTTP door of a broker: metrics, health, console and schema registry, behind one gate (parts.py)."""
