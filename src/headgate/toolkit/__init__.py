"""What systems are built with: routes, pages, commands and links; `web` and `cli` use it too."""
