"""The explorer: beta, geodesics, carried frames, a controlled point mass and robots, to look at in a browser.

`serve` starts it; ``connections explore --web`` is its command. `space`, `point_mass`, `robot` and
`body_shapes` compute what is drawn, without a browser. viser is imported when a server starts.
"""

from connections.explorer.server import LOOPBACK, PORT, Explorer, PortError, serve

__all__ = ["LOOPBACK", "PORT", "Explorer", "PortError", "serve"]

#: What rooms above import of this one besides its public names: file -> names.
_OFFERS = {
    "invitation": "invitation",
}
