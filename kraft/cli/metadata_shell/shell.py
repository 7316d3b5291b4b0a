"""The commands of the shell: those of Kafka's metadata shell, by the same names."""

from __future__ import annotations

import cmd
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Final

from kraft.cli.foreground import Terminated
from kraft.cli.metadata_shell.loading import LoadedMetadata
from kraft.cli.metadata_shell.tree import Directory, Node, root_of, text_of, walk
from kraft.model.errors import KraftError
from kraft.model.printable import printable, printable_lines

_PATTERN: Final = frozenset("*?[")


class BadPath(KraftError):
    """A path that leads nowhere, or to what the command cannot show."""


class MetadataShell(cmd.Cmd):
    """Reads commands and prints what they find."""

    intro = (
        "The metadata of a cluster, as files. 'help' lists the commands, Tab completes paths, 'refresh' reads what a "
        "node that runs has written since, Ctrl-D ends."
    )

    def __init__(self, load: Callable[[], LoadedMetadata], say: Callable[[str], None]) -> None:
        """`say` prints an error."""
        super().__init__()
        self._load = load
        self._say = say
        self._directory: tuple[str, ...] = ()
        self.failed = False
        """A command has failed."""

        self._refresh()

    def _refresh(self) -> None:
        self._loaded = self._load()
        self._root = root_of(self._loaded)
        self._go_to(())

    def _go_to(self, directory: tuple[str, ...]) -> None:
        self._directory = directory
        self.prompt = printable("/" + "/".join(directory)) + "> "

    # --- commands ----------------------------------------------------------------------------------------------------

    def do_ls(self, line: str) -> None:
        """ls [PATH...]: list directories."""
        for path, node in self._found(line):
            if isinstance(node, Directory):
                print("  ".join(map(printable, _names(node))))
            else:
                print(printable(path))

    def do_cat(self, line: str) -> None:
        """cat PATH...: print files."""
        for path, node in self._found(_needed(line, "cat PATH")):
            if isinstance(node, Directory):
                raise BadPath(f"{path} is a directory: list it with ls, or print all of it with tree")
            print(printable_lines(text_of(node)))

    def do_cd(self, line: str) -> None:
        """cd [PATH]: go to a directory, or to the root."""
        found = list(self._found(line or "/"))
        if len(found) != 1 or not isinstance(found[0][1], Directory):
            raise BadPath(f"{line} is not one directory")
        self._go_to(_parts(found[0][0]))

    def do_pwd(self, line: str) -> None:
        """pwd: print the directory where you are."""
        print(printable("/" + "/".join(self._directory)))

    def do_find(self, line: str) -> None:
        """find [PATH]: print the paths of all that is there."""
        for path, node in self._found(line):
            for each, _ in walk(path, node):
                print(printable(each))

    def do_tree(self, line: str) -> None:
        """tree [PATH]: print all that is there, with the contents of files."""
        for path, node in self._found(line):
            for each, found in walk(path, node):
                indent = "  " * (len(_parts(each)) - len(_parts(path)))
                name = printable(each.rsplit("/", 1)[-1] or "/")
                if isinstance(found, Directory):
                    print(f"{indent}{name}:")
                else:
                    text = printable_lines(text_of(found)).replace("\n", f"\n{indent}  ")
                    print(f"{indent}{name}: {text}")

    def do_refresh(self, line: str) -> None:
        """refresh: read the files again, which a node that runs goes on writing."""
        before = self._directory
        self._refresh()
        # As long as it is still there.
        with suppress(BadPath):
            self.do_cd(shlex.quote("/" + "/".join(before)))
        self.do_log("")

    def do_log(self, line: str) -> None:
        """log: say how far the metadata log goes that was read."""
        note = "; the last entries may not be committed" if self._loaded.has_journal else ""
        print(f"as of entry {self._loaded.index} of the metadata log{note}")

    def do_exit(self, line: str) -> bool:
        """exit: end the shell."""
        return True

    do_quit = do_exit

    def do_help(self, arg: str) -> None:
        """help [COMMAND]: list the commands, or say what one does."""
        # Two names of one command are listed once, and Ctrl-D is a key.
        names = {name.removeprefix("do_") for name in self.get_names() if name.startswith("do_")} - {"EOF"}
        lines = sorted({getattr(self, f"do_{name}").__doc__ for name in names if arg in ("", name)})
        if not lines:
            raise BadPath(f"there is no command {arg!r}: 'help' lists them")
        print("\n".join(lines))

    def do_EOF(self, line: str) -> bool:  # noqa: N802  The module calls it so.
        """Ctrl-D: end the shell."""
        print()
        return True

    # --- running -----------------------------------------------------------------------------------------------------

    def onecmd(self, line: str) -> bool:
        """Run a line. An error is one line, and the shell goes on."""
        try:
            return bool(super().onecmd(line))
        except BrokenPipeError:
            # The reader of the output is gone.
            raise
        except OSError as error:
            self._fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except KraftError as error:
            self._fail(str(error))
        return False

    def _fail(self, reason: str) -> None:
        self.failed = True
        # What was printed before the error has to appear before it.
        sys.stdout.flush()
        self._say(reason)

    def preloop(self) -> None:
        # A system without readline completes nothing.
        with suppress(ImportError):
            import readline

            # By default a hyphen ends a word, too, and most topics have one.
            readline.set_completer_delims(" /")

    def run(self) -> None:
        """Ask for commands until the user ends the shell. Ctrl-C drops a line, as in other shells."""
        while True:
            try:
                self.cmdloop()
            except Terminated:
                raise
            except KeyboardInterrupt:
                self.intro = ""
                print()
            else:
                return

    def default(self, line: str) -> None:
        raise BadPath(f"there is no command {line.split(maxsplit=1)[0]!r}: 'help' lists them")

    def emptyline(self) -> bool:
        return False

    def completedefault(self, text: str, line: str, begidx: int, endidx: int) -> list[str]:
        """Complete a path; readline gives the part after the last slash."""
        typed = line[:endidx].rsplit(" ", maxsplit=1)[-1]
        parent = typed[: len(typed) - len(text)]
        try:
            found = list(self._found(shlex.quote(parent) if parent else ""))
        except KraftError:
            return []
        return [
            name + ("/" if isinstance(each, Directory) else " ")
            for _, node in found
            if isinstance(node, Directory)
            for name, each in node.entries().items()
            if name.startswith(text)
        ]

    # --- paths -------------------------------------------------------------------------------------------------------

    def _found(self, line: str) -> Iterator[tuple[str, Node]]:
        """Yield what the paths of a line name; without one, the directory where one is. Raises BadPath."""
        try:
            paths = shlex.split(line) or ["."]
        except ValueError as error:
            raise BadPath(f"{line}: {error}") from error
        if refused := next((each for each in paths if each.startswith(("-", "|", ">"))), None):
            raise BadPath(
                f"{refused}: commands take paths only: for pipes and options of others give the command at once, as in"
                " 'kraft metadata shell DIRECTORY find /topics | grep orders'"
            )
        for path in paths:
            yield from self._matching(path)

    def _matching(self, path: str) -> list[tuple[str, Node]]:
        wanted: list[str] = [] if path.startswith("/") else list(self._directory)
        for part in path.split("/"):
            if part == "..":
                del wanted[-1:]
            elif part not in ("", "."):
                wanted.append(part)
        found: list[tuple[tuple[str, ...], Node]] = [((), self._root)]
        for part in wanted:
            found = [
                ((*parts, name), node)
                for parts, directory in found
                if isinstance(directory, Directory)
                for name, node in _entries(directory, part)
            ]
        if not found:
            raise BadPath(f"there is no {path}")
        return [("/" + "/".join(parts), node) for parts, node in found]


def _entries(directory: Directory, wanted: str) -> list[tuple[str, Node]]:
    entries = directory.entries()
    if wanted in entries:
        return [(wanted, entries[wanted])]
    if not _PATTERN.intersection(wanted):
        return []
    return [(name, node) for name, node in entries.items() if fnmatchcase(name, wanted)]


def _names(directory: Directory) -> Sequence[str]:
    return [name + ("/" if isinstance(each, Directory) else "") for name, each in directory.entries().items()]


def _parts(path: str) -> tuple[str, ...]:
    return tuple(each for each in path.split("/") if each)


def _needed(line: str, usage: str) -> str:
    if not line.strip():
        raise BadPath(f"name a path: {usage}")
    return line
