"""The users that a broker has before anybody can log in."""

from ottla.broker.security.first_users import FirstUser, changes_for
from ottla.cluster.changes import apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ScramKey
from ottla.net.sasl.scram import scram_keys

KEY = ScramKey("admin", 2)


def image():
    return ClusterImage("cluster")


def salt(size):
    return b"s" * size


def test_what_is_kept_is_what_a_login_needs():
    (change,) = changes_for(image(), [FirstUser("admin", "secret")], salt)
    expected = scram_keys("SCRAM-SHA-512", "secret", salt=b"s" * 26, iterations=16_384)
    assert change.key == KEY
    assert (change.credential.salt, change.credential.iterations) == (expected.salt, expected.iterations)
    assert (change.credential.stored_key, change.credential.server_key) == (expected.stored_key, expected.server_key)


def test_a_user_who_is_there_keeps_his_password_unless_it_is_replaced():
    there = apply_all(image(), changes_for(image(), [FirstUser("admin", "secret")], salt))
    assert changes_for(there, [FirstUser("admin", "other")], salt) == ()
    (change,) = changes_for(there, [FirstUser("admin", "other", replace=True)], salt)
    assert change.credential != there.scram_credentials[KEY]


def test_no_password_is_printed():
    assert "secret" not in repr(FirstUser("admin", "secret"))
