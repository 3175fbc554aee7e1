"""What an editor offers after `tf.`: the language server of pyright is queried as an editor does."""
import json
import subprocess
import sys

import pytest

from tests.typing.test_programs import FOLDER, ROOT

WANTED = {
    "import penstock as tf\ntf.": {"constant", "function", "GradientTape", "Variable", "data", "keras", "matmul"},
    "import penstock as tf\ntf.keras.layers.": {"Conv2D", "Dense", "Embedding", "LSTM", "MultiHeadAttention"},
    "import penstock.compat.v1 as tf\ntf.": {"placeholder", "Session", "get_variable", "train", "while_loop"},
    "import penstock as tf\ntf.data.Dataset.range(3).": {"batch", "interleave", "map", "prefetch", "shuffle"},
}


class Editor:
    """A client of a language server, which reads and writes messages with a header that gives their length."""

    def __init__(self, folder):
        self._server = subprocess.Popen([sys.executable, "-m", "pyright.langserver", "--stdio"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder)
        self._number = 0
        self._folder = folder

    def __enter__(self):
        self.ask("initialize", processId=None, rootUri=self._folder.as_uri(), capabilities={})
        self.send("initialized")
        return self

    def __exit__(self, *exc):
        self.ask("shutdown")
        self.send("exit")
        self._server.stdin.close()
        self._server.stdout.close()
        self._server.wait(60)

    def send(self, method, **params):
        self._write({"method": method, "params": params})

    def ask(self, method, **params):
        """The result of a request. What the server asks in the meantime is answered with nothing."""
        self._number += 1
        self._write({"id": self._number, "method": method, "params": params})
        while True:
            message = self._read()
            if message.get("id") == self._number and "method" not in message:
                return message["result"]
            if "id" in message:
                asked = message.get("params") or {}
                self._write({"id": message["id"], "result": [None] * len(asked.get("items", ())) or None})

    def _write(self, message):
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self._server.stdin.flush()

    def _read(self):
        length = 0
        while line := self._server.stdout.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        assert length, "the language server has ended"
        return json.loads(self._server.stdout.read(length))


@pytest.fixture(scope="module")
def editor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("editor")
    config = json.loads((FOLDER / "pyrightconfig.json").read_text())
    (folder / "pyrightconfig.json").write_text(json.dumps({**config, "include": ["."], "extraPaths": [str(ROOT / "src")]}))
    with Editor(folder) as found:
        found.folder = folder
        yield found


@pytest.mark.parametrize("text", WANTED, ids=lambda text: text.replace("\n", "; "))
def test_names_that_an_editor_offers(editor, text):
    file = (editor.folder / f"program{list(WANTED).index(text)}.py").as_uri()
    editor.send("textDocument/didOpen", textDocument={"uri": file, "languageId": "python", "version": 1, "text": text})
    lines = text.splitlines()
    found = editor.ask("textDocument/completion", textDocument={"uri": file},
                       position={"line": len(lines) - 1, "character": len(lines[-1])})
    offered = {item["label"] for item in (found["items"] if isinstance(found, dict) else found)}
    assert WANTED[text] <= offered, sorted(WANTED[text] - offered)
