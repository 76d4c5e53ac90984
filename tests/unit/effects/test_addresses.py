"""Which addresses a rule may make us talk to."""

from __future__ import annotations

import socket

import pytest

from penstock.effects.addresses import admission, is_public, is_somewhere

PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "172.32.0.1",
    "192.169.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "2001:4860::8888",
]
PUBLIC += ["::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
PRIVATE = ["127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"]
PRIVATE += [
    "169.254.169.254",
    "100.64.0.1",
    "192.0.0.8",
    "192.0.2.1",
    "198.18.0.1",
    "192.88.99.1",
    "240.0.0.1",
]
PRIVATE += ["::1", "fe80::1", "fe80::1%lo", "fc00::1", "fd00:ec2::254", "fec0::1", "2001:db8::1", "3fff::1"]
PRIVATE += ["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "2001:0:1::1"]
PRIVATE += [
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::1",
    "2002:a00:1::",
    "64:ff9b:1::1",
    "100::1",
]
NOBODY = ["0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0", "224.0.0.1", "ff02::1", "255.255.255.255", "", "name"]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_host_on_the_internet_may_be_talked_to(address):
    assert is_public(address)
    assert admission(False)(address)


@pytest.mark.parametrize("address", PRIVATE)
def test_this_machine_and_its_neighbours_only_when_asked_for(address):
    assert not admission(False)(address)
    assert admission(True)(address)


@pytest.mark.parametrize("address", NOBODY)
def test_what_is_no_single_host_is_never_talked_to(address):
    assert not is_public(address)
    assert not is_somewhere(address)


@pytest.mark.parametrize(
    "host", ["2130706433", "0177.0.0.1", "0x7f.1", "127.1", "0x7f000001", "017700000001"]
)
def test_the_resolver_undoes_odd_spellings_before_we_judge(host):
    found = socket.getaddrinfo(host, 80, type=socket.SOCK_STREAM)
    assert not any(is_public(str(info[4][0])) for info in found)
