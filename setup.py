"""The two things that a build makes: code from the protobuf contracts, and the compiled record codec.

Everything else about the package is in pyproject.toml. Generated code is written into the source tree, where it is
ignored by git: it is built, never edited. The codec is two ordinary Python files; mypyc compiles them where a C
compiler works, and where none does (or with KRAFT_PURE=1 in the environment) the same files are used as they are.
"""

from __future__ import annotations

import os
import shutil
import sys
from importlib.resources import files
from pathlib import Path

from setuptools import Command, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
PROTO_FOLDER = Path("proto/kraft/v1")
RPC_MESSAGES = Path("kraft/rpc/pb")
QUORUM_MESSAGES = Path("kraft/quorum/pb")
CODEC = [Path("kraft/log/format/record_codec.py"), Path("kraft/log/format/arrow_columns.py")]
CODEC_GROUP = "kraft.log.format.record_codec"

# Compiling takes seconds, so it is left alone when setuptools is only asked for the package's metadata.
COMPILING_COMMANDS = {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"}


def generate_messages() -> None:
    """Writes the Python side of every contract, and deletes what an earlier contract left behind."""
    contracts = sorted((ROOT / PROTO_FOLDER).glob("*.proto"))
    if not contracts:
        raise SystemExit(f"kraft: {PROTO_FOLDER} holds no .proto file; is this a complete copy of the source?")
    quorum = [contract for contract in contracts if contract.name == "raft.proto"]
    generate_package(QUORUM_MESSAGES, quorum)
    generate_package(RPC_MESSAGES, [contract for contract in contracts if contract not in quorum])


def generate_package(package: Path, contracts: list[Path]) -> None:
    from grpc_tools import protoc

    (ROOT / package).mkdir(parents=True, exist_ok=True)
    # protoc names generated modules after the path of the contract, so the folder of the contracts is given to it
    # under the name of the package: the import in the generated code is then the one that works here.
    arguments = [
        "protoc",
        f"-I{package}={ROOT / PROTO_FOLDER}",
        f"-I{files('grpc_tools') / '_proto'}",
        f"--plugin=protoc-gen-mypy={plugin('protoc-gen-mypy')}",
        f"--plugin=protoc-gen-mypy_grpc={plugin('protoc-gen-mypy_grpc')}",
        *(f"--{kind}_out={ROOT}" for kind in ("python", "grpc_python")),
        *(f"--{kind}_out=quiet:{ROOT}" for kind in ("mypy", "mypy_grpc")),
        *(str(package / contract.name) for contract in contracts),
    ]
    if contracts and protoc.main(arguments) != 0:
        raise SystemExit(f"kraft: protoc refused a file of {PROTO_FOLDER}; its message stands above")
    (ROOT / package / "__init__.py").write_text('"""Generated from proto/kraft/v1 at build time; not edited."""\n')
    names = {contract.stem for contract in contracts}
    for generated in (ROOT / package).glob("*_pb2*"):
        if generated.name.split("_pb2")[0] not in names:
            generated.unlink()
    print(f"kraft: generated {package} from {', '.join(contract.name for contract in contracts) or 'no contract'}")


def plugin(name: str) -> str:
    """Where protoc finds a generator: beside this interpreter, or on the path of an isolated build."""
    search_path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=search_path)
    if found is None:
        raise SystemExit(f"kraft: {name} is not installed; it comes with the package mypy-protobuf")
    return found


class GenerateMessages(Command):
    """`python setup.py messages`: the protobuf code alone, in a second."""

    description = "generate Python code from the protobuf contracts"
    user_options: list[tuple[str, str | None, str]] = []  # noqa: RUF012 (setuptools declares it so)

    def initialize_options(self) -> None:
        """Nothing can be chosen."""

    def finalize_options(self) -> None:
        """Nothing can be chosen."""

    def run(self) -> None:
        generate_messages()


class BuildPython(build_py):
    """Generates first: in a fresh clone the packages of generated code do not exist when setuptools looks for them."""

    def run(self) -> None:
        generate_messages()
        generated = {str(package).replace("/", ".") for package in (RPC_MESSAGES, QUORUM_MESSAGES)}
        self.packages = sorted({*(self.distribution.packages or []), *generated})
        if self.editable_mode:
            remove_compiled_codec()
        super().run()


class BuildCodec(build_ext):
    """Compiles the codec, and says whether that worked."""

    def run(self) -> None:
        super().run()
        modules = [Path(self.get_ext_fullpath(extension.name)) for extension in self.extensions]
        if all(module.exists() for module in modules):
            print("kraft: the record codec was compiled with mypyc")
            return
        # mypyc makes modules that need each other; one alone could not be imported.
        for module in modules:
            module.unlink(missing_ok=True)
        if self.editable_mode:
            remove_compiled_codec()
        say_pure("no working C compiler was found")


def remove_compiled_codec() -> None:
    """Python prefers a compiled module in the source tree, even one made from an older version of the file."""
    for file in CODEC:
        for stale in (ROOT / file.parent).glob(f"{file.stem}*.so"):
            stale.unlink()


def codec_extensions() -> list[Extension]:
    """The codec as C source for setuptools, or nothing when there is a reason to leave it in Python."""
    if not COMPILING_COMMANDS & set(sys.argv):
        return []
    if os.environ.get("KRAFT_PURE", "") not in ("", "0"):
        say_pure("KRAFT_PURE is set")
        return []
    for missing in (file for file in CODEC if not (ROOT / file).exists()):
        say_pure(f"{missing} is missing")
        return []
    try:
        from mypyc.build import mypycify

        extensions: list[Extension] = mypycify(
            [str(file) for file in CODEC], opt_level="3", strip_asserts=False, group_name=CODEC_GROUP
        )
    except (ImportError, SystemExit) as problem:  # mypyc ends the process when it cannot translate a file
        say_pure(f"mypyc: {problem}")
        return []
    for extension in extensions:
        # setuptools reports a failed compilation of an optional extension and goes on without it.
        extension.optional = True
    return extensions


def say_pure(reason: str) -> None:
    print(f"kraft: the record codec stays pure Python ({reason})")


if __name__ == "__main__":
    os.chdir(ROOT)
    setup(
        ext_modules=codec_extensions(),
        cmdclass={"build_py": BuildPython, "build_ext": BuildCodec, "messages": GenerateMessages},
    )
