"""What counts as a secret, and what only looks like one."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanomem.secrecy import secrets_in

PEM = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ\n-----END OPENSSH PRIVATE KEY-----"
)
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0NDE3In0.q9Zk3VxT7wLmPb2RcYd0HsJfGmU1uEa53oKtQ4i8NnE"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("It wants ghp_8Qm3VtRxK1sWz6LbPc9DyHnJfTgU2uEa47oZ.", "ghp_8Qm3VtRxK1sWz6LbPc9DyHnJfTgU2uEa47oZ"),
        ("glpat-Zk3Vx8Qw1Lm6Tn9Rb2Yc, new", "glpat-Zk3Vx8Qw1Lm6Tn9Rb2Yc"),
        ("key sk-proj-Vb4NcYd0HsJfGm1uEa53oKtQ!", "sk-proj-Vb4NcYd0HsJfGm1uEa53oKtQ"),
        ("(sk-ant-api03-Lq9xKw2PmRt7)", "sk-ant-api03-Lq9xKw2PmRt7"),
        (
            "https://maps.example/?key=AIzaSyB7q2Lk9Xw4Tz8Rv1Np6Mc3Jd5Hf0Gs2Ae",
            "AIzaSyB7q2Lk9Xw4Tz8Rv1Np6Mc3Jd5Hf0Gs2Ae",
        ),
        ("AKIAZ7Q4M2X9T6R3W8VK", "AKIAZ7Q4M2X9T6R3W8VK"),
        ("aws secret access key: q8Rt/Zk3Vx8Qw1Lm6Tn9Rb2Yc+Pd5Hf0Gs2AeU7o", "q8Rt/Zk3Vx8Qw1Lm6Tn9Rb2Yc+Pd5Hf0Gs2AeU7o"),
        ("sk_live_9aBc8dEf7gHi6jKl5mNo4pQr", "sk_live_9aBc8dEf7gHi6jKl5mNo4pQr"),
        (
            "令牌xoxb-204857113096-3318457720941-QwErTyUiOpAsDfGh在这里",
            "xoxb-204857113096-3318457720941-QwErTyUiOpAsDfGh",
        ),
        ("4417203958:AAG7vTq2Lk9Xw4Tz8Rv1Np6Mc3Jd5Hf0Gs2", "4417203958:AAG7vTq2Lk9Xw4Tz8Rv1Np6Mc3Jd5Hf0Gs2"),
        (f"Bearer {JWT}", JWT),
        (f"My key:\n{PEM}\nIs it fine?", PEM),
        ("It says aQ3zX9kP7mB2nV5cL8sTw", "aQ3zX9kP7mB2nV5cL8sTw"),
        ("EXPORT_TOKEN=abcd1234efgh", "abcd1234efgh"),
        ("postgres://anna:s3cr3t.pw@db.example/x", "s3cr3t.pw"),
        ("card 5555 5555 5555 4444, expires 11/28", "5555 5555 5555 4444"),
        ("5555-5555-5555-4444", "5555-5555-5555-4444"),
        ("卡号6011111111111117，谢谢", "6011111111111117"),
        ("3782 822463 10005 10/29 1234", "3782 822463 10005"),
        ("The password is Moos-Huette-417", "Moos-Huette-417"),
        ('the wifi password for guests is "purple rain"', "purple rain"),
        ("password=hunter2", "hunter2"),
        ("Password: sunflower", "sunflower"),
        ("Passphrase: amber kettle north violin", "amber kettle north violin"),
        ("Das WLAN-Passwort lautet Kaffee!42", "Kaffee!42"),
        ("Mein Kennwort ist jetzt Kaffee42.", "Kaffee42"),
        ("Le mot de passe : Soleil-75", "Soleil-75"),
        ("la contraseña es perro#99", "perro#99"),
        ("密码是Regen2093。", "Regen2093"),
        ("我的密码：天王盖地虎", "天王盖地虎"),
        ("密码现在是 Regen!2093", "Regen!2093"),
        ("パスワードはSakura77です", "Sakura77"),
        ("My PIN is 7305", "7305"),
        ("die PIN ist 0815 oder so", "0815"),
        ("PIN for the garage: 730512", "730512"),
        ("My PIN code for the bank card is 560001", "560001"),
        ("PIN ist 4711", "4711"),
        ('the PIN is "4711"', "4711"),
        ("PIN码是730512", "730512"),
        ("my door code is 4711#", "4711"),
        ("alarm code: 9 1 1 7", "9 1 1 7"),
        ("safe combination is 12-34-56", "12-34-56"),
        ("The combination to the safe is 7-23-15", "7-23-15"),
        ("CVV 123", "123"),
        ("wifi password is sunshine", "sunshine"),
        ("The password is sunshine and everyone knows it", "sunshine"),
        ("Das Passwort lautet Sommer", "Sommer"),
        ("le mot de passe est soleil", "soleil"),
        ("contraseña hunter2!!", "hunter2!!"),
        ("the password for the router is Summer2024", "Summer2024"),
        ("Gmail password is correct horse battery staple", "correct horse battery staple"),
        ("the passphrase is amber kettle north violin.", "amber kettle north violin"),
        ("my seed phrase is abandon ability able about above absent", "abandon ability able about above absent"),
        ("密码是 abc123", "abc123"),
        ("密码是：天王盖地虎", "天王盖地虎"),
        ("パスワードは sakura99", "sakura99"),
        ("Passwort: geheim", "geheim"),
        ("My API token is abcd-1234-xyz", "abcd-1234-xyz"),
        ("the login password is hunter", "hunter"),
        ("client_secret=abc123xyz", "abc123xyz"),
        ("visa 6011000990139424", "6011000990139424"),
        ("4242424242424242 expires 11/28", "4242424242424242"),
        ("paid the invoice with 5555 5555 5555 4444", "5555 5555 5555 4444"),
    ],
)
def test_secrets(text: str, secret: str) -> None:
    """Found whole, as they stand there."""
    assert secret in secrets_in(text)


@pytest.mark.parametrize(
    "text",
    [
        "The password is in the manager",
        "I don't keep passwords. A password manager would be the right home for one.",
        "Password: see the manager",
        "my password is too long. The password is on a sticky note, or somewhere. The password is kept in the safe.",
        "password is wrong. The password is case-sensitive, easy to guess and expired. Password was said and not kept.",
        "das Passwort ist geändert, das Kennwort ist unsicher, das Passwort ist weg. La contraseña es la misma.",
        "My password is Rex's name. My password is password. Passwords are annoying. Password manager 1Password",
        "My PIN code is 560001 and I live in Bengaluru. The alarm code is in the drawer.",
        "The secret to good bread is slow-rise-72h dough, la clave es practicar3veces",
        "My login is ann_smith, my token is E5-ticket, secret: butter-2024x",
        "membership card number 6011000990139424, order no. 5555555555554444, Kundennummer 5555 5555 5555 4444",
        "The tracking number is 6011000990139424; 6011000990139424",
        "The password is well-known by now, and was changed on 3 May",
        "The secret is 500 g of butter. The secret of good bread is patience.",
        "The secret: butter",
        "Login is at 9am, login: marta@post.example",
        "Das Passwort ist sicher. Die Passwörter sind verwahrt.",
        "Le mot de passe est oublié. La clave es la paciencia.",
        "密码忘了，需要重置。密码是妈妈的生日。",
        "The PIN is 5 cm long; put a pin on the map: 12 places",
        "The key of the padlock is at Nils's. Access key is in the drawer.",
        "Call 07700 900555 or 07700 900321, +46 8 5555 1234, 020 7946 0321 020 7946 0777",
        "ISBN 9780306406157, 978-0-306-40615-7",
        "1990 1991 1992 1993, 2001 2005 2009 2016",
        "IBAN DE89 3704 0044 0532 0130 00, GB29 NWBK 6016 1331 9268 19, GB29NWBK60161331926819",
        "20260416123456 and 1713264000000",
        "commit 34c73c56afec8ff9ede9ebcc5fab8af3b7dc1fa8",
        "550e8400-e29b-41d4-a716-446655440000",
        "/home/anna/Projects/Foo2/BarBaz3/main.py, src/Foo2Bar/BazQux3/SomeThing9/Other",
        "https://docs.example/document/d/1A2b3C4d5E6f7G8h9I0jKlMnOpQrStUv/edit",
        "CutRight48DeskGuillotine2026, Model-XPS13-9310-Developer-Edition, IMG_20260416_Berlingo_Plover.jpg",
        "Version 2.4.1-rc3+build20260416, order AP2024001234567",
        "Meeting 2026-04-16 08:30-09:15, room 12-14, 1,450.00 euros, 86 less 54 makes 32 pounds",
        "Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz2024",
    ],
)
def test_no_secrets(text: str) -> None:
    """Names, numbers, dates, addresses, hashes, paths and prose."""
    assert secrets_in(text) == frozenset()


@given(st.text())
def test_any_text_can_be_searched(text: str) -> None:
    """A secret is always a piece of the text."""
    assert all(secret in text for secret in secrets_in(text))


SLOW = ["a", "1", "4242 ", "sk-", "eyJ", "ghp_a1", "password is ", "://a:", "token for a a a ", "_", "a_", "able "]
SLOW += [" ", "\n", ":", "=", "' ", "密码", "密码是", "密码 ", "pin of ", "passphrase is ", "seed phrase: abc def "]
SLOW += ["5555 5555 5555 4444 ", "card 6011000990139424 ", "AB12 ", "api_", "-----BEGIN ", "-----END ", "cvv 1"]


@pytest.mark.parametrize("before", ["", "password is", "密码", "PIN for ", "-----BEGIN PRIVATE KEY-----"])
@pytest.mark.parametrize("piece", SLOW)
def test_a_hostile_text_takes_no_longer_than_its_length_warrants(before: str, piece: str) -> None:
    """No pattern goes back and forth over it."""
    text = (before + piece * 100_000)[:100_000]
    start = time.process_time()
    secrets_in(text)
    assert time.process_time() - start < 2


def test_a_megabyte_of_talk_takes_a_second_or_so() -> None:
    """A Dream asks for every message that it reads."""
    line = (
        "I met Ann at 5 and she said that the wifi password is in the drawer; see https://a.example/b?c=1 (or not).\n"
    )
    text = "".join(f"{number} {line}" for number in range(9_000))
    start = time.process_time()
    secrets_in(text)
    assert time.process_time() - start < 5
