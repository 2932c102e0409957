"""Which names and other short texts are taken."""

import pytest

from workbench.short_text import check_short_text


@pytest.mark.parametrize(
    "name", ["Zoë", "山田\u3000太郎", "می\u200cخواهم", "क्\u200dष", "\U0001f469\u200d\U0001f680 rocket", "a\u00a0b"]
)
def test_names_of_all_scripts_are_taken(name):
    assert check_short_text(f" {name}\u00a0") == name


@pytest.mark.parametrize("text", ["a\x1bb", "a\x00", "a\nb", "a\u202eb", "\ufeffa", "a\u2028b", "a\ud800"])
def test_what_a_terminal_or_a_database_cannot_handle_is_refused(text):
    with pytest.raises(ValueError, match="control characters"):
        check_short_text(text)


@pytest.mark.parametrize("text", [" ", "\u3000", "\u200d", " \u200c\u200d "])
def test_what_nobody_sees_is_refused(text):
    with pytest.raises(ValueError, match="spaces alone"):
        check_short_text(text)
