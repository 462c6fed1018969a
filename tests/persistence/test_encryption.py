"""Values that are encrypted before they are stored, and numpy's arrays among them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runwell.errors import CheckpointCorrupt, InvalidConfig, MissingExtra, StorageError, UnserializableType
from runwell.messages import HumanMessage
from runwell.persistence import AesEncryption, InMemorySaver, Serializer, SqliteSaver, SqliteStore
from runwell.persistence.caches import SqliteCache
from runwell.ports.saver import GONE, Commit, TaskRecord

SECRET = "the launch code is 0000"


def commit(old: Any, new: Any, number: int = 0) -> Commit:
    parent = f"c{number - 1}" if number else None
    return Commit(f"c{number}", "t", "", parent, parent, number, 1.0, "loop", {"messages": (old, new)}, [])


def test_nothing_of_a_value_is_readable_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    key = AesEncryption.new_key()
    with SqliteSaver(path, encryption=AesEncryption(key)) as saver:
        first = [HumanMessage(SECRET, id="1")]
        saver.commit(commit(GONE, first))
        saver.commit(commit(first, [*first, HumanMessage(SECRET * 2, id="2")], 1))
        saver.save_task("t", "", "c1", TaskRecord("t1", "ask", writes=[("x", SECRET)], error=SECRET))
        loaded = saver.load("t")
        assert loaded is not None
        assert loaded.values["messages"][1].text == SECRET * 2
        exported = saver.export_thread("t")
        saver.import_thread(exported, thread_id="u")
        assert saver.prune("t", keep=1) == 1
        assert saver.history("t") == [replace(loaded, parent_id=None)]
        assert saver.load("u") is not None
    with SqliteStore(path, encryption=AesEncryption(key)) as store:
        store.put(("a",), "k", {"text": SECRET, "n": 1})
        assert store.search(("a",), filter={"n": 1})[0].value["text"] == SECRET
    with SqliteCache(path, encryption=AesEncryption(key)) as cache:
        cache.set({(("n",), "k"): (SECRET, None)})
        assert cache.get([(("n",), "k")]) == {(("n",), "k"): SECRET}
    stored = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert b"launch code" not in stored
    assert b"runwell_checkpoints" in stored


def test_a_missing_or_wrong_key_says_so_and_gives_nothing(tmp_path: Path) -> None:
    key, other = AesEncryption.new_key(), AesEncryption.new_key()
    with SqliteSaver(tmp_path / "x", encryption=AesEncryption(key)) as saver:
        saver.commit(commit(GONE, [SECRET]))
    with SqliteSaver(tmp_path / "x") as saver, pytest.raises(StorageError, match="encryption=AesEncryption") as caught:
        saver.load("t")
    assert "thread 't'" in str(caught.value)
    wrong = SqliteSaver(tmp_path / "x", encryption=AesEncryption(other))
    with wrong as saver, pytest.raises(StorageError, match="older key"):
        saver.load("t")
    with SqliteSaver(tmp_path / "x", encryption=AesEncryption(other, key)) as saver:  # the key was changed
        first = saver.load("t")
        assert first is not None
        saver.commit(commit(first.values["messages"], [SECRET, "more"], 1))
    with SqliteSaver(tmp_path / "x", encryption=AesEncryption(other, key)) as saver:
        loaded = saver.load("t")
        assert loaded is not None
        assert loaded.values == {"messages": [SECRET, "more"]}


def test_plain_values_are_read_only_when_that_is_said() -> None:
    plain = Serializer().dumps({"x": 1})
    key = AesEncryption.new_key()
    with pytest.raises(StorageError, match="reads_plain"):
        Serializer(encryption=AesEncryption(key)).loads(plain)
    assert Serializer(encryption=AesEncryption(key, reads_plain=True)).loads(plain) == {"x": 1}


def test_changed_bytes_are_noticed() -> None:
    serializer = Serializer(encryption=AesEncryption(AesEncryption.new_key()))
    data = serializer.dumps([SECRET])
    assert serializer.dumps([SECRET]) != data
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 1
        with pytest.raises((StorageError, CheckpointCorrupt)):
            serializer.loads(bytes(broken))
    with pytest.raises(StorageError):
        serializer.loads(data[:10])
    # even with a checksum that fits
    from zlib import crc32

    body = bytearray(data[5:])
    body[-1] ^= 1
    with pytest.raises(StorageError, match="changed"):
        serializer.loads(data[:1] + crc32(body).to_bytes(4, "little") + bytes(body))


def test_keys_that_are_none_are_refused_without_being_shown() -> None:
    for bad in (b"short", "not base64!", "c2hvcnQ=", 5, b"x" * 33):
        with pytest.raises(InvalidConfig) as caught:
            AesEncryption(bad)  # type: ignore[arg-type]
        assert "short" not in str(caught.value)
    for size in (16, 24, 32):
        cipher = AesEncryption(b"k" * size)
        assert cipher.decrypt(cipher.encrypt(b"x")) == b"x"
        assert "kkk" not in repr(cipher)


def test_the_extra_is_named_when_it_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(MissingExtra, match=r"runwell\[encryption\]"):
        AesEncryption(b"k" * 32)


def test_ckpt_06_numpy_arrays_come_back_exactly() -> None:
    numpy = pytest.importorskip("numpy")
    serializer = Serializer()
    arrays = [
        numpy.arange(12, dtype="i8").reshape(3, 4),
        numpy.arange(12, dtype=">f4").reshape(3, 4).T,
        numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)),
        numpy.arange(20)[::3],
        numpy.array(5, dtype="u1"),
        numpy.zeros((0, 3)),
        numpy.array(["a", "日本"]),
        numpy.array([b"x", b"yz"]),
        numpy.array(["2024-01-01", "NaT"], dtype="M8[D]"),
        numpy.array([True, False]),
        numpy.array([1 + 2j]),
        numpy.array([numpy.nan, numpy.inf]),
        numpy.array([""]),
    ]
    for each in arrays:
        back = serializer.loads(serializer.dumps({"x": [each]}))["x"][0]
        assert type(back) is numpy.ndarray
        assert (back.dtype, back.shape) == (each.dtype, each.shape)
        assert numpy.array_equal(back, each, equal_nan=back.dtype.kind in "fcM")
        if back.size:
            back.flat[0] = back.flat[0]  # it can be written to
    for scalar in (
        numpy.float64(1.5),
        numpy.int8(-3),
        numpy.bool_(True),
        numpy.str_("x"),
        numpy.datetime64("2024-01-01"),
    ):
        back = serializer.loads(serializer.dumps(scalar))
        assert type(back) is type(scalar)
        assert back == scalar
    for refused in (
        numpy.array([object()]),
        numpy.zeros(2, dtype=[("a", "i4")]),
        numpy.ma.masked_array([1], [True]),
        numpy.zeros(2, dtype="V3"),
    ):
        with pytest.raises(UnserializableType, match=r"x\[0\]"):
            serializer.dumps([refused], "x")


def test_a_saver_keeps_numpy_arrays_that_change() -> None:
    numpy = pytest.importorskip("numpy")
    saver = InMemorySaver()
    saver.commit(commit(GONE, numpy.zeros(3)))
    saver.commit(commit(numpy.zeros(3), numpy.ones(3), 1))
    loaded = saver.load("t")
    assert loaded is not None
    assert numpy.array_equal(loaded.values["messages"], numpy.ones(3))
