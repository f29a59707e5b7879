"""`ottla completion bash|zsh|fish`: prints the few lines a shell needs; the words come from `ottla --complete`."""

from __future__ import annotations

import argparse
from typing import Final

from ottla.cli.output import OK

SCRIPTS: Final = {
    "bash": """\
_ottla() {
    local IFS=$'\\n'
    COMPREPLY=($(ottla --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _ottla ottla
""",
    "zsh": """\
#compdef ottla
_ottla() {
    local -a found
    found=(${(f)"$(ottla --complete "${words[@]:1:$((CURRENT - 1))}" 2>/dev/null)"})
    if (( ${#found} )); then compadd -a found; else _files; fi
}
compdef _ottla ottla
""",
    "fish": """\
complete -c ottla -a '(ottla --complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
""",
}
HELP: Final = """\
Print what a shell needs to complete ottla's words.

  bash:  source <(ottla completion bash)          in ~/.bashrc
  zsh:   source <(ottla completion zsh)           in ~/.zshrc, after compinit
  fish:  ottla completion fish | source           in ~/.config/fish/config.fish
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = HELP
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("shell", choices=tuple(SCRIPTS))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    print(SCRIPTS[options.shell], end="")
    return OK
