"""Tables and JSON."""

import io
import json

from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.output import Output, aligned, escaped


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_columns_are_aligned_and_numbers_stand_to_the_right():
    assert aligned(["TOPIC", "PARTITIONS", "INTERNAL"], [("orders", 3, False), ("payments", 12, True)]) == [
        "TOPIC     PARTITIONS  INTERNAL",
        "orders             3  no",
        "payments          12  yes",
    ]


def test_an_empty_table_is_its_headings_and_what_is_missing_a_dash():
    assert aligned(["A", "B"], []) == ["A  B"]
    assert aligned(["A", "B"], [(None, 1)])[1] == "-  1"


def test_wide_characters_take_two_places():
    assert aligned(["NAME", "X"], [("日本", "a"), ("abcd", "b")]) == ["NAME  X", "日本  a", "abcd  b"]


def test_colours_are_for_terminals_only_and_can_be_refused():
    for stream, environment, coloured in [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (io.StringIO(), {}, False),
    ]:
        Output(stream, environment=environment).table(["A"], [("x",)])
        assert ("\033[1m" in stream.getvalue()) is coloured


def test_json_is_an_array_of_objects_and_has_no_lines_for_people():
    stream = io.StringIO()
    out = Output(stream, form="json")
    out.line("for people")
    out.table(["TOPIC", "LOG-END OFFSET"], [("orders", 3)])
    assert json.loads(stream.getvalue()) == [{"topic": "orders", "log_end_offset": 3}]


def test_records_cannot_move_the_cursor():
    stream = Terminal()
    out = Output(stream, environment={"NO_COLOR": "1"})
    out.table(["VALUE"], [("a\033[2J\nb\u202e",)])
    out.line("x\ry")
    assert stream.getvalue() == "VALUE\na\\x1b[2J\\nb\\u202e\nx\\ry\n"


@given(st.lists(st.tuples(st.text(), st.integers()), max_size=5))
def test_any_table_has_one_line_per_row(rows):
    assert all(len(line.splitlines()) <= 1 for line in aligned(["A", "B"], rows))
    assert len(aligned(["A", "B"], rows)) == len(rows) + 1


def test_escaped_leaves_ordinary_text_alone():
    assert escaped("Ünïcode 日本 ok") == "Ünïcode 日本 ok"


# --- narrow terminals ---

MEMBERS = (("MEMBER", "PARTITIONS", "ASSIGNMENT"), [("consumer-1-abcdefghijklmnop", 3, "orders-0, orders-1, orders-2")])


def test_a_table_that_is_too_wide_folds_its_widest_texts_and_loses_nothing():
    lines = aligned(*MEMBERS, columns=40)
    assert max(map(len, lines)) <= 40
    assert lines[0].split() == ["MEMBER", "PARTITIONS", "ASSIGNMENT"]
    assert "".join(line[:13].strip() for line in lines[1:]) == "consumer-1-abcdefghijklmnop"
    assert " ".join(line.split("  ")[-1].strip() for line in lines[1:] if "orders" in line).count("orders") == 3


def test_a_table_that_fits_stays_as_it_is():
    assert aligned(*MEMBERS, columns=200) == aligned(*MEMBERS)


def test_a_terminal_that_is_narrower_than_everything_gets_the_whole_table():
    assert aligned(*MEMBERS, columns=10) == aligned(*MEMBERS)


def test_wide_letters_are_folded_by_the_places_they_take():
    lines = aligned(("NAME", "N"), [("漢" * 20, 1)], columns=20)
    assert "".join(line.split()[0] for line in lines[1:]) == "漢" * 20
    assert len(lines) > 3
