"""The live view: the tap in the proxy, and the hub that shows what it says, in browser and terminal."""
