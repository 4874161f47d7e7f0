"""Node sets: what people write, what they get wrong, and what is refused before it is expanded."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.errors import InputError
from gpuwatch.job.nodeset import Address, expand


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gpu[001-003]", [Address("gpu001"), Address("gpu002"), Address("gpu003")]),
        ("gpu[1-2]x[1-2]", [Address(f"gpu{a}x{b}") for a in "12" for b in "12"]),
        ("gpu[1-5/2] login", [Address("gpu1"), Address("gpu3"), Address("gpu5"), Address("login")]),
        ("gpu[1-3]!gpu2", [Address("gpu1"), Address("gpu3")]),
        ("ann@gpu[1-2]:2222, bob@x", [
            Address("gpu1", 2222, "ann"), Address("gpu2", 2222, "ann"), Address("x", None, "bob"),
        ]),
        ("proxyuser:target@host:2222", [Address("host", 2222, "proxyuser:target")]),
        ("ann@corp.example@gpu1", [Address("gpu1", None, "ann@corp.example")]),
        (r"CORP\alice@gpu1", [Address("gpu1", None, r"CORP\alice")]),
        ("[2001:db8::28]", [Address("2001:db8::28")]),
        ("[2001:db8::28]:2222", [Address("2001:db8::28", 2222)]),
        ("ann@[2001:db8::28]:2222", [Address("2001:db8::28", 2222, "ann")]),
        ("2001:db8::28", [Address("2001:db8::28")]),
        ("[fe80::1%eth0.7]:22", [Address("fe80::1%eth0.7", 22)]),
    ],
)  # fmt: skip
def test_what_people_write(text: str, found: list[Address]) -> None:
    assert list(expand(text)) == found


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "empty"),
        (" , ", "empty"),
        ("gpu1!gpu1", "empty"),
        ("@all", "group"),
        ("gpu1,@all", "group"),
        ("ann@", "no host"),
        ("gpu[1-", "gpu[1-"),
        ("gpu[]", "range"),
        ("gpu[3-1]", "gpu[3-1]"),
        ("gpu[a-b]", "range"),
        ("-oProxyCommand=x", "no host name"),
        ("-l@gpu1", "no user name"),
        ("@a@gpu1", "no user name"),
        ("gpu*", "no host name"),
        ("5", "no host name"),
        ("[1-3]", "no host name"),
        ("gpu1:0", "no port"),
        ("gpu1:65536", "no port"),
        ("gpu1:", "no port"),
        ("[2001:zz::]:22", "IPv6"),
        ("fe80::1%", "no interface"),
        ("[fe80::1%$(id)]", "no interface"),
        ("[fe80::1%eth0 x]", "no interface"),
        ("gpu1\x1b[31m", "gpu1"),
        ("a" * 70_000, "64,000"),
    ],
)
def test_what_is_refused(text: str, names: str) -> None:
    with pytest.raises(InputError) as error:
        expand(text)
    assert names in str(error.value)
    assert "\x1b" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "gpu[1-30000000]",
        "gpu[1-999999999999999999]",
        "a[1-1000]b[1-1000]",
        "n[1-10001]",
        "ann@n[0-10000]:22",
    ],
)
def test_large_ranges_are_refused_before_they_are_expanded(text: str) -> None:
    begin = time.process_time()
    with pytest.raises(InputError, match="at most 10,000"):
        expand(text)
    assert time.process_time() - begin < 0.5


def test_ten_thousand_are_taken() -> None:
    assert len(expand("n[1-10000]")) == 10_000


@given(st.text(st.sampled_from("ab1[]-,/:@!&^ .\\%*x09"), max_size=40) | st.text(max_size=40))
def test_any_text_is_a_set_or_an_input_error(text: str) -> None:
    try:
        found = expand(text)
    except InputError:
        return
    assert found
    assert all(a.host and "@" not in a.host and "[" not in a.host for a in found)
